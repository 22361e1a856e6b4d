"""What a run's record says of it when it is taken up again: what has happened, and what is not over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

from settlemark._claims.telling import told_of
from settlemark._claims.words import Act, Change, Decided, Halting, Primer
from settlemark._lifecycle.fences import halts_in
from settlemark._model import json_text
from settlemark._model.budget import NONE, Budget, asks
from settlemark._model.disposition import ELSEWHERE
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.made import is_gone
from settlemark._model.scope import Scope
from settlemark._owing.obligation import obligation_in
from settlemark._protocol.holdings import Halt
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State
from settlemark._report.sentences import became
from settlemark._report.why import scopes_in
from settlemark._steering.message import listed
from settlemark._steering.steers import said_to
from settlemark.ledger._budgets import Bucket
from settlemark.ledger._contract import HAPPENED, Book, RecordedEffect, RecordedTransaction
from settlemark.ledger._entries import Entry
from settlemark.ledger._owed import OwedPage, OwedState
from settlemark.ledger._payloads.unreadable import Unreadable

MOST = 4_000
"""Characters of a primer's text, unless its reader says otherwise."""
LEAST = 2_000
"""The fewest that it may be given: its headings always have room."""
_OWED = (OwedState.OPEN, OwedState.PENDING)
_IN_DOUBT = (Outcome.UNKNOWN, Outcome.INTENDED)
_WAITS = (Outcome.QUEUED, Outcome.SUSPENDED)
_STANDS = (Outcome.CONFIRMED, *_IN_DOUBT, *_WAITS)


def primer_of(
    protocol: Protocol, book: Book, run: str, *, at: float, budgets: Iterable[Budget] = (), most: int = MOST
) -> Primer:
    """Return what the record says of a run.

    Args:
        protocol: a replica, as of the same step as the book.
        book: the record.
        run: the run.
        at: the store's time.
        budgets: those that this process knows; others are found by what was asked of them.
        most: characters of the text.
    """
    attempts = [recorded for recorded in book.of_run(run) if recorded.effects]
    decisions = [entry for entry in book.entries.chain(run).entries if entry.kind == "decision"]
    parts: dict[str, list[Act]] = {"happened": [], "in_doubt": [], "waiting": [], "not_done": []}
    last = {recorded.row.name: recorded.row.attempt for recorded in attempts}
    for recorded in attempts:
        for effect in sorted(recorded.effects, key=lambda each: each.row.position):
            part = _part(recorded, effect, is_last=recorded.row.attempt == last[recorded.row.name])
            if part is not None:
                parts[part].append(act_of(recorded, effect))
    effects = [effect for recorded in attempts for effect in recorded.effects]
    paused_at = max([*(each.row.at for each in effects), *(entry.at for entry in decisions)], default=None)
    touched = [scope for each in attempts for scope in _stands_on(each)]
    agents = {agent for each in attempts for agent in each.agents}
    debts = [obligation_in(each) for each in book.debts.find(OwedPage(run=run))]
    primer = Primer(
        run,
        bool(attempts or decisions or debts),
        at,
        paused_at,
        happened=tuple(parts["happened"]),
        in_doubt=tuple(parts["in_doubt"]),
        waiting=tuple(parts["waiting"]),
        not_done=tuple(parts["not_done"]),
        owed=tuple(sorted((each for each in debts if each.state in _OWED), key=lambda each: each.due)),
        said=tuple(each for each in said_to(book, run) if each.told is None or each.at >= (paused_at or 0.0)),
        decided=tuple(filter(None, map(_decided, _not_undone(decisions, effects)))),
        changed=tuple(_Changes(protocol, book, run, attempts, decisions, paused_at or 0.0).found()),
        budgets=tuple(_buckets(book, run, at, budgets, [each.row.key for each in effects])),
        halts=tuple(_halting(halt) for halt in halts_in(book) if halt.stands and halt.covers(run, touched, agents)),
        cancelled=run in protocol.fenced,
    )
    return replace(primer, text=told_of(primer, most))


def _part(recorded: RecordedTransaction, effect: RecordedEffect, *, is_last: bool) -> str | None:
    """Return which part of a primer an effect is told in; None where it is not told."""
    if effect.row.kind is EffectClass.READ or effect.disposition in ELSEWHERE:
        return None
    if effect.outcome in _IN_DOUBT:
        return "in_doubt"
    if recorded.state is not State.ABORTING:  # what is being undone stands no more
        if effect.outcome is Outcome.CONFIRMED:
            return "happened"
        if effect.outcome in _WAITS:
            return "waiting"
    return "not_done" if is_last else None


def act_of(recorded: RecordedTransaction, effect: RecordedEffect) -> Act:
    """Return an act as it is told."""
    row, told = effect.row, became(effect, json_text.encode_result)
    if recorded.state is State.ABORTING:
        told = f"being undone; before, {told}"
    return Act(
        row.key,
        row.name,
        row.attempt,
        recorded.row.run,
        row.tool,
        row.kind,
        row.scope,
        json_text.decode(row.arguments),
        json_text.decode(effect.result),
        effect.outcome,
        told,
        row.at,
        effect.said_by,
    )


class _Changes:
    """What others have changed of what a run has read, decided on or touched.

    A version tells that a read, or the ground of a decision, is not current. Whose effect it was, and what of the run's
    own acts was changed behind it, is in the record: what overlaps an act, and is committed behind it, has a later
    epoch.
    """

    def __init__(
        self,
        protocol: Protocol,
        book: Book,
        run: str,
        attempts: list[RecordedTransaction],
        decisions: list[Entry],
        since: float,
    ) -> None:
        self._protocol = protocol
        self._run = run
        self._since = since
        self._read = _read_by(protocol, run, decisions)
        self._touched = dict.fromkeys(scope for each in attempts for scope in _stands_on(each))
        first = min((each.epoch for each in attempts), default=0)
        self._acts = list(self._committed(book.since(first))) if self._read or self._touched else []

    def found(self) -> Iterator[Change]:
        """Yield what has changed."""
        for scope in {**self._read, **self._touched}:
            by = tuple(act for act, where in self._acts if any(each.overlaps(scope) for each in where))
            stale = scope in self._read and self._protocol.version(scope) > self._read[scope]
            if stale or by:
                yield Change(scope.text, stale, by)

    def _committed(self, attempts: Iterable[RecordedTransaction]) -> Iterator[tuple[Act, list[Scope]]]:
        for recorded in attempts:
            if recorded.row.run != self._run and recorded.decided_at is not None and recorded.decided_at >= self._since:
                for effect in recorded.effects:
                    if effect.outcome in HAPPENED and effect.row.kind is not EffectClass.READ:
                        yield act_of(recorded, effect), scopes_in(json_text.decode(effect.row.scopes))


def _said_in(entry: Entry) -> dict[str, Any]:
    return {} if isinstance(entry.body, Unreadable) else json_text.decode(entry.body)


def _not_undone(decisions: list[Entry], effects: list[RecordedEffect]) -> list[Entry]:
    """Return the decisions of which not all that was done has been taken back."""
    made: dict[str | None, list[Outcome]] = defaultdict(list)
    for effect in effects:
        made[effect.row.under].append(effect.outcome)
    taken_back = {Outcome.UNDONE, Outcome.DROPPED}
    return [entry for entry in decisions if not (is_gone(found := made[entry.id]) and taken_back.intersection(found))]


def _decided(entry: Entry) -> Decided | None:
    """Return a decision; None for a turn of a model that said nothing: its calls are all there is."""
    told = _said_in(entry)
    if "tools" in told and not told.get("because"):
        return None
    return Decided(entry.id, told.get("title") or "", told.get("because"), entry.at)


def _read_by(protocol: Protocol, run: str, decisions: list[Entry]) -> dict[Scope, int]:
    """Return what a run's decisions stood on, and what it has read and not acted on yet, with the versions then."""
    found: dict[Scope, int] = {}
    for entry in decisions:
        for ground in listed(_said_in(entry).get("grounds")):
            told = cast("dict[str, object]", ground) if isinstance(ground, dict) else {}
            scope, version = told.get("scope"), told.get("version")
            if isinstance(scope, str) and isinstance(version, int):
                found |= dict.fromkeys(scopes_in([scope]), version)
    return {**found, **protocol.board.versions.plans.get(run, {})}


def _stands_on(recorded: RecordedTransaction) -> Iterator[Scope]:
    """Yield the scopes of an attempt's effects that stand, or may."""
    for effect in recorded.effects:
        if effect.outcome in _STANDS:
            yield from scopes_in(json_text.decode(effect.row.scopes))


def _buckets(book: Book, run: str, at: float, budgets: Iterable[Budget], keys: Iterable[str]) -> Iterator[Bucket]:
    """Yield the buckets that a run spends from: those of the budgets known here, and those that it has spent from."""
    known = list(budgets)
    found = {
        (ask.budget, ask.bucket): book.purse.bucket(ask.budget, ask.bucket) or Bucket(ask.budget, ask.bucket, ask.limit)
        for ask in asks(known, {each.name: NONE for each in known}, run=run, at=at)
    }
    if book.purse:
        today = {Budget("any", 0, per=per).bucket(run, at) for per in ("run", "day", "namespace")}
        spent = {(spend.budget, spend.bucket) for key in keys for spend in book.purse.spends(key)}
        for bucket in book.purse.buckets():
            which = (bucket.budget, bucket.bucket)
            if bucket.bucket in today or (which in spent and bucket.per != "day"):
                found.setdefault(which, bucket)
    yield from (found[which] for which in sorted(found))


def _halting(halt: Halt) -> Halting:
    return Halting(halt.number, halt.what, halt.by, halt.because, halt.since)


__all__ = ["LEAST", "MOST", "act_of", "primer_of"]
