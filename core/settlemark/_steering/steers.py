"""What is said to runs: each message is a row of its run, read at a boundary, and acknowledged once.

One step adds a message, so all that is said to a run has one order. At a boundary, in that order, an addition is
acknowledged in one step. A revision or a retraction takes two: the first finds its conflict and records what goes with
it; that is then rewound, which a crash leaves to recovery; and the second step records what became of it, from the
record. So a message that a process has died over is found as it is, and what it asks for is done once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from settlemark._acts.perform import Program
from settlemark._edges.errors import UsageError
from settlemark._engine.kernel import Kernel
from settlemark._lifecycle.rewind.rewinds import Rewinds
from settlemark._lifecycle.rewind.survey import Request
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.scope import Scope
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.refusals import halted
from settlemark._protocol.states import State
from settlemark._report.verdicts import is_rewound
from settlemark._steering.conflicts import earliest, pruned, standing
from settlemark._steering.message import (
    DONE,
    KIND,
    TAKEN,
    UNHEARD,
    WAITING,
    Repeat,
    Steered,
    Steering,
    What,
    steering_id,
    steering_in,
    unreadable,
    with_conflicts,
)
from settlemark.ledger._contract import Book, RecordedEffect
from settlemark.ledger._entries import Which

Undo = Callable[[Steering], Program[Iterable[str]]]
"""Undoes what a message is in conflict with, the transactions that it names as `rewound`, where a framework's state
goes back with the world; returns the names of those that this state knows nothing of any more."""


class Place(NamedTuple):
    """Where a run stands that is about to begin a step.

    Attributes:
        said: all that was said to it, in its order.
        name: the name of the step's transaction: that of one that was rewound is refused, so it has another then.
        rewound: the names that the step had before.
        is_new: nothing of it stands: unless it leaves nothing on record each time, what it does is decided now.
    """

    said: list[Steering]
    name: str
    rewound: tuple[str, ...]
    is_new: bool


_READ = EffectClass.READ
_OURS = re.compile(r"/rewind/\d+$|#\d+/mend/\d+$")
"""What the names of transactions end with that undo: no program comes to them."""


class Steers:
    """Adds what is said to runs, and acknowledges it at their boundaries."""

    def __init__(self, kernel: Kernel, rewinds: Rewinds) -> None:
        self._kernel = kernel
        self._rewinds = rewinds

    def say(self, run: str, what: What, text: str, scopes: tuple[Scope, ...], *, by: str) -> Program[Steering]:
        """Record what somebody says to a run, and return it.

        Raises:
            UsageError: the run is a transaction's name, or was cancelled; nothing was recorded.
        """

        def say(protocol: Protocol, book: Book) -> Steering:
            known = protocol.named.get(run)
            if known is not None and known.run != run:
                raise UsageError(
                    f"{run} is a transaction of the run {known.run}: nothing was said; say it to {known.run!r}"
                )
            if run in protocol.fenced:
                raise UsageError(f"the run {run} was cancelled, and hears nothing more: nothing was said")
            said = said_to(book, run)
            number = 1 + max((each.number for each in said), default=0)
            at = self._kernel.ledger.time()
            new = Steering(run, number, what, text, tuple(scope.text for scope in scopes), by, at, WAITING)
            book.entries.add(new.draft())
            return with_conflicts([*said, new])[-1]

        return (yield from self._kernel.step(say, durable=True))

    def said(self, run: str) -> Program[list[Steering]]:
        """Return all that was said to a run, in its order."""
        return (yield from self._kernel.look(lambda _protocol, book: said_to(book, run)))

    def place(self, run: str, base: str) -> Program[Place]:
        """Return where a run stands that is about to begin the step of this name.

        Raises:
            UsageError: that is the name of a transaction of another run; nothing was begun.
        """
        return (yield from self._kernel.look(lambda protocol, book: _place(protocol, book, run, base)))

    def standing(self, run: str) -> Program[dict[str, int]]:
        """Return the names of a run's transactions that stand, each with its epoch: later ones have a higher one."""

        def look(_protocol: Protocol, book: Book) -> dict[str, int]:
            last = {found.row.name: found for found in book.of_run(run) if found.row.name.startswith(f"{run}/")}
            return {
                name: found.row.epoch
                for name, found in last.items()
                if not (is_rewound(found) or found.state is State.ABORTED or _OURS.search(name))
            }

        return (yield from self._kernel.look(look))

    def hear(self, run: str, before: str | None, *, adds: bool, wait: float, undo: Undo | None = None) -> Program[bool]:
        """Acknowledge what waits at a boundary, in its order; return whether something of the run was rewound.

        Args:
            run: the run.
            before: the step that is about to begin; None: it has ended its steps.
            adds: whether additions are taken: there is somebody to hear them.
            wait: seconds to wait for what is to be undone.
            undo: undoes what a message is in conflict with, where more than the world is to go back.

        Raises:
            Halted: the run, or everything, is halted. Cancelled: the run was cancelled.
            DeclarationError: an undo is unknown in this process. WaitTimeout: another holds what is to be undone.
            LedgerError: what waits cannot be read in this process. What was said is acknowledged at the next boundary,
                then.
        """
        rewound = False
        while True:
            taken: Steering | None = yield from self._kernel.step(partial(self._take, run, before, adds), durable=True)
            if taken is None:
                return rewound
            if taken.state == TAKEN:
                behind = yield from self._undo(taken, wait) if undo is None else undo(taken)
                yield from self._kernel.step(partial(self._acknowledge, taken, frozenset(behind)), durable=True)
                rewound = True

    def tell(self, run: str, step: str, numbers: Collection[int]) -> Program[None]:
        """Record that a step that is decided now is told of what was acknowledged: so it is when it is repeated.

        What was told to a step that stands stays so: that one was decided with it.
        """

        def stands(protocol: Protocol, book: Book, told: str | None) -> bool:
            return told is not None and not _place(protocol, book, run, f"{run}/{told}").is_new

        def tell(protocol: Protocol, book: Book) -> None:
            for each in said_to(book, run):
                if each.number not in numbers or each.state != DONE or each.told == step or not each.readable:
                    continue
                if not stands(protocol, book, each.told):
                    self._write(book, replace(each, told=step), DONE)

        yield from self._kernel.step(tell, durable=True)

    def leave_unheard(self, book: Book, run: str) -> None:
        """Record, in the step that cancels a run, that it hears nothing any more of what is not acknowledged.

        What had been undone by then for a message that was taken is told; the rest of that is undone to its end, and
        told by whoever does, if that process has not ended.
        """
        for said in said_to(book, run):
            if said.state == TAKEN and said.readable:
                undone, _ = became(book, said.keys)
                self._write(book, replace(said, state=UNHEARD, undone=undone), TAKEN)
            elif said.is_open:
                at, id_ = self._kernel.ledger.time(), steering_id(run, said.number)
                book.entries.change(KIND, id_, state=UNHEARD, at=at, from_state=said.state)

    def _take(self, run: str, before: str | None, adds: bool, protocol: Protocol, book: Book) -> Steering | None:
        """Take the first message that waits, or was taken by a process that ended; return it as it is now.

        A run that is halted, or was cancelled, takes nothing: it begins no undo either. What it had taken it ends.
        """
        every = said_to(book, run)
        for each in every:
            if each.is_open and not each.readable:
                raise unreadable(f"what was said to the run {run} (number {each.number})", run)
        said = next((each for each in every if each.is_open and (adds or each.what != "add")), None)
        if said is None or said.state == TAKEN:
            return said
        protocol.refuse_fenced(run, run)
        halt = protocol.halted_call(run)
        if halt is not None:
            raise halted(run, None, halt)
        said = replace(said, before=before)
        found = None
        if said.what != "add":
            chain = book.entries.chain(run).entries
            decisions = {entry.id: entry for entry in chain if entry.kind == "decision"}
            recorded = book.of_run(run)
            found = earliest([Scope.parse(text) for text in said.scopes], recorded, decisions)
            keys = found.keys if found is not None else ()
            said = replace(said, bound=tuple(each for each in pruned(recorded) if each.key not in keys))
        if found is None:
            said = replace(said, state=DONE, told=before if adds else None, done_at=self._kernel.ledger.time())
        else:
            said = replace(said, state=TAKEN, conflict=found.conflict, rewound=found.names, keys=found.keys)
        self._write(book, said, WAITING)
        return said

    def _write(self, book: Book, said: Steering, from_state: str) -> bool:
        """Record a message as it is now, if it was in this state; return whether it was."""
        at, id_ = self._kernel.ledger.time(), steering_id(said.run, said.number)
        found = book.entries.change(
            KIND, id_, state=said.state, at=at, from_state=from_state, body=said.body(), open=said.is_open
        )
        return found.won

    def _undo(self, taken: Steering, wait: float) -> Program[Iterable[str]]:
        def on_record(protocol: Protocol, book: Book) -> tuple[str, ...]:
            return tuple(name for name in taken.rewound if name in protocol.named or book.load(name) is not None)

        names: tuple[str, ...] = yield from self._kernel.look(on_record)
        if names:
            word = self._rewinds.word(taken.by, f"steering {taken.number} of {taken.run}")
            yield from self._rewinds.rewind(Request(names, word), dry_run=False, wait=wait)
        return ()

    def _acknowledge(self, taken: Steering, behind: frozenset[str], _protocol: Protocol, book: Book) -> None:
        """Record what has become of what a message was in conflict with, unless another process has."""
        others = behind.difference(taken.rewound)
        recorded = [one for one in book.of_run(taken.run) if one.row.name in others] if others else []
        ended = [each for one in reversed(recorded) if is_rewound(one) for each in reversed(one.effects)]
        acted = (each.row.key for each in ended if each.outcome is not Outcome.FAILED and each.row.kind is not _READ)
        undone, bound = became(book, (*taken.keys, *acted))
        reads = {each.row.key for one in recorded for each in one.effects if each.row.kind is _READ}
        kept = became(book, (key for key in standing(recorded)[1] if key not in reads))[1]
        over = replace(taken, undone=undone, bound=(*bound, *taken.bound), kept=kept)
        if not self._write(book, replace(over, state=DONE, done_at=self._kernel.ledger.time()), TAKEN):
            self._write(book, replace(over, state=UNHEARD), UNHEARD)

    def note_repeat(
        self, run: str, repeat: Repeat, is_other: Callable[[Repeat], bool] = lambda _: False
    ) -> Program[bool]:
        """Record that a call has repeated what steering left standing, and was not run; each once.

        Return whether that is so: what has answered another call, beside this one or before it, answers no second one.
        """

        def note(_protocol: Protocol, book: Book) -> bool:
            named = [
                each
                for each in said_to(book, run)
                if each.state == DONE and any(effect.key == repeat.effect for effect in (*each.bound, *each.kept))
            ]
            told = [one for each in named for one in each.repeats if one.answered and one.effect == repeat.effect]
            if any(map(is_other, told)):
                return False
            for each in named:
                if repeat not in each.repeats:
                    others = (one for one in each.repeats if not one.is_of(repeat))
                    self._write(book, replace(each, repeats=(*others, repeat)), DONE)
            return True

        return self._kernel.step(note, durable=True)


def _place(protocol: Protocol, book: Book, run: str, base: str) -> Place:
    rewound: list[str] = []
    name, number = base, 1
    while True:
        found, live = book.load(name), protocol.named.get(name)
        theirs = live.run if live is not None else run if found is None else found.row.run
        if theirs != run:
            raise UsageError(
                f"{name} is a transaction of the run {theirs} already, so it is no step of {run}: nothing was begun;"
                " give the step, or the run, another name"
            )
        if found is None or not is_rewound(found):
            break
        rewound.append(name)
        number += 1
        name = f"{base}~{number}"
    is_new = name not in protocol.named and (found is None or found.state is State.ABORTED)
    return Place(said_to(book, run), name, tuple(rewound), is_new)


def became(book: Book, keys: Iterable[str]) -> tuple[tuple[Steered, ...], tuple[Steered, ...]]:
    """Return which of the effects of these keys were undone, or never left, and which could not be undone."""
    undone: list[Steered] = []
    bound: list[Steered] = []
    for key in keys:
        recorded = book.find(key)
        effect = next((each for each in recorded.effects if each.row.key == key), None) if recorded else None
        if effect is not None:
            stays = effect.outcome in (Outcome.CONFIRMED, Outcome.UNKNOWN, Outcome.INTENDED)
            (bound if stays else undone).append(_told(effect))
    return tuple(undone), tuple(bound)


def _told(effect: RecordedEffect) -> Steered:
    row = effect.row
    return Steered(row.name, row.tool, row.scope, row.key, effect.disposed.told or "")


def said_to(book: Book, run: str) -> list[Steering]:
    """Return all that was said to a run, in its order."""
    return with_conflicts(map(steering_in, book.entries.find(Which(KIND, run=run))))


def said_in(book: Book) -> list[Steering]:
    """Return all that was said to any run, each run's in its order."""
    runs: dict[str, list[Steering]] = {}
    for entry in book.entries.find(Which(KIND)):
        runs.setdefault(entry.run, []).append(steering_in(entry))
    return [each for run in sorted(runs) for each in with_conflicts(runs[run])]


__all__ = ["Place", "Steers", "Undo", "became", "said_in", "said_to"]
