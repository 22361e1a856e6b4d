"""A day of a treasury, with the day's troubles: the counterparties' own logs say that nothing of it is wrong.

`SETTLEMARK_TESTS=all` plays two hundred days.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from settlemark import State
from settlemark.testing import can_fork

TREASURY = Path(__file__).parents[2] / "examples" / "treasury"
DAYS = 200 if os.environ.get("SETTLEMARK_TESTS") == "all" else 12

pytestmark = pytest.mark.skipif(not can_fork(), reason="a process that is killed is forked")


@pytest.fixture(scope="module")
def treasury():
    """The example's modules: `__main__` as `treasury.play`, and so on."""
    sys.path.insert(0, str(TREASURY))
    try:
        import playing

        yield playing
    finally:
        sys.path.remove(str(TREASURY))


@pytest.fixture(scope="module")
def them(treasury, tmp_path_factory):
    with treasury.Counterparties(tmp_path_factory.mktemp("treasury")) as them:
        yield them


@pytest.fixture
def play(treasury, them):
    """Play a day that all happens on, with a trouble, in both ways."""

    def play(settles=True, **trouble):
        script, trouble = treasury.Script("today"), treasury.Trouble(**trouble)
        return treasury.play_once(them, script, trouble, settles=settles), treasury.faults(them, script)

    return play


@pytest.fixture
def record(treasury, them):
    """Ask the ledger of the day that was played last."""

    def record(ask):
        settlement, clock = treasury.settlement_of(them.home, treasury.MORNING + 2 * 86_400)
        with settlement:
            return ask(
                settlement, treasury.Day(settlement, them, treasury.tools_of(them), clock, treasury.Script("today"))
            )

    return record


@pytest.mark.deep
def test_days_drawn_with_faults_and_deaths_break_no_promise_and_each_wire_has_its_reason(
    treasury, them, record_property
):
    played = [treasury.play(them, number, seed=8) for number in range(DAYS)]

    assert [(day.date, day.faults, day.unexplained) for day in played if day.faults or day.unexplained] == []
    assert sum(day.deaths for day in played) > 0
    assert sum(1 for day in played if day.naive) > DAYS / 2, "the same troubles do nothing to the same agent without"
    record_property("treasury", treasury.summary(played))


@pytest.mark.parametrize("strike", range(1, 34, 4))
def test_a_process_that_dies_at_any_act_leaves_the_day_to_the_next_one(play, strike):
    assert play(deaths=(strike,)) == (1, [])


@pytest.mark.deep
def test_a_process_may_die_again_and_again(play):
    assert play(deaths=(5, 9, 3)) == (3, [])


def test_a_hedge_of_which_one_leg_is_refused_is_none_and_is_named(play, record):
    assert play(refuses=True) == (0, [])
    assert record(lambda _, day: day.open_items()) == ["not done: today/hedge"]


def test_a_bank_that_loses_its_answer_is_asked(treasury, play):
    assert play(lost=tuple(treasury.OPENING)) == (0, [])


def test_a_revision_at_noon_undoes_the_sweep_that_it_is_against_and_no_other(play, record):
    assert play() == (0, [])
    (said,) = record(lambda settlement, _: settlement.steering("today"))
    assert said.rewound == ("today/sweep-harbour",)
    assert [each.tool for each in said.undone] == ["post", "wire"]


def test_a_question_that_nobody_answers_is_a_no_and_then_goes_on_to_another(play, record):
    assert play() == (0, [])

    def asked(settlement, _):
        return [
            (each.state, [effect.outcome.value for effect in each.effects if effect.row.tool == "pay"])
            for each in settlement.transactions(run="today")
            if each.row.name == "today/loan"
        ]

    assert record(asked) == [(State.ABORTED, ["dropped"]), (State.COMMITTED, ["confirmed"])]


def test_a_filing_is_written_anew_when_money_comes_in_meanwhile(play, record):
    assert play() == (0, [])
    states = record(
        lambda settlement, _: [e.state for e in settlement.transactions(run="today") if e.row.name == "today/filing"]
    )
    assert states == [State.ABORTED, State.COMMITTED]


def test_what_is_owed_on_the_next_morning_is_named_on_the_evening_and_done_then(them, play, record):
    assert play() == (0, [])
    (report,) = [mail["body"] for mail in them.mail.messages() if mail["to"].startswith("cfo")]
    assert report.splitlines() == ["owed: take back the loan of 150", "everything else is settled"]
    assert record(lambda settlement, _: [str(owed.state) for owed in settlement.obligations()]) == ["void", "fulfilled"]


def test_the_audit_of_the_day_finds_the_record_as_it_was_written(play, record):
    assert play(deaths=(9,)) == (1, [])
    assert record(lambda settlement, _: settlement.audit("today").intact)


@pytest.mark.parametrize(
    ("trouble", "fault"),
    [
        ({"deaths": (2,)}, "the books have +0 on union:fund, the bank has +440"),
        ({"refuses": True}, "half a hedge: its legs came to 120"),
        ({}, "a filing with stale balances of harbour"),
        ({"lost": ("harbour",)}, "doubled: ops to fund at harbour, 2 times"),
    ],
)
def test_the_same_agent_without_a_settlement_breaks_what_its_transcript_does_not_tell(play, trouble, fault):
    _, found = play(settles=False, **trouble)
    assert fault in found


def test_the_books_refuse_an_entry_that_does_not_balance(treasury, them):
    them.reset()
    with pytest.raises(ValueError, match="the entry e1 does not balance"):
        them.books.post("e1", [("a", "USD", 5), ("b", "EUR", -5)])
    assert them.books.lines() == []


def test_the_days_that_are_drawn_are_the_same_each_time(treasury):
    drawn = [treasury.Trouble.of(random.Random(f"1/{number}")) for number in range(20)]
    assert drawn == [treasury.Trouble.of(random.Random(f"1/{number}")) for number in range(20)]
    assert {len(trouble.deaths) for trouble in drawn} == {0, 1, 2}
