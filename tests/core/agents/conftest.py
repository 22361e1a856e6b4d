"""A framework in a few lines, a world that keeps its own log, and tools for both."""

from __future__ import annotations

import asyncio

import pytest

from settlemark import Settlement
from settlemark.agents import AgentRun, Call, Undone, words
from settlemark.hosting import run_async


class Office:
    """A world: what was done to it, in order; some of it can be undone."""

    def __init__(self):
        self.log = []
        self.fails = set()

    def settlement(self, url="memory:", **options):
        settlement = Settlement(url, **options)
        settlement.declare("book", "reversible", scope="room:/{room}", undo=self.unbook)
        settlement.declare("mail", "irreversible", scope="mail:/{to}", function=self.mail)
        settlement.declare("post", "opaque", scope="post:/{to}")
        settlement.declare("look", "read", scope="room:/{room}")
        return settlement

    def act(self, name, *about):
        if (name, *about) in self.fails:
            raise OSError(f"{name} {' '.join(about)} is out of order")
        self.log.append((name, *about))
        return f"{name} {' '.join(about)}"

    def book(self, room):
        return self.act("book", room)

    def unbook(self, room):
        self.log.append(("unbook", room))

    def mail(self, to):
        return self.act("mail", to)

    def post(self, to, text=""):
        return self.act("post", to, *([text] if text else []))

    def look(self, room):
        return self.act("look", room)

    def calls(self, settlement, *issued, ids=None):
        """Return calls of tools by name and arguments, as `("book", {"room": "1"})`."""
        ids = ids or [None] * len(issued)
        return [
            Call(tool, given, settlement.declared(tool), call_id)
            for (tool, given), call_id in zip(issued, ids, strict=True)
        ]

    async def answer(self, turn, place, **options):
        """Run one call and return what the model is told."""
        call = turn.calls[place]
        try:
            return str(
                await run_async(turn.perform(place, lambda: getattr(self, call.tool)(**call.arguments), **options))
            )
        except Exception as error:
            return error if isinstance(error, asyncio.CancelledError) else words(error)

    async def play(self, turn, *, order=None, **options):
        """Run all calls of a turn beside each other, begun in this order, and return the answers in issuance order."""
        places = range(len(turn.calls)) if order is None else order
        tasks = {place: asyncio.create_task(self.answer(turn, place, **options)) for place in places}
        await asyncio.gather(*tasks.values())
        return [tasks[place].result() for place in sorted(tasks)]


@pytest.fixture
def office():
    return Office()


@pytest.fixture
def settlement(office):
    with office.settlement() as settlement:
        yield settlement


@pytest.fixture
def job(settlement):
    return AgentRun(settlement, "trip-42")


__all__ = ["Office", "Undone"]
