"""An agent that runs inside a call, and is resumed in its middle: nothing it did is lost, and nothing comes twice.

A framework keeps how far such an agent came, and calls the tool around it again: the agent goes on behind its last
stored turn, and never comes to the turns before that.
"""

from __future__ import annotations

import pytest

from settlemark import effect
from settlemark.agents import Asked, Shared, keep_answered, open_turn, run_sync
from settlemark.hosting import host_of

PLAN = (
    [("book", "a")],
    [("look", "a")],
    [("book", "b"), ("mail", "m"), ("book", "c")],
    [("task", ([("book", "d")], [("mail", "n"), ("book", "e")]))],
    [("mail", "o"), ("book", "f")],
)
"""Turns of an agent; one of its calls runs an agent of its own."""
MOMENTS = ("before", "within", "unstored", "stored")


class Stop(Exception):
    """A framework's control flow, as when it asks a person, or ends."""


class World:
    """A counterparty with a log of its own, and where a framework stops once."""

    def __init__(self, stop=None):
        self.log = []
        self.stop = stop
        self.settlement = None

        @effect("reversible", scope="room:/{at}", undo=lambda at: self.log.append(f"undo {at}"), name="book")
        def book(at):
            if at == "bad":
                raise ValueError("no room")
            self.log.append(f"book {at}")
            return f"booked {at}"

        @effect("irreversible", scope="mail:/{at}", name="mail")
        def mail(at):
            self.log.append(f"mail {at}")

        @effect("read", scope="room:/{at}", name="look")
        def look(at):
            return at

        self.tools = {"book": book, "mail": mail, "look": look}

    def come(self, *place):
        if place == self.stop:
            self.stop = None
            raise Stop


class Agent:
    """An agent of a framework that keeps how far it came, with the ids of what was answered."""

    def __init__(self, name, plan):
        self.name, self.plan = name, plan
        self.done, self.answered = 0, []
        self.inner = {}

    def run(self, world):
        while True:
            keep_answered(world.settlement, self.answered)  # as before each call of the model
            if self.done == len(self.plan):
                return f"{self.name} is done"
            number, calls = self.done, self.plan[self.done]
            world.come(self.name, number, "before")
            ids = [f"{self.name}-{number}-{place}" for place in range(len(calls))]
            asked = Asked(tuple(ids), tuple(self.answered))
            turn = run_sync(
                open_turn(
                    world.settlement,
                    None,
                    run="trip",
                    within=self.shared(world, asked),
                    resumable=True,
                    let_through=(Stop,),
                    asked=asked,
                )
            )
            self.play(world, turn, number, ids)
            world.come(self.name, number, "unstored")
            self.done, self.answered = number + 1, [*self.answered, *ids]
            world.come(self.name, number, "stored")

    def shared(self, _world, _asked):
        return None

    def play(self, world, turn, number, ids):
        stopped, calls = None, self.plan[number]
        tools = host_of(world.settlement).tools
        seats = []
        for (tool, given), call_id in zip(calls, ids, strict=True):
            arguments = {"name": call_id} if tool == "task" else {"at": given}
            seats.append((turn.place(tools.of(world.tools[tool]), arguments, call_id=call_id), arguments))
        for place, ((tool, given), (seat, arguments)) in enumerate(zip(calls, seats, strict=True)):

            def act(place=place, tool=tool, given=given):
                if place == len(calls) - 1:
                    world.come(self.name, number, "within")
                if tool == "task":
                    return self.inner.setdefault((number, place), type(self)(f"{self.name}.{place}", given)).run(world)
                return world.tools[tool](given)

            error = failed = None
            try:
                run_sync(turn.perform(seat, act, arguments, may_wait=False))
            except Stop as control:
                error = stopped = control
            except ValueError as raised:
                failed = str(raised)
            run_sync(turn.leave(seat, error=error, failed=failed))
        if stopped is not None:
            raise stopped


class Sharing(Agent):
    """An agent whose turns settle together: one that fails undoes those before it, and the next begins anew."""

    def run(self, world):
        self.now = None
        return super().run(world)

    def shared(self, world, asked):
        if self.now is None or self.now.is_undone:
            self.now = Shared(world.settlement, self.name)
        host = host_of(world.settlement)
        return run_sync(
            self.now.enter(lambda: host.begin(None, run="trip", asked=asked._replace(shares=True)), self.done)
        )


def play(world, open_settlement, url, kind, *, elsewhere=False, agent=None):
    """Run the agent inside a call of a turn, again and again until it is not stopped any more."""

    @effect(kind, **({} if kind == "opaque" else {"scope": "task:/{name}"}), name="task")
    def task(name):
        raise AssertionError(name)  # the framework runs it

    world.tools["task"] = task
    world.settlement = open_settlement(url)
    agent = agent or Agent("main", [[("task", PLAN)]])
    for _ in range(3):
        turn = run_sync(open_turn(world.settlement, "trip", run="trip", resumable=True, let_through=(Stop,)))
        try:
            agent.play(world, turn, 0, ["main-0-0"])
        except Stop:
            if elsewhere:
                world.settlement.close()
                world.settlement = open_settlement(url)
            continue
        return turn
    raise AssertionError("it never ends")


def places():
    for name, plan in (("main.0", PLAN), ("main.0.0", PLAN[3][0][1])):
        for number in range(len(plan)):
            for moment in MOMENTS:
                yield name, number, moment


WHOLE = ["book a", "book b", "book c", "book d", "book e", "book f", "mail m", "mail n", "mail o"]


@pytest.mark.parametrize("kind", ["opaque", "idempotent"])
def test_an_agent_inside_a_call_that_is_not_stopped_settles_with_the_call(open_settlement, kind):
    world = World()
    turn = play(world, open_settlement, "memory:", kind)
    assert (world.log, turn.settled, world.settlement.residue()) == (WHOLE, True, [])


@pytest.mark.every_store
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])
@pytest.mark.parametrize("kind", ["opaque", "idempotent"])
@pytest.mark.parametrize("place", [*places()], ids=lambda place: f"{place[0]} turn {place[1]} {place[2]}")
def test_an_agent_that_is_resumed_in_its_middle_loses_nothing_and_does_nothing_twice(
    open_settlement, url, kind, place, elsewhere
):
    if elsewhere and url == "memory:":
        pytest.skip("what is in memory ends with its process")
    world = World(place)
    turn = play(world, open_settlement, url, kind, elsewhere=elsewhere)
    assert world.stop is None
    assert (sorted(world.log), turn.settled) == (sorted(WHOLE), True)
    assert [act for act in world.log if act.startswith("mail")] == ["mail m", "mail n", "mail o"]
    assert (world.settlement.residue(), host_of(world.settlement).protocol.live) == ([], {})


FAILING = (
    [("mail", "l"), ("book", "a")],
    [("book", "bad")],
    [("look", "a")],
    [("mail", "m"), ("book", "b")],
    [("mail", "n"), ("book", "c")],
)
"""Turns that settle together, of which the second undoes the first."""


@pytest.mark.sampled(4)
@pytest.mark.every_store
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", range(len(FAILING)))
def test_of_turns_that_settle_together_inside_a_call_each_is_gone_on_with_among_those_it_was_with(
    open_settlement, url, number, moment, elsewhere
):
    if elsewhere and url == "memory:":
        pytest.skip("what is in memory ends with its process")
    world = World(("main.0", number, moment))
    agent = Agent("main", [[("task", FAILING)]])
    agent.inner[0, 0] = Sharing("main.0", FAILING)
    turn = play(world, open_settlement, url, "opaque", elsewhere=elsewhere, agent=agent)
    assert world.stop is None
    assert (world.log, turn.settled) == (["book a", "undo a", "book b", "book c", "mail m", "mail n"], True)
    assert (world.settlement.residue(), host_of(world.settlement).protocol.live) == ([], {})
