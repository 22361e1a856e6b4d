"""A framework that comes back to a turn it saw undone repeats nothing of it that stays in the world."""

from __future__ import annotations

import pytest

from settlemark import Settlement
from settlemark.agents import open_turn
from settlemark.hosting import run_sync

HIRE, MAIL = ("hire", {"who": "guide"}), ("mail", {"to": "ada"})


class Office:
    def __init__(self):
        self.log = []
        self.fails = True

    def open(self, url):
        settlement = Settlement(url)
        settlement.declare("hire", "opaque", scope="staff:/{who}", function=self.hire)
        settlement.declare("mail", "irreversible", scope="mail:/{to}", function=self.mail)
        return settlement

    def hire(self, who):
        self.log.append(f"hire {who}")
        return {"hired": who}

    def mail(self, to):
        if self.fails:
            raise OSError("no post today")
        self.log.append(f"mail {to}")
        return "sent"

    def turn(self, settlement, *calls):
        """Play a turn as a framework does, and return what each call came to."""
        batch = run_sync(open_turn(settlement, "trip/1", run="trip", resumable=True))
        seats = [batch.place(settlement.declared(tool), given) for tool, given in calls]
        found = []
        for seat, (tool, given) in zip(seats, calls, strict=True):
            try:
                found.append(
                    run_sync(batch.perform(seat, lambda t=tool, g=given: getattr(self, t)(**g), given, may_wait=False))
                )
                run_sync(batch.leave(seat))
            except Exception as error:
                found.append(type(error).__name__)
                run_sync(batch.leave(seat, failed=str(error)))
        return [one if isinstance(one, str | dict) else one.outcome for one in found]


@pytest.fixture(params=["memory", "file"])
def again(request, tmp_path):
    """Return a function that opens the ledger anew, as a new process would."""
    opened, office = [], Office()
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'ledger.db'}"

    def begin():
        if request.param == "file" and opened:
            opened.pop().close()
        if not opened:
            opened.append(office.open(url))
        return opened[-1], office

    yield begin
    opened.pop().close()


def states(settlement):
    return [
        (t.row.attempt, t.state.value, [(e.row.tool, e.outcome.value) for e in t.effects])
        for t in settlement.transactions()
    ]


def test_what_could_not_be_undone_is_answered_from_the_record_and_stays_named(again):
    settlement, office = again()
    assert office.turn(settlement, HIRE, MAIL) == [{"hired": "guide"}, "failed"]
    assert (office.log, [left.tool for left in settlement.residue()]) == (["hire guide"], ["hire"])
    office.fails = False
    settlement, office = again()
    assert office.turn(settlement, HIRE, MAIL) == [{"hired": "guide"}, "confirmed"]
    assert office.log == ["hire guide", "mail ada"]
    assert states(settlement) == [
        (1, "aborted", [("hire", "confirmed"), ("mail", "failed")]),
        (2, "committed", [("mail", "confirmed")]),
    ]
    assert [left.tool for left in settlement.residue()] == ["hire"]


def test_also_when_it_is_undone_again_and_when_it_has_committed(again):
    settlement, office = again()
    office.turn(settlement, HIRE, MAIL)
    settlement, office = again()
    office.turn(settlement, HIRE, MAIL)
    office.fails = False
    for _ in range(2):
        settlement, office = again()
        assert office.turn(settlement, HIRE, MAIL)[0] == {"hired": "guide"}
        assert office.log == ["hire guide", "mail ada"]
    assert [(number, state) for number, state, _ in states(settlement)] == [
        (1, "aborted"),
        (2, "aborted"),
        (3, "committed"),
    ]


def test_another_decision_in_its_place_is_new(again):
    settlement, office = again()
    office.turn(settlement, HIRE, MAIL)
    office.fails = False
    settlement, office = again()
    office.turn(settlement, ("hire", {"who": "driver"}), MAIL)
    assert office.log == ["hire guide", "hire driver", "mail ada"]


def test_plain_code_that_enters_an_undone_name_again_decides_anew(again):
    settlement, office = again()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), settlement.transaction("trip/1") as tx:
            tx.call(settlement.declared("hire").function, who="guide")
            raise ZeroDivisionError
    assert office.log == ["hire guide", "hire guide"]
    assert len(settlement.residue()) == 2
