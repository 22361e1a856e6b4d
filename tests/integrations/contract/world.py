"""What the scenarios share: a world that keeps its own log, tools that act on it, and how a job is played."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import traceback
from collections import Counter
from dataclasses import dataclass

import pytest
from tests.integrations.contract.driver import Answers, ScriptedCall

from settlemark import Outcome, State, current_call, effect

PATIENCE = 60
"""Seconds after which a job hangs; nothing here takes a fraction of that."""


class World:
    """The outside: what happened there, in its order, and under which key."""

    def __init__(self):
        self.log = []
        self.keys = []
        self._lock = threading.Lock()

    def act(self, entry):
        """Let something happen, and return its number."""
        call = current_call()
        with self._lock:
            self.log.append(entry)
            self.keys.append(None if call is None else call.key)
            return len(self.log)

    def standing(self):
        """How often each thing happened and was not taken back."""
        found = Counter(entry for entry in self.log if not entry.startswith("cancel "))
        found.subtract(f"book {entry.removeprefix('cancel ')}" for entry in self.log if entry.startswith("cancel "))
        return +found


def desk(world, sort="sync", *, broken=()):
    """The tools of one class each: book and cancel, mail, look, pay (which needs a yes); what is `broken` raises."""

    def happen(tool, what):
        if f"{tool} {what}" in broken:
            raise ValueError(f"no {what} is to be had")
        return f"{tool} {what}: number {world.act(f'{tool} {what}')}"

    def cancel(what: str):
        world.act(f"cancel {what}")

    def book(what: str) -> str:
        """Book a room."""
        return happen("book", what)

    def mail(what: str) -> str:
        """Send a mail."""
        return happen("mail", what)

    def look(what: str) -> str:
        """Look a room up."""
        return happen("look", what)

    def pay(what: str) -> str:
        """Pay a bill."""
        return happen("pay", what)

    return [
        effect("reversible", scope="room:/{what}", undo=cancel)(as_is(book, sort)),
        effect("irreversible", scope="mail:/{what}")(as_is(mail, sort)),
        effect("read", scope="room:/{what}")(as_is(look, sort)),
        effect("irreversible", scope="bill:/{what}", approve=True)(as_is(pay, sort)),
    ]


def as_is(function, sort):
    """A function as it is, or as a coroutine function that blocks no loop."""
    if sort == "sync":
        return function

    @functools.wraps(function)
    async def coroutine(*given, **named):
        return await asyncio.to_thread(function, *given, **named)

    return coroutine


def turns(*said):
    """What the model says: (tool, what) pairs, or (tool, arguments), turn by turn; ids are `call-TURN-PLACE`."""
    return [
        [
            ScriptedCall(tool, what if isinstance(what, dict) else {"what": what}, f"call-{number}-{place}")
            for place, (tool, what) in enumerate(turn)
        ]
        for number, turn in enumerate(said)
    ]


# ---- a job


@dataclass
class Played:
    """How a job ended: what its model was told, or the error that its framework let out."""

    answers: Answers
    error: BaseException | None = None

    @property
    def texts(self):
        return [text for _, text in self.answers]


def play(driver, tools, script, settlement, *, face="run", **options):
    """Play a job in a thread of its own; one that hangs fails, and shows where."""
    found = []

    def job():
        try:
            given = (tools, script)
            if face == "run":
                answers = driver.run(*given, settlement=settlement, **options)
            else:
                answers = asyncio.run(driver.arun(*given, settlement=settlement, **options))
            found.append(Played(answers))
        except BaseException as error:
            found.append(Played([], error))

    together(job)
    (played,) = found
    return played


def together(*jobs):
    """Do these at once, each in a thread, and return when all have ended; what one of them raises is raised here.

    Daemons, not an executor: whoever hangs is left behind, and does not keep the tests from ending.
    """
    raised = []

    def guarded(job):
        try:
            job()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=[job], daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if any(thread.is_alive() for thread in threads):
        pytest.fail(f"it hangs:\n{_stacks()}")
    if raised:
        raise raised[0]


def _stacks():
    return "\n".join("".join(traceback.format_stack(frame)[-6:]) for frame in sys._current_frames().values())


# ---- what a settlement says of it


def unaccounted(world, settlement):
    """What stands in the world and was neither committed nor is named by anybody; the doubts are among the named."""
    recorded = [effect for found in settlement.transactions() for effect in found.effects]
    committed = {
        effect.row.key
        for found in settlement.transactions()
        for effect in found.effects
        if found.state is State.COMMITTED and effect.outcome is Outcome.CONFIRMED
    }
    named = {left.key for left in settlement.residue()} | {doubt.key for doubt in settlement.in_doubt()}
    assert named | committed <= {effect.row.key for effect in recorded}
    standing = world.standing()
    return [
        entry
        for entry, key in zip(world.log, world.keys, strict=True)
        if standing[entry] and not entry.startswith("look ") and key not in named | committed
    ]


def unfinished(settlement):
    """The transactions that nobody has ended."""
    return sorted(
        found.row.name for found in settlement.transactions() if found.state not in (State.COMMITTED, State.ABORTED)
    )
