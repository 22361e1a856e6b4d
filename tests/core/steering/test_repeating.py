"""A step that stands is told what it was told when it was decided, whatever the steps before it leave on record."""

from __future__ import annotations

import contextlib

import pytest

from settlemark import effect

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


@effect("read", scope="trip:/{place:path}")
def look(place):
    return place


def nothing(tx, agency):
    pass


def reading(tx, agency):
    tx.call(look, place="map")


def failing(tx, agency):
    raise ValueError


def failing_late(tx, agency):
    tx.call(agency.book, place="zoo")
    raise ValueError


FIRST = {
    "does nothing": (nothing, []),
    "only reads": (reading, []),
    "fails, and is caught": (failing, []),
    "is undone, and is caught": (failing_late, ["book zoo", "cancel zoo"]),
}


class Plan:
    """A run whose first step leaves nothing that stands, and whose second books the hotel that was said last.

    Args:
        agency: where it books.
        first: what its first step does.
        before_end: called before the last step, with the number of this call of the program.
    """

    def __init__(self, agency, first, before_end=lambda call: None):
        self.agency, self.first, self.before_end = agency, first, before_end
        self.told = []  # of each call of the program, what its steps were told

    def __call__(self, run):
        told = {}
        self.told.append(told)

        def step(name, act):
            with run.step(name) as tx:
                told[name] = [said.text for said in run.said]
                act(tx)

        with contextlib.suppress(ValueError):
            step("plan", lambda tx: self.first(tx, self.agency))
        step("hotel", lambda tx: self.book(tx, f"hotel/{told['hotel'][-1] if told['hotel'] else 'Ada'}"))
        step("museum", lambda tx: self.book(tx, "museum"))
        self.before_end(len(self.told))
        step("end", lambda tx: self.book(tx, "end"))

    def book(self, tx, place):
        tx.call(self.agency.book, place=place)


@pytest.mark.parametrize("case", FIRST)
def test_a_step_that_stands_is_not_told_what_was_said_later_where_the_first_one(settlement, agency, case):
    first, log = FIRST[case]

    def say(call):
        if call == 1:
            settlement.steer("trip", "revise", "Bee", scope="trip:/museum", by="eve")

    plan = Plan(agency, first, say)
    settlement.steered("trip", plan)
    known, late = {"plan": [], "hotel": []}, {"museum": ["Bee"], "end": ["Bee"]}
    assert plan.told == [{**known, "museum": []}, {**known, **late}]
    again = Plan(agency, first)
    settlement.steered("trip", again)
    assert again.told == [{**known, **late}]
    assert agency.log == [
        *log, "book hotel/Ada", "book museum", "cancel museum", *log, "book museum", "book end", *log,
    ]  # fmt: skip # a list of names and values
    (said,) = settlement.steering("trip")
    assert (said.state, said.before, said.told, said.rewound) == ("done", "end", "museum", ("trip/museum",))


@pytest.mark.parametrize("case", FIRST)
def test_an_addition_that_is_said_between_two_processes_waits_for_what_is_decided_now_where_the_first_step(
    settlement, agency, case
):
    first, log = FIRST[case]

    def end(call):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        settlement.steered("trip", Plan(agency, first, end))
    settlement.steer("trip", "add", "Bee", by="eve")
    for _ in range(2):
        again = Plan(agency, first)
        settlement.steered("trip", again)
        assert again.told == [{"plan": [], "hotel": [], "museum": [], "end": ["Bee"]}]
    (said,) = settlement.steering("trip")
    assert (said.state, said.before, said.told) == ("done", "end", "end")
    assert agency.log == [*log, "book hotel/Ada", "book museum", *log, "book end", *log]


@pytest.mark.parametrize("case", FIRST)
def test_what_the_first_step_was_told_as_the_next_was_decided_is_told_to_it_again_where_it(settlement, agency, case):
    first, log = FIRST[case]
    settlement.steer("trip", "add", "Bee", by="eve")
    for _ in range(2):
        plan = Plan(agency, first)
        settlement.steered("trip", plan)
        assert plan.told == [{"plan": ["Bee"], "hotel": ["Bee"], "museum": ["Bee"], "end": ["Bee"]}]
    assert settlement.steering("trip")[0].told == "plan"
    assert agency.log == [*log, "book hotel/Bee", "book museum", "book end", *log]


def test_a_transaction_of_the_run_that_is_none_of_its_steps_keeps_nobody_from_being_told(settlement, agency):
    told = []

    def plan(run):
        told.clear()
        with run.step("1") as tx:
            tx.call(agency.book, place="day/1")
        with settlement.transaction("trip/aside", run="trip") as tx:
            tx.call(agency.book, place="aside")
        for number in range(2, 5):
            with run.step(str(number)) as tx:
                told.append([said.text for said in run.said])
                if end and number == end[0]:
                    raise InterruptedError
                tx.call(agency.book, place=f"day/{number}")

    end = [2]
    with pytest.raises(InterruptedError):
        settlement.steered("trip", plan)
    settlement.steer("trip", "add", "Bee", by="eve")
    end.clear()
    settlement.steered("trip", plan)
    assert told == [[], ["Bee"], ["Bee"]]
    assert agency.log == [f"book {each}" for each in ("day/1", "aside", "day/2", "day/3", "day/4")]


def test_what_was_said_before_all_was_undone_is_told_to_the_first_step_of_what_is_decided_anew(settlement, agency):
    def plan(run):
        with run.step("hotel") as tx:
            tx.call(agency.book, place=f"hotel/{len(run.said)}")

    settlement.steered("trip", plan)
    settlement.steer("trip", "add", "a window seat", by="ada")
    settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada")
    settlement.steered("trip", plan)
    assert agency.log == ["book hotel/0", "cancel hotel/0", "book hotel/2"]
    assert [(said.state, said.told) for said in settlement.steering("trip")] == [("done", "hotel")] * 2
