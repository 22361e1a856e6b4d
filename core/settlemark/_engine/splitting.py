"""Splitting a transaction at its gates: what need not wait for a person settles now.

Each gated effect becomes a transaction of its own, with whatever is held behind it. That one holds no scope
while it waits; it knows what the first had read, as it was when that committed, and is verified afresh when
the answer comes. Both halves come from one step: a crash leaves the whole, or the two.
"""

from __future__ import annotations

from dataclasses import replace

from settlemark._acts.effect import Effect
from settlemark._attempt.attempt import Attempt, Splinter
from settlemark._attempt.live_read import LiveRead
from settlemark._engine.admission import give_back
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel
from settlemark._model.disposition import ELSEWHERE, Disposed, Disposition
from settlemark._model.effect_class import Outcome
from settlemark._model.scope import Scope
from settlemark._policy.judging import record
from settlemark._protocol.holdings import Blocked, Txn
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.states import Reason, State, Tag
from settlemark.ledger._approvals import move
from settlemark.ledger._contract import Book, RecordedEffect, RecordedTransaction


class Splitting:
    """Splits transactions at their gates."""

    def __init__(self, kernel: Kernel, freshness: Freshness) -> None:
        self._kernel = kernel
        self._freshness = freshness

    def splinters(self, attempt: Attempt) -> list[Splinter]:
        """Return what a transaction is split into, with each gate whatever was to leave after it."""
        groups: list[list[Effect]] = []
        for effect in attempt.in_order():
            if not effect.held or effect.outcome is not Outcome.QUEUED:
                continue
            if effect.declaration.can_wait:
                groups.append([effect])
            elif groups:
                groups[-1].append(effect)  # it was issued behind that gate, and leaves after it
        return [self._splinter(attempt, effects) for effects in groups]

    @staticmethod
    def _splinter(attempt: Attempt, effects: list[Effect]) -> Splinter:
        part = attempt.part(f"{attempt.name}!{'.'.join(map(str, effects[0].path))}")
        moved: list[Effect] = []
        for number, effect in enumerate(effects):
            copy = replace(effect, key=part.key((number,), effect.call_id), path=(number,), position=number, calls=[])
            part.records.prepare(copy)
            moved.append(copy)
        return Splinter(part, effects, moved)

    @staticmethod
    def splinter_at(attempt: Attempt, gates: list[Effect], behind: list[Effect]) -> Splinter:
        """Return what a transaction is split into at effects that wait; what is behind them is called again there.

        What a person has approved, and has to wait behind them, is no longer asked about there.
        """
        part = attempt.part(f"{attempt.name}!{'.'.join(map(str, gates[0].path))}")
        moved = [replace(gate, key=part.key(gate.path, gate.call_id), calls=[]) for gate in gates]
        keys = {gate.key: effect.key for gate, effect in zip(gates, moved, strict=True)}
        for effect in moved:
            if effect.disposed.link in keys:  # one was approved in the place of the other
                effect.disposed = effect.disposed._replace(link=keys[effect.disposed.link])
            if effect.disposition is not Disposition.EDITED:
                effect.outcome = Outcome.SUSPENDED
            part.records.prepare(effect)
        return Splinter(part, gates, moved, behind)

    def decide_split(self, attempt: Attempt, txn: Txn, protocol: Protocol, book: Book) -> Blocked | None:
        """Decide about what stays, and begin what was split off, or return whom to wait for with nothing moved."""
        protocol.refuse_stale(txn)
        blocked = protocol.waits_for(txn)
        if blocked is not None:
            return blocked
        for splinter in attempt.splinters:
            for effect in (*splinter.effects, *splinter.behind):
                give_back(protocol, effect)
        reads = list(txn.reads)
        protocol.decide(txn, releasing=attempt.written)
        self._begin_splinters(attempt, txn, reads, protocol, book)
        return None

    def split_off(self, attempt: Attempt, txn: Txn, protocol: Protocol, book: Book) -> None:
        """Take what was decided to leave, and has to wait, out of a transaction that is releasing."""
        for splinter in attempt.splinters:
            for effect in (*splinter.effects, *splinter.behind):
                for call in effect.calls:
                    protocol.drop_call(call)
        self._begin_splinters(attempt, txn, list(txn.reads), protocol, book)

    def _begin_splinters(self, attempt: Attempt, txn: Txn, reads: list[Scope], protocol: Protocol, book: Book) -> None:
        at = self._kernel.clock()
        for splinter in attempt.splinters:
            part = splinter.attempt
            for effect, copy in zip(splinter.effects, splinter.moved, strict=True) if book.purse else ():
                book.purse.move(effect.key, copy.key)  # what is reserved for it stays reserved
            for effect, copy in zip(splinter.effects, splinter.moved, strict=True):
                move(book, effect.key, copy.key, name=part.name, attempt=part.number, at=self._kernel.ledger.time())
            part.txn, part.written = _begun(protocol, part, reads, txn, splinter), False
            attempt.put(book, [attempt.records.outcome(_gone(effect, part.name), at) for effect in splinter.effects])
            behind = [_gone(effect, part.name, Disposition.BEHIND) for effect in splinter.behind]
            attempt.put(book, [attempt.records.outcome(effect, at) for effect in behind])
            for effect in splinter.moved:
                sent = self._kernel.ledger.time()
                if effect.judged is not None:  # under its new key, it is as it was judged
                    record(book, part, effect, effect.judged, sent)
                part.put(book, part.intent(effect, owner=NOBODY, at=at, sent=sent))
                part.written = True

    def adopt_splinters(self, attempt: Attempt) -> None:
        """Let what was acknowledged to an agent be what was split off: its acknowledgement still tells of it."""
        reads = self._read_before(attempt)
        with self._kernel.local:
            for splinter in attempt.splinters:
                part = splinter.attempt
                part.live_reads = {read.what: replace(read) for read in reads}
                for effect, moved in zip(splinter.effects, splinter.moved, strict=True):
                    attempt.effects[effect.path] = _gone(effect, part.name)
                    effect.key, effect.path, effect.position = moved.key, moved.path, moved.position
                    effect.outcome, effect.disposed = moved.outcome, moved.disposed
                    effect.packed, effect.fingerprint, effect.at, effect.calls = (
                        moved.packed,
                        moved.fingerprint,
                        moved.at,
                        [],
                    )
                    part.add(effect)
                for effect in splinter.behind:
                    attempt.effects[effect.path] = _gone(effect, part.name, Disposition.BEHIND)
                    effect.outcome = Outcome.DROPPED
                if part.live.owner == NOBODY and part.live.state is State.OPEN:
                    part.suspended = True
                    self._kernel.attempts.setdefault(part.live, part)

    def _read_before(self, attempt: Attempt) -> list[LiveRead]:
        """Return what was read live by one that is split, as it is to be compared once its own effects have left."""
        waits = {e for splinter in attempt.splinters for e in (*splinter.effects, *splinter.behind)}
        left = [s for effect in attempt.in_order() if effect.held and effect not in waits for s in effect.scopes]
        return [
            replace(read, overwritten=read.overwritten or read.about(left))
            for read in self._freshness.live_reads(attempt)
        ]

    @staticmethod
    def withdraw_splinters(attempt: Attempt, protocol: Protocol) -> None:
        """Drop what was split off from a transaction that is undone after all, in the step that takes it back."""
        disposed = [effect.disposed for effect in attempt.in_order()]
        for name in sorted({each.link or "" for each in disposed if each.disposition is Disposition.SPLIT_OFF}):
            part = protocol.named.get(name)
            if part is not None and part.parked:
                protocol.abort(part, Reason.FAILED, cause=f"{attempt.name}, which it was split from, was undone")


def _begun(protocol: Protocol, part: Attempt, reads: list[Scope], whole: Txn, splinter: Splinter) -> Txn:
    """Begin what is split off, with the guards and the planned tools of the whole."""
    known = {effect.declaration.tool for effect in splinter.moved} & whole.tools.keys()
    tools = [(tool, *whole.tools[tool]) for tool in sorted(known)]
    return protocol.split(
        part.name,
        part.run,
        reads,
        whole.guards,
        tools,
        hooked=bool(part.hooks),
        agents=whole.agents,
        attempt=part.number,
    )


def _gone(effect: Effect, name: str, how: Disposition = Disposition.SPLIT_OFF) -> Effect:
    """Return what stays of an effect where it was split off from."""
    return replace(effect, outcome=Outcome.DROPPED, tag=Tag.CLEAN, disposed=Disposed(how, link=name), calls=[])


def parts_of(recorded: RecordedTransaction) -> set[str]:
    """Return the names of what was split off from a transaction."""
    return {effect.link or "" for effect in recorded.effects if effect.disposition is Disposition.SPLIT_OFF}


def rest_of(recorded: RecordedTransaction) -> str | None:
    """Return the name of what was split off from a transaction at a gate, with all that was behind it, or None."""
    return next((each.link for each in recorded.effects if each.disposition is Disposition.SPLIT_OFF), None)


def leaving_whole(protocol: Protocol, book: Book, name: str) -> str | None:
    """Return what a transaction was split from, while that may still be undone; None: what was split off may leave.

    Until something of the whole has left, a refusal takes its decision back, and all that was split off with it.
    """
    whole = protocol.named.get(name.rpartition("!")[0])
    if whole is None or whole.state is not State.RELEASING or whole.released:
        return None
    recorded = book.load(whole.name)
    return whole.name if recorded is not None and name in parts_of(recorded) else None


def is_elsewhere(effect: RecordedEffect) -> bool:
    """Whether an effect went on in another transaction."""
    return effect.disposition in ELSEWHERE


__all__ = ["Splinter", "Splitting", "is_elsewhere", "leaving_whole", "parts_of", "rest_of"]
