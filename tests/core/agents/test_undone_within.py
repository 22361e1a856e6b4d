"""What turns share inside another's call is undone by itself; what comes in a call that is being undone is refused."""

from __future__ import annotations

import pytest

from settlemark import Refused, Settlement, effect
from settlemark.agents import AgentRun, Call, Declarations, run_sync, since_answered, words
from settlemark.hosting import host_of


class Office:
    """Two agents, one of which runs the other in a call, and the tools of both."""

    def __init__(self, settlement, *, settle, same_run):
        self.log = []
        self.told = []
        self.declarations = Declarations(settlement)
        self.job = AgentRun(settlement, "trip", settle=settle)
        self.other = self.job if same_run else AgentRun(settlement, "inner", settle=settle)

        @effect("reversible", scope="room:/{at}", undo=lambda at: self.log.append(f"cancel {at}"))
        def book(at):
            if at == "bad":
                raise ValueError("no room")
            self.log.append(f"book {at}")
            return f"booked {at}"

        @effect("idempotent", scope="task:/{at}")
        def task(at):
            return at

        self.tools = {"book": book, "task": task}
        for name, tool in self.tools.items():
            self.declarations.learn(name, tool, arguments=["at"])

    def turn(self, work, *said, runs=None):
        """Have an agent issue calls, and return what it is told of them."""
        turn = work.turn(
            [Call(tool, {"at": at}, self.declarations.of(tool), f"{work.name}-{tool}-{at}") for tool, at in said]
        )
        told = []
        for place, (tool, at) in enumerate(said):
            run = runs if tool == "task" else lambda tool=tool, at=at: self.tools[tool](at)
            try:
                told.append(run_sync(turn.perform(place, run, waits=False)))
            except Exception as error:
                told.append(words(error))
        run_sync(turn.finish())
        return turn, told

    def inner(self):
        """Run the inner agent: a turn, one that fails, and one more."""
        work = self.other.work("inner")
        first, told = self.turn(work, ("book", "a"))
        _, failed = self.turn(work, ("book", "bad"))
        _, more = self.turn(work, ("book", "c"))
        self.told += [*told, *failed, *more, *first.corrections().values()]
        if self.other is not self.job:
            run_sync(self.other.end())
        return "done"


@pytest.fixture
def settlement():
    with Settlement("memory:") as settlement:
        yield settlement


@pytest.mark.parametrize("settle", ["part", "run"])
def test_what_an_agent_inside_a_call_shared_is_undone_without_the_call_and_it_begins_anew(settlement, settle):
    office = Office(settlement, settle=settle, same_run=False)
    _, told = office.turn(office.job.work("outer"), ("book", "z"), ("task", "it"), runs=office.inner)
    run_sync(office.job.end())

    assert office.log == ["book z", "book a", "cancel a", "book c"]
    assert told == ["booked z", "done"]
    booked, bad, more, correction = office.told
    assert (booked, more) == ("booked a", "booked c")
    assert "no room" in bad
    assert correction == "undone: book had succeeded, and was undone because book failed: ValueError: no room"
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_of_what_was_undone_inside_a_call_that_still_runs_it_is_told_why_and_of_the_rest_nothing(settlement):
    office, told = Office(settlement, settle="part", same_run=False), {}

    def inner():
        found = office.inner()
        keys = [effect.row.key for recorded in settlement.transactions() for effect in recorded.effects]
        told.update({key: since.told for key, since in since_answered(settlement, keys).items() if since.told})
        return found

    office.turn(office.job.work("outer"), ("book", "z"), ("task", "it"), runs=inner)

    assert [*told.values()] == [
        "undone: book had succeeded, and was undone because its turn failed: book failed: ValueError: no room"
    ]


def test_what_comes_in_a_call_that_is_being_undone_is_refused_and_what_is_to_be_undone_is_not_said_to_stay(settlement):
    office = Office(settlement, settle="run", same_run=True)
    office.turn(office.job.work("outer"), ("book", "z"), ("task", "it"), runs=office.inner)
    with pytest.raises(Refused, match="was undone, with all that was to settle together"):
        run_sync(office.job.end())

    assert office.log == ["book z", "book a", "cancel a", "cancel z"]
    _, _, more, correction = office.told
    assert more.startswith(
        "Refused: nothing more is run in task: trip/*/1, of which that call is a part, is being undone"
    )
    assert correction.startswith("being undone: book had succeeded, and is undone as soon as the call")
    assert [left.tool for left in settlement.residue()] == ["task"]
    assert host_of(settlement).protocol.live == {}
