"""What an obligation is now follows from what stands beside it on record, and which ones are asked for by that."""

from __future__ import annotations

from tests.rooms.ledger import OwedPage, OwedRow, OwedState, RecordedOwed, Told, is_on, stands

from settlemark import State
from settlemark.hosting import Reason

ROW = OwedRow("o1", "case/1", 1, "case", 2, "customer:/7", "refund", "customer:/7", "{}", 1.0, 9.0)
OF = {
    State.OPEN: OwedState.PENDING,
    State.SEALED: OwedState.PENDING,
    State.RELEASING: OwedState.OPEN,
    State.ABORTING: OwedState.VOID,
    State.COMMITTED: OwedState.OPEN,
    State.ABORTED: OwedState.VOID,
}


def test_it_is_owed_from_the_decision_to_commit_on_and_never_was_when_that_is_undone():
    assert {state: RecordedOwed(ROW, committed=state).state for state in State} == OF
    assert RecordedOwed(ROW).state is OwedState.OPEN, "of a transaction that is on record no more"


def test_it_is_withdrawn_with_its_transaction_whatever_has_become_of_it():
    rewound = RecordedOwed(ROW, committed=State.COMMITTED, reason=Reason.REWOUND)
    assert rewound.state is rewound._replace(fulfilled="k").state is OwedState.WITHDRAWN
    assert RecordedOwed(ROW, committed=State.ABORTED, reason=Reason.FAILED, fulfilled="k").state is OwedState.VOID


def test_it_is_fulfilled_by_an_effect_and_waived_by_a_person_for_good():
    done = RecordedOwed(ROW, committed=State.COMMITTED, fulfilled="k")
    assert done.state is OwedState.FULFILLED
    assert [done._replace(committed=state, waived_by="ada").state for state in State] == [OwedState.WAIVED] * len(State)


def test_what_is_owed_or_may_be_keeps_its_transaction_on_record():
    assert [state for state in State if stands(RecordedOwed(ROW, committed=state))] == [
        state for state in State if OF[state] is not OwedState.VOID
    ]
    over = RecordedOwed(ROW, committed=State.COMMITTED)
    for news in ({"fulfilled": "k"}, {"waived_by": "ada"}, {"reason": Reason.REWOUND}):
        assert not stands(over._replace(**news))


def test_a_page_has_what_meets_all_that_is_asked_for():
    found = RecordedOwed(ROW, committed=State.COMMITTED)
    whole = OwedPage(id="o1", tools=("credit", "refund"), run="case", to="customer:/7", due_before=9.5)
    whole = whole._replace(unended=True, untold=True)
    assert is_on(OwedPage(), found)
    assert is_on(whole, found)
    for other in (
        {"id": "o2"},
        {"tools": ("credit",)},
        {"tools": ()},
        {"run": "trip"},
        {"to": "customer:/8"},
        {"due_before": 9.0},
    ):
        assert not is_on(whole._replace(**other), found), other
    for news in ({"fulfilled": "k"}, {"waived_by": "ada"}, {"told": Told.HANDLED}):
        changed = found._replace(**news)
        assert not is_on(whole, changed), news
        assert is_on(whole._replace(unended=False, untold=False), changed), news
        assert is_on(whole._replace(unended="told" not in news, untold=False), changed) is ("told" in news), news
