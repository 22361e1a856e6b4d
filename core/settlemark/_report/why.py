"""Why effects were called: their decisions, what those stood on, and what of that has changed since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from settlemark._edges.errors import ScopeError, UsageError
from settlemark._edges.text import brief
from settlemark._model import json_text
from settlemark._model.scope import Scope
from settlemark._report.judged import PolicyVerdict, verdict_on, verdicts_in
from settlemark.ledger._contract import HAPPENED, Book, RecordedEffect, RecordedTransaction
from settlemark.ledger._entries import Entry


@dataclass(frozen=True, slots=True)
class Why:
    """Why an effect was called.

    Attributes:
        key: the effect's.
        tool: what was called.
        scope: what it touched.
        outcome: what became of it.
        transaction: whose it is; `run` is the job.
        rationale: what the model said of the call.
        decision: the id of the decision it was called under; None without one.
        title: what was decided.
        because: why.
        alternatives: what else there was.
        policy: the policy's name and version.
        model: the name of the model that decided, in a turn of its own; `message` is the id of its message, and `tools`
            are those that it was offered.
        grounds: what it stood on; a scope has its version then, and `changed`: the keys of the effects of others that
            were committed on it since, as far as they are on record.
        decided_at: when the decision was recorded, in seconds since 1970.
        answered_by: who said the last word on the effect, if a person did.
        answer: what they said.
        verdict: what a policy has said of the call, if one has judged it: by which `rule`, and of which version of the
            policy (`judged_by`).
        steered: what people had said to the run by then about what it touched, or about nothing in particular, as
            `Settlement.steering` has it: `number`, `what`, `text`, `by`, `at`.
    """

    key: str
    tool: str
    scope: str
    outcome: str
    transaction: str
    run: str
    rationale: str | None = None
    decision: str | None = None
    title: str | None = None
    because: str | None = None
    alternatives: tuple[Any, ...] = ()
    policy: str | None = None
    grounds: tuple[dict[str, Any], ...] = ()
    model: str | None = None
    message: str | None = None
    tools: tuple[str, ...] = ()
    decided_at: float | None = None
    answered_by: str | None = None
    answer: Any = None
    verdict: str | None = None
    rule: str | None = None
    judged_by: str | None = None
    steered: tuple[dict[str, Any], ...] = ()


def found_why(book: Book, key: str) -> tuple[RecordedEffect, Why]:
    """Return the effect of this key, and why it was called.

    Raises:
        UsageError: there is no such effect.
    """
    recorded = book.find(key)
    if recorded is None:
        raise UsageError(f"there is no effect {brief(key)} on record: settlemark show lists the keys", key=key)
    effect = next(each for each in recorded.effects if each.row.key == key)
    under = effect.row.under
    entry = None if under is None else book.entries.get("decision", under)
    return effect, _why(recorded, effect, entry, _Since(book), verdict_on(book, key))


Chapter = tuple[RecordedTransaction, list[tuple[RecordedEffect, Why]]]
"""An attempt, and why each of its effects was called, in the order in which they were issued."""


def story_of(book: Book, run: str) -> list[Chapter]:
    """Return a run's attempts, oldest first, with their effects and why each was called."""
    made = {entry.id: entry for entry in book.entries.chain(run).entries if entry.kind == "decision"}
    since, said = _Since(book), {each.key: each for each in verdicts_in(book, run=run)}
    return [
        (
            recorded,
            [
                (effect, _why(recorded, effect, made.get(effect.row.under or ""), since, said.get(effect.row.key)))
                for effect in sorted(recorded.effects, key=lambda each: each.row.position)
            ],
        )
        for recorded in book.of_run(run)
    ]


class _Since:
    """What was committed since, by scope: the record is read once, and not at all where no ground is a scope."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._committed: list[tuple[float, str, str, list[Scope]]] | None = None

    def __call__(self, ground: dict[str, Any], entry: Entry) -> dict[str, Any]:
        """Return a ground, a scope with the keys of what others have changed since."""
        if "scope" not in ground:
            return ground
        if self._committed is None:
            self._committed = list(_committed(self._book))
        changed = [
            key
            for scope in scopes_in([ground["scope"]])
            for at, name, key, touched in self._committed
            if at >= entry.at and name != entry.name and any(each.overlaps(scope) for each in touched)
        ]
        return {**ground, "changed": changed}


def _committed(book: Book) -> Iterator[tuple[float, str, str, list[Scope]]]:
    for recorded in book.transactions():
        if recorded.decided_at is not None:
            for effect in recorded.effects:
                if effect.outcome in HAPPENED:
                    touched = scopes_in(json_text.decode(effect.row.scopes))
                    yield recorded.decided_at, recorded.row.name, effect.row.key, touched


def scopes_in(texts: Iterable[str]) -> list[Scope]:
    """Return scopes; what was edited by hand until it is none is left out, for an auditor to find."""
    found: list[Scope] = []
    for text in texts:
        with suppress(ScopeError):
            found.append(Scope.parse(text))
    return found


def _why(
    recorded: RecordedTransaction,
    effect: RecordedEffect,
    entry: Entry | None,
    since: _Since,
    said: PolicyVerdict | None,
) -> Why:
    row = effect.row
    policy = (None, None, None) if said is None else (said.verdict, said.rule, said.policy)
    told: dict[str, Any] = {} if entry is None else json_text.decode(entry.body)
    return Why(
        row.key,
        row.tool,
        row.scope,
        effect.outcome.value,
        row.name,
        recorded.row.run,
        row.rationale,
        row.under,
        told.get("title"),
        told.get("because"),
        tuple(told.get("alternatives", ())),
        told.get("policy"),
        tuple(since(each, cast("Entry", entry)) for each in told.get("grounds", ())),
        told.get("model"),
        told.get("message"),
        tuple(told.get("tools", ())),
        None if entry is None else entry.at,
        effect.said_by,
        None if effect.said is None else json_text.decode(effect.said),
        *policy,
    )


__all__ = ["Chapter", "Why", "found_why", "scopes_in", "story_of"]
