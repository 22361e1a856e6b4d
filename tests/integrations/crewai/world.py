"""What the tests of the CrewAI shim share: a world that tools act on, and crews of one agent and one task."""

from __future__ import annotations

import threading
from functools import partial

import pytest

pytest.importorskip("crewai")

from crewai import Agent, Crew, Task
from crewai.tools import tool
from tests.integrations.crewai.scripted import ScriptedCall

from settlemark import current_call, effect


class World:
    """The outside: what happened there, in order, and under which keys."""

    def __init__(self):
        self.log = []
        self.keys = []
        self._lock = threading.Lock()

    def act(self, entry):
        with self._lock:
            self.log.append(entry)
            call = current_call()
            self.keys.append(None if call is None else call.key)


class Reversed:
    """Has call n act after call n + 1, for which it waits as long as it has patience.

    Stock has all of it, for there the other comes; where the other is known to wait in its turn, little is enough.
    """

    def __init__(self, size, patience):
        self._acted = [threading.Event() for _ in range(size + 1)]
        self._acted[size].set()
        self._patience = patience

    def act(self, number, act):
        self._acted[number + 1].wait(self._patience)
        act()
        self._acted[number].set()


def call(name, **arguments):
    return ScriptedCall(name, arguments)


def agent_of(llm, tools, role="clerk", **options):
    return Agent(role=role, goal="Do it.", backstory="Diligent.", llm=llm, tools=tools, **options)


def task_of(agent, description="Do it.", **options):
    return Task(description=description, expected_output="It is done.", agent=agent, **options)


def crew_of(llm, tools, *, crew=None, agent=None, **options):
    """A crew of one agent with one task."""
    clerk = agent_of(llm, tools, **(agent or {}))
    return Crew(agents=[clerk], tasks=[task_of(clerk, **options)], **(crew or {}))


def trip(world, *, broken=()):
    """Functions that book, pay, send and look: one of each class; those in `broken` raise instead."""

    def happen(name, detail):
        if name in broken:
            raise ValueError(f"{name} is down")
        world.act(f"{name} {detail}")
        return f"{name} done"

    def cancel_room(hotel: str):
        world.act(f"cancel {hotel}")

    @effect("reversible", scope="room:/{hotel}", undo=cancel_room)
    def book(hotel: str) -> str:
        """Book a room."""
        return happen("book", hotel)

    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Send a mail."""
        return happen("mail", to)

    @effect("read")
    def look(hotel: str) -> str:
        """Look a room up."""
        return happen("look", hotel)

    @effect("idempotent", scope="car:/{plate}")
    def rent(plate: str) -> str:
        """Rent a car."""
        return happen("rent", plate)

    return {"book": book, "mail": mail, "look": look, "rent": rent}


def tools_of(functions, wrap=None):
    """The functions as CrewAI's tools, wrapped."""
    wrap = wrap or (lambda found: found)
    return [wrap(tool(name)(function)) for name, function in functions.items()]


def five(act, *, patience):
    """A function that acts under a number, the first the slowest, and the script that calls it five times."""
    order = Reversed(5, patience)

    def act_on(number: int) -> str:
        """Act."""
        order.act(number, partial(act, str(number)))
        return f"acted {number}"

    return act_on, [call("act_on", number=number) for number in range(5)]
