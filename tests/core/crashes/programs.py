"""What is killed: programs as data, and how each kind of them is played, for the first time or again.

A play ends in an acknowledgement, which the desk logs: from then on nothing of it may be lost. Playing it
again is what a framework does that comes back after a crash: the same names, the same calls.
"""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import Any

from tests.core.crashes.tools import tools

from settlemark import Cancelled, Queued, Refused, State, effect
from settlemark.hosting import host_of

PATIENCE = 30


class Boom(Exception):
    """A failure of the caller's own."""


@dataclass(frozen=True)
class Program:
    """A title, the steps (tool, cell) of its first and of its second transaction, and how they are played."""

    title: str
    steps: tuple[tuple[str, str], ...]
    second: tuple[tuple[str, str], ...] = ()
    how: str = "block"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def tools(self):
        return {tool for tool, _ in (*self.steps, *self.second)}

    @property
    def concurrent(self):
        """Whether one of its transactions waits for another, which another thread plays."""
        return self.how in ("behind", "threads")


def one(tool, how="block"):
    return Program(f"{tool} alone" if how == "block" else f"{tool}, {how}", ((tool, "a"),), how=how)


ALONE = [
    *(one(tool) for tool in ("look", "charge", "add", "add_keyed", "add_blind", "add_at_a_cost", "hire")),
    *(one(tool) for tool in ("put", "put_probed", "put_blind", "register", "wire", "send", "seal")),
]

MIXES = [
    Program("eager, staged and irreversible", (("add", "a"), ("put", "b"), ("wire", "c"), ("add", "d"))),
    Program("releases of every kind", (("register", "a"), ("send", "b"), ("wire", "c"), ("send", "d"))),
    Program("eager behind a held one", (("put", "a"), ("add", "a"), ("look", "b"))),
    Program("scopes declared before", (("add", "a"), ("put", "b/c")), options={"may_touch": ("cell:/a", "cell:/b")}),
    Program("refined afterwards", (("add_somewhere", "shelf"), ("wire", "a"))),
    Program("a turn", (("add", "a"), ("look", "b"), ("put", "b"), ("add_keyed", "c"), ("register", "d")), how="turn"),
    Program("what cannot be undone before the rest", (("send", "a"), ("put", "b"), ("wire", "c"), ("put", "d"))),
    Program("a strict turn", (("send", "a"), ("put", "b"), ("add", "c"), ("wire", "d")), how="issued"),
    Program("undone", (("add", "a"), ("charge_refundable", "b"), ("put", "c"), ("send", "d")), how="raise"),
    Program("undone as far as it goes", (("add_at_a_cost", "a"), ("hire", "b"), ("add_blind", "c")), how="raise"),
    Program("vetoed", (("add", "a"), ("wire", "b")), how="veto"),
    Program("asked a hook", (("add", "a"), ("wire", "b")), how="hook"),
    Program("stale", (("look", "a"), ("add", "b"), ("put", "a"), ("wire", "c")), (("add", "a"),), how="stale"),
    Program("sealed behind an older one", (("add", "b"), ("put", "a")), (("add", "c"), ("put", "a")), how="behind"),
    Program("read only", (("look", "a"), ("look", "b"))),
    Program("run with retry", (("add", "a"), ("look", "a"), ("wire", "b")), how="run"),
    Program("two threads", (("add", "a"), ("put", "b")), (("add", "c"), ("put", "b"), ("wire", "d")), how="threads"),
    Program("async", (("add_async", "a"), ("put", "b"), ("wire", "c")), how="async"),
    Program("cancelled", (("add", "a"), ("charge_refundable", "b"), ("send", "c")), how="cancel"),
    Program("nested", (("add", "a"), ("put", "b")), (("add", "c"), ("wire", "d")), how="nested"),
    Program("decided", (("add", "a"), ("wire", "b")), (("put", "c"), ("add", "d")), how="decide"),
    Program("one after the other", (("add", "a"), ("wire", "b")), (("add", "a"), ("put", "c")), how="twice"),
]


class Play:
    """A program at work in a process of its own: the first one, or one that comes back to it."""

    def __init__(self, program, settlement, desk):
        self.program = program
        self.settlement = settlement
        self.desk = desk
        self.tools = tools(desk)
        self.options = program.options

    def run(self):
        """Play it to its end."""
        getattr(self, f"_{self.program.how}")()

    def acknowledge(self, name, steps=(), answers=()):
        """Log that somebody was told: it is done, and what each of its steps answered; a look is another each time."""
        values = [_value(answer) for (tool, _), answer in zip(steps, answers, strict=True) if tool != "look"]
        self.desk.ask("acknowledged", json.dumps([name, values]))

    def calls(self, tx, steps):
        return [tx.call(self.tools[tool], cell=cell) for tool, cell in steps]

    def transact(self, name, steps):
        with self.settlement.transaction(name, **self.options) as tx:
            answers = self.calls(tx, steps)
        self.acknowledge(name, steps, answers)

    # ---- the ways

    def _block(self):
        self.transact("trip", self.program.steps)

    def _twice(self):
        self.transact("trip/1", self.program.steps)
        self.transact("trip/2", self.program.second)

    def _decide(self):
        """Two decisions of one transaction, each with two effects; what is undone is decided anew."""
        with self.settlement.transaction("trip") as tx:
            with tx.decide("the first", because="it is due", grounds=[{"steps": len(self.program.steps)}]):
                answers = self.calls(tx, self.program.steps)
            with tx.decide("the second"):
                answers += self.calls(tx, self.program.second)
        self.acknowledge("trip", (*self.program.steps, *self.program.second), answers)

    def _issued(self):
        self._turn(order="issued")

    def _turn(self, order="turn"):
        with self.settlement.transaction("trip") as tx, tx.turn(order=order) as turn:
            planned = [turn.plan(self.tools[tool], cell=cell) for tool, cell in self.program.steps]
            answers = [call.run() for call in planned]
        self.acknowledge("trip", self.program.steps, answers)

    def _raise(self):
        try:
            with self.settlement.transaction("trip") as tx:
                self.calls(tx, self.program.steps)
                raise Boom
        except Boom:
            pass

    def _veto(self):
        try:
            with self.settlement.transaction("trip", before_commit=lambda footprint: "no") as tx:
                self.calls(tx, self.program.steps)
        except Refused:
            pass

    def _hook(self):
        with self.settlement.transaction("trip", before_commit=lambda footprint: None) as tx:
            answers = self.calls(tx, self.program.steps)
        self.acknowledge("trip", self.program.steps, answers)

    def _run(self):
        answers = self.settlement.run("trip", lambda tx: self.calls(tx, self.program.steps))
        self.acknowledge("trip", self.program.steps, answers)

    def _stale(self):
        first, *rest = self.program.steps
        with self.settlement.transaction("rival", may_touch="cell:/a") as rival:  # older, and nobody waits for it

            def act():
                if rival.state is State.OPEN:
                    self.calls(rival, self.program.second)
                    rival.commit()

            def plan(tx):
                if rival.state is State.OPEN and rival._attempt.live.claims:
                    act()  # it had come so far before the crash, and whoever looks now waits for it
                found = self.calls(tx, [first])
                act()
                return [*found, *self.calls(tx, rest)]

            answers = self.settlement.run("trip", plan)
        self.acknowledge("trip", self.program.steps, answers)

    def _behind(self):
        waits = self.watch_waiting()
        younger = Beside(lambda: self.transact("younger", self.program.second), waits.set)
        with self.settlement.transaction("older") as older:
            answers = self.calls(older, self.program.steps)
            younger.start()
            assert waits.wait(PATIENCE)
        self.acknowledge("older", self.program.steps, answers)
        younger.join()

    def watch_waiting(self):
        """Return an event that is set when somebody begins to wait."""
        event, listen = threading.Event(), host_of(self.settlement).ledger.listen

        def listening(change):
            event.set()
            listen(change)

        host_of(self.settlement).ledger.listen = listening
        return event

    def _threads(self):
        programs = {"trip/1": self.program.steps, "trip/2": self.program.second}
        both = [Beside(lambda name=name, steps=steps: self._run_one(name, steps)) for name, steps in programs.items()]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()

    def _run_one(self, name, steps):
        # What one finds depends on the other: the answers are not compared.
        self.settlement.run(name, lambda tx: self.calls(tx, steps))
        self.acknowledge(name)

    def _async(self):
        async def main():
            async with self.settlement.transaction("trip") as tx:
                answers = [await tx.call(self.tools[tool], cell=cell) for tool, cell in self.program.steps]
            self.acknowledge("trip", self.program.steps, answers)

        asyncio.run(main())

    def _cancel(self):
        try:
            with self.settlement.transaction("trip/1") as tx:
                self.calls(tx, self.program.steps)
                self.settlement.cancel("trip")
        except Cancelled:
            pass

    def _nested(self):
        @effect("idempotent", scope="agent:/sub")
        def delegate():
            with self.settlement.transaction("inner") as tx:
                self.calls(tx, self.program.second)
            return self.desk.ask("write", "agent", 1, keyed=True)

        with self.settlement.transaction("trip") as tx:
            answers = self.calls(tx, self.program.steps)
            tx.call(delegate)
        self.acknowledge("trip", self.program.steps, answers)


def _value(answer):
    if not isinstance(answer, Queued):
        return answer
    return answer.result() if answer.outcome == "confirmed" else answer.outcome


class Beside(threading.Thread):
    """A thread whose failure is its joiner's."""

    def __init__(self, work, then=lambda: None):
        super().__init__(daemon=True)
        self._work, self._then, self._error = work, then, None

    def run(self):
        try:
            self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._then()

    def join(self, timeout=PATIENCE):
        super().join(timeout)
        assert not self.is_alive(), "a thread of the program hangs"
        if self._error is not None:
            raise self._error
