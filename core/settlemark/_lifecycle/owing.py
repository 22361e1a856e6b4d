"""Obligations from their opening to their end: owed with a transaction, listed, waived, and dealt with when due."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakMethod, ref

from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._edges.errors import (
    DeclarationError,
    Halted,
    KeyConflict,
    LedgerError,
    Refused,
    Stale,
    StateError,
    UsageError,
    WaitTimeout,
)
from settlemark._edges.wording import in_words, is_a
from settlemark._engine.kernel import Kernel
from settlemark._model import json_text
from settlemark._model.identity import Path
from settlemark._observe.events import Overlooked
from settlemark._observe.logs import about
from settlemark._owing.obligation import DUE, Obligation, Owing, id_of, obligation_in, payload_in
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State
from settlemark.ledger._contract import Book, Change, RecordedTransaction
from settlemark.ledger._owed import OwedChange, OwedPage, OwedRow, OwedState, RecordedOwed, Told
from settlemark.ledger._payloads.payloads import Packer

log = logging.getLogger("settlemark")

HANDLER_GRACE = 30.0
"""For how many seconds after its time an obligation waits for a process that has a handler; then it is reported."""
_of_ledger: WeakKeyDictionary[Packer, ref[Obligations]] = WeakKeyDictionary()
"""By what packs a ledger's payloads, which an attempt knows. Weak in both: obligations know the ledger, too."""


class Obligations:
    """Opens obligations, ends them, and has due ones handled.

    Attributes:
        handling: returns the program that handles a due obligation, None without a handler.
        on_owed: called when something is owed: somebody has to look at what is due.
        until: when the next one is due, on the store's clock; None: none is known.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.handling: Callable[[Obligation], Program[Any] | None] = lambda _: None
        self.on_owed: Callable[[], None] | None = None
        self.until: float | None = None
        _of_ledger[kernel.ledger.payloads] = ref(self)
        kernel.on_lapse = WeakMethod(self.look_again)

    def look_again(self) -> None:
        """Report that something may be due."""
        if self.on_owed is not None and self._kernel.protocol.tools.owed:
            self.on_owed()

    # ---- opening

    def owe(self, attempt: Attempt, place: Path, owing: Owing) -> Program[Obligation]:
        """Open an obligation at the next place below `place`; it is owed once the transaction commits.

        Raises:
            DeclarationError: no such tool is declared in this process. UsageError: its time has passed.
            KeyConflict: something else was owed at this place before. Refused, StateError: nothing more can be owed.
        """
        if owing.tool and self._kernel.declaration(owing.tool, None) is None:
            raise DeclarationError(
                f"fulfilled_by={owing.tool!r} names no tool that is declared in this process: declare it, or correct"
                " the name; nothing is owed",
                tool=owing.tool,
            )
        with self._kernel.local:
            number = attempt.owes.get(place, 0)
            attempt.owes[place] = number + 1
        path = (*place, number)
        opening = partial(self._open, attempt, path, owing)
        try:
            found: RecordedOwed = yield from self._kernel.step(opening, durable=True, wait=attempt.wait)
        except (Refused, StateError):
            away = attempt.turned_away
            if away is None or away.txn is not attempt.txn:
                raise
            yield from away.enter()
            found = yield from self._kernel.step(opening, durable=True, wait=attempt.wait)
        self.look_again()
        return obligation_in(found)

    def _open(self, attempt: Attempt, path: Path, owing: Owing, protocol: Protocol, book: Book) -> RecordedOwed:
        number = id_of(attempt.prefix, attempt.name, attempt.number, path)
        known = next(iter(book.debts.find(OwedPage(id=number))), None)
        if known is not None:
            _refuse_another(known.row, owing, attempt.name)
            return known
        txn = attempt.live
        if txn.state is not State.OPEN:
            if txn.reason is not None:
                raise protocol.refusal(txn)
            raise StateError(
                f"{attempt.name} is {txn.state}: nothing more can be owed with it; owe it in a new transaction",
                transaction=attempt.name,
                state=txn.state,
            )
        at = self._kernel.ledger.time()
        due = at + (owing.within or 0.0) if owing.due is None else owing.due
        if due <= at:
            raise UsageError(f"by= lies {at - due:.0f} s in the past: give a time to come; nothing is owed")
        text = self._kernel.ledger.payloads.packed(owing.payload, effect_key=number, tool=owing.tool, field="arguments")
        row = OwedRow(
            number,
            attempt.name,
            attempt.number,
            attempt.run,
            attempt.placed,
            owing.to,
            owing.tool,
            owing.scope,
            text or "",
            at,
            due,
        )
        changes: list[Change] = [row]
        if not attempt.written:
            changes.insert(0, attempt.opening(owner=self._kernel.ledger.worker, at=self._kernel.clock()))
            attempt.written = True
            book.on_rollback(partial(setattr, attempt, "written", False))
        attempt.put(book, changes)
        protocol.owe(owing.tool)
        return RecordedOwed(row._replace(payload=owing.payload), committed=txn.state)

    # ---- looking, and ending

    def found(self, page: OwedPage, book: Book) -> list[Obligation]:
        """Return the obligations of a page, as they are now."""
        return [obligation_in(each) for each in book.debts.find(page)]

    def waive(self, number: str, *, by: str, note: str) -> Program[Obligation]:
        """Strike an open obligation out.

        Raises:
            UsageError: there is no such obligation, or it is not open; nothing was recorded.
        """

        def strike(_protocol: Protocol, book: Book) -> Obligation:
            known = next(iter(book.debts.find(OwedPage(id=number))), None)
            if known is None:
                raise UsageError(
                    f"nothing is owed under {number}: see settlement.obligations(); nothing was recorded", id=number
                )
            if known.state is not OwedState.OPEN:
                raise UsageError(
                    f"{number} is {known.state}, not open: there is nothing to waive; nothing was recorded",
                    id=number,
                    state=known.state,
                )
            at = self._kernel.ledger.time()
            book.write([OwedChange(number, at, waived_by=by, note=note or None)])
            return replace(obligation_in(known), state=OwedState.WAIVED, waived_by=by, note=note or None)

        return (yield from self._kernel.step(strike, durable=True))

    # ---- what is due

    def until_due(self) -> float | None:
        """Return for how many seconds nothing is due; None: nothing is known to become due."""
        return None if self.until is None else max(0.0, self.until - self._kernel.ledger.time())

    def settle_due(self) -> Program[None]:
        """Have the handlers of due obligations run, each once; report once what has none, or whose handler failed."""
        if not self._kernel.protocol.tools.owed:
            return
        due: list[tuple[Obligation, str]] = yield from self._kernel.step(self._look)
        for obligation, no in due:
            program = self.handling(obligation)
            if no:
                yield from self._alert(obligation, no)
            elif program is not None:
                yield from self._handle(obligation, program)
            elif self._kernel.ledger.immediate or self._kernel.ledger.time() - obligation.due >= HANDLER_GRACE:
                yield from self._alert(obligation, "no handler is declared for it: settlement.on_due(...)")
            else:
                self.until = min(self.until or obligation.due + HANDLER_GRACE, obligation.due + HANDLER_GRACE)

    def _look(self, protocol: Protocol, book: Book) -> list[tuple[Obligation, str]]:
        """Return what is due and nobody is at, each with the no of a person to what its handler was to do, if any."""
        now = self._kernel.ledger.time()
        standing = [e for e in book.debts.find(OwedPage(unended=True, untold=True)) if e.state is OwedState.OPEN]
        self.until = next((each.row.due for each in standing if each.row.due > now), None)
        due = (each for each in standing if each.row.due <= now)
        return [
            (obligation_in(each), _no(book.load(name)))
            for each in due
            if (name := f"{DUE}{each.row.id}") not in protocol.named
        ]

    def _handle(self, obligation: Obligation, program: Program[Any]) -> Program[None]:
        try:
            yield from program
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except (Halted, Stale, WaitTimeout):
            self.until = self._kernel.ledger.time() + 1.0  # fulfilled or halted meanwhile, or another worker is at it
        except BaseException as error:
            if is_a(error, LedgerError):
                raise
            yield from self._alert(obligation, f"its handler failed: {in_words(error)}")

    def _alert(self, obligation: Obligation, why: str) -> Program[None]:
        """Report an obligation that nobody deals with, in the log and to the observer, once in all processes."""

        def tell(_protocol: Protocol, book: Book) -> bool:
            known = next(iter(book.debts.find(OwedPage(id=obligation.id))), None)
            if known is None or known.state is not OwedState.OPEN or known.told is not None:
                return False
            book.write([OwedChange(obligation.id, self._kernel.ledger.time(), told=Told.ALERTED)])
            return True

        if not (yield from self._kernel.step(tell, durable=True)):
            return
        log.error(
            "%s owes %s, which was due and is not fulfilled: %s; fulfil it, or settlement.waive(%r, by=...)",
            obligation.transaction,
            obligation.to,
            why,
            obligation.id,
            extra=about(transaction=obligation.transaction, run=obligation.run, scope=obligation.scope),
        )
        if self._kernel.telling.observer is not None:
            self._kernel.telling.observer.tell(
                Overlooked(obligation.id, obligation.transaction, obligation.to, obligation.fulfilled_by)
            )


def obligations_of(attempt: Attempt) -> Obligations:
    """Return what opens obligations in the ledger of an attempt."""
    found = _of_ledger[attempt.payloads]()
    if found is None:
        raise StateError(f"the settlement of {attempt.name} is gone: keep it while its calls run; nothing is owed")
    return found


def _no(handled: RecordedTransaction | None) -> str:
    """Return who has said no to a call of a handler, which would be asked about again if that ran again."""
    said = [] if handled is None else [effect for effect in handled.effects if effect.verdict == "reject"]
    return f"{said[0].said_by or 'the person asked'} said no to {said[0].row.tool}" if said else ""


def _refuse_another(row: OwedRow, owing: Owing, name: str) -> None:
    if not owing.is_of(row):
        text, matching = payload_in(row)
        before = json_text.encode([text, matching, row.to, row.tool, row.scope])
        now = json_text.encode([*payload_in(row._replace(payload=owing.payload)), owing.to, owing.tool, owing.scope])
        raise KeyConflict(
            f"{name} owed {before} at this place before, and owes {now} now: nothing was recorded; use another name"
            " for other work",
            transaction=name,
            id=row.id,
        )


__all__ = ["Obligations", "obligations_of"]
