"""Cancelling a run for good, and halting for now.

A fence ends what of a run has not settled, and nothing of the run acts any more. A halt keeps a scope, runs, an
agent or everything from acting until it is lifted; it returns when nothing acts there, in any process. That can be told
from the protocol alone: whatever acts stands in it, from before the act until behind its outcome, and every later act
is decided behind the halt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._edges.errors import UsageError
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo.abort import Undoing
from settlemark._lifecycle.approval import Answers
from settlemark._lifecycle.recovery import Recovery
from settlemark._model import json_text
from settlemark._model.scope import Scope
from settlemark._observe.logs import about_txn
from settlemark._protocol.holdings import Halt, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.refusals import halted
from settlemark._protocol.states import State
from settlemark.ledger._contract import Book, Fence
from settlemark.ledger._entries import Draft, Entry, Which
from settlemark.ledger._payloads.unreadable import Unreadable
from settlemark.ledger._workers import process

CANCEL_SECONDS = 30.0


class Fences:
    """Cancels runs.

    Attributes:
        on_cancel: called in the step that cancels a run, with the record and the run.
    """

    def __init__(self, kernel: Kernel, undoing: Undoing, recovery: Recovery) -> None:
        self._kernel = kernel
        self._undoing = undoing
        self._recovery = recovery
        self.on_cancel: Callable[[Book, str], object] = lambda _book, _run: None

    def cancel(self, run: str) -> Program[None]:
        """Fence a run, durably, and end what of it has not settled, in this process or left by earlier ones.

        Raises:
            UsageError: the name is a transaction's, not a run's; nothing is fenced.
        """
        at = self._kernel.clock()

        def cancel(protocol: Protocol, book: Book) -> list[Txn]:
            known = protocol.named.get(run)
            if known is not None and known.run != run:
                raise UsageError(
                    f"{run} is a transaction of the run {known.run}: nothing was cancelled; cancel {known.run!r}"
                )
            found = protocol.cancel(run)
            book.write([Fence(run, at)])
            self.on_cancel(book, run)
            return found

        found: list[Txn] = yield from self._kernel.step(cancel, durable=True)
        yield from self.see_out(found)

    def see_out(self, found: Iterable[Txn]) -> Program[None]:
        """Undo what was aborted, in this process or left by earlier ones; wait for what others undo."""
        yield from self._undoing.tidy()
        yield from self._recovery.take_up()
        began = self._kernel.monotonic()
        for txn in found:
            attempt = self._kernel.attempts.get(txn)
            patience = CANCEL_SECONDS if attempt is None else min(attempt.wait, CANCEL_SECONDS)
            yield from self.until_over(txn, began + self._kernel.callers.time_for(txn, patience))
            yield from self._undoing.until_on_record(txn)

    def until_over(self, txn: Txn, deadline: float) -> Program[None]:
        """Wait until a transaction is finished, by any program."""
        while not txn.finished:
            with self._kernel.local as protocol:
                ticket = protocol.watch(txn)
            attempt = self._kernel.attempts.get(txn)
            left = attempt is None or attempt.handed_over
            if left and (silence := (yield from self._kernel.waits.silence(txn))):
                # What can be undone is undone; the rest waits until its sender is known to be gone, which may take
                # long.
                log.warning(
                    "%s is cancelled, and kept%s", txn.name, silence, extra=about_txn(txn, state=txn.state.value)
                )
                return
            seconds = deadline - self._kernel.monotonic()
            if not (yield from self._kernel.waits.listen(Wait(ticket, seconds, txn.name, "its own"))):
                log.warning(
                    "%s is cancelled, and %s: it ends when its call returns",
                    txn.name,
                    txn.state,
                    extra=about_txn(txn, state=txn.state.value),
                )
                return


HALT = "halt"
"""The kind of the entries that keep halts, and the name of their chain."""


_ON_RECORD = "see settlement.halts()"
"""What the log, which nothing is encrypted or redacted in, says in the place of such a reason."""


class Moving(NamedTuple):
    """A transaction that a halt has not brought to rest.

    Attributes:
        transaction: its name; `run` is its run.
        state: its state.
        worker: the worker that has it, as people name it; "" where nobody has.
        why: what it still waits for.
    """

    transaction: str
    run: str
    state: str
    worker: str
    why: str


class Standstill(NamedTuple):
    """What a halt has brought about.

    Attributes:
        halt: the halt.
        undone: the transactions that were open there, and are undone.
        parked: those that stay as they are until it is lifted: sealed, decided, or put aside before.
        finished: those that finished what was leaving.
        moving: those of which something may still act; empty: nothing does, in any process.
    """

    halt: Halt
    undone: tuple[str, ...]
    parked: tuple[str, ...]
    finished: tuple[str, ...]
    moving: tuple[Moving, ...]

    @property
    def silent(self) -> bool:
        """Whether nothing acts there any more, in any process."""
        return not self.moving


class Halts:
    """Halts scopes, runs, agents or everything until that is lifted."""

    def __init__(self, kernel: Kernel, undoing: Undoing, recovery: Recovery, answers: Answers) -> None:
        self._kernel = kernel
        self._undoing = undoing
        self._recovery = recovery
        self._answers = answers

    def halt(
        self, scope: Scope | None, run: str | None, agent: str | None, *, by: str, because: str, wait: float
    ) -> Program[Standstill]:
        """Halt, durably, and return when nothing acts there any more, or after `wait` seconds.

        A halt of the same by the same person stands once.

        Raises:
            UsageError: the run is a transaction's name; nothing was halted.
        """
        told = _ON_RECORD if self._kernel.ledger.payloads.encrypts else because

        def halt(protocol: Protocol, book: Book) -> tuple[Halt, list[Txn]]:
            known = None if run is None else protocol.named.get(run)
            if known is not None and known.run != run:
                raise UsageError(
                    f"{run} is a transaction of the run {known.run}: nothing was halted; halt run={known.run!r}"
                )
            same = (halt for halt in protocol.halts.values() if halt.is_of(scope, run, agent) and halt.by == by)
            found, at = next(same, None), self._kernel.ledger.time()
            asked = found or Halt(0, scope, run, by, told, at, agent=agent)
            over = [t for t in protocol.live.values() if not t.mends and asked.covers(t.run, t.touched, t.agents)]
            if found is None:
                found = protocol.halt(scope, run, agent, by=by, because=told, since=at)._replace(because=because)
                body = json_text.encode(found.values())
                book.entries.add(Draft(HALT, str(found.number), HALT, "halted", at, body, open=True))
            return found, over

        found, over = yield from self._kernel.step(halt, durable=True)
        yield from self._undoing.tidy()
        yield from self._recovery.take_up()
        deadline = self._kernel.monotonic() + wait
        moving: list[Moving] = []
        for txn in over:
            why = yield from self._until_still(txn, deadline)
            if why:
                who = process(txn.owner) if txn.owner else ""
                moving.append(Moving(txn.name, txn.run, txn.state.value, who, why))
        return Standstill(
            found,
            undone=tuple(txn.name for txn in over if txn.state is State.ABORTED),
            parked=tuple(txn.name for txn in over if self._is_still(txn) and not txn.finished),
            finished=tuple(txn.name for txn in over if txn.state is State.COMMITTED),
            moving=tuple(moving),
        )

    def _is_still(self, txn: Txn) -> bool:
        """Whether nothing of a halted transaction acts: a sealed one has no call out, and commits no more."""
        if txn.finished or txn.state is State.SEALED or (txn.parked and not txn.running):
            return True
        return txn.state is State.RELEASING and self._recovery.is_unattended(txn)

    def _until_still(self, txn: Txn, deadline: float) -> Program[str]:
        """Wait until nothing of a transaction acts any more; return why that may not be so, if it may not."""
        patience = self._kernel.callers.time_for(txn, max(0.0, deadline - self._kernel.monotonic()))
        until = self._kernel.monotonic() + patience
        while not self._is_still(txn):
            with self._kernel.local as protocol:
                ticket = protocol.watch(txn)
            attempt = self._kernel.attempts.get(txn)
            if (attempt is None or attempt.handed_over) and (silence := (yield from self._kernel.waits.silence(txn))):
                return silence.strip()
            seconds = until - self._kernel.monotonic()
            if self._is_still(txn):
                return ""
            if seconds <= 0 or not (yield from self._kernel.waits.listen(Wait(ticket, seconds, txn.name, "its own"))):
                return "" if self._is_still(txn) else "a call, a release or an undo of it has not returned"
        return ""

    def resume(self, number: int, *, by: str) -> Program[Halt]:
        """Lift a halt, durably, and go on with what it had put aside, as far as that is possible here.

        Raises:
            UsageError: there is none of this number; nothing moved.
        """

        def lift(protocol: Protocol, book: Book) -> Halt:
            at = self._kernel.ledger.time()
            found = protocol.lift(number)
            entry = book.entries.get(HALT, str(number))
            kept = found if entry is None else halt_in(entry)
            lifted = kept._replace(resumed_by=by, resumed_at=at)
            if entry is not None:
                body = json_text.encode(lifted.values())
                book.entries.change(HALT, str(number), state="resumed", at=at, from_state="halted", body=body)
            return lifted

        lifted: Halt = yield from self._kernel.step(lift, durable=True)
        yield from self._recovery.take_up()
        yield from self._answers.settle_answered()
        return lifted


def act_in(kernel: Kernel, txn: Txn, agents: Iterable[str]) -> Program[None]:
    """Have agents act in a transaction that is open: a halt of one of them is one of all that settles with it.

    Raises:
        Halted: one of them is halted; the transaction goes on without it.
    """
    new = [agent for agent in agents if agent not in txn.agents]

    def join(protocol: Protocol, _book: Book) -> None:
        for agent in new:
            protocol.join(txn, agent)

    if new:
        yield from kernel.step(join)


def newcomers(protocol: Protocol, txn: Txn, agents: Iterable[str]) -> list[str]:
    """Return those of some agents that have not acted in a transaction yet, and are to go on with it.

    Raises:
        Halted: one of them is halted; nothing moved.
    """
    new = [agent for agent in agents if agent not in txn.agents]
    halt = protocol.halted_call(txn.run, agents=new) if new else None
    if halt is not None:
        raise halted(txn.name, txn.epoch, halt, parked=txn.parked)
    return new


def halts_in(book: Book) -> list[Halt]:
    """Return every halt on record, the newest last."""
    return [halt_in(entry) for entry in book.entries.find(Which(HALT))]


def halt_in(entry: Entry) -> Halt:
    """Return a halt as recorded; what cannot be read of it any more is empty."""
    said: dict[str, Any] = {} if isinstance(entry.body, Unreadable) else json_text.decode(entry.body)
    scope = said.get("scope")
    resumed_at = said.get("resumed_at") or (entry.at if entry.state == "resumed" else None)
    return Halt(
        int(entry.id),
        None if scope is None else Scope.parse(scope),
        said.get("run"),
        str(said.get("by", "")),
        str(said.get("because", "")),
        float(said.get("since", entry.at)),
        said.get("resumed_by"),
        resumed_at,
        said.get("agent"),
    )


__all__ = [
    "CANCEL_SECONDS",
    "HALT",
    "Fences",
    "Halts",
    "Moving",
    "Standstill",
    "act_in",
    "halt_in",
    "halts_in",
    "newcomers",
]
