"""What policies have said of calls, as it is on record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, cast

from settlemark._acts.judged import Judged, Verdict
from settlemark._edges.plain import joined
from settlemark._model import json_text
from settlemark._report.sentences import short
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Entry, Which
from settlemark.ledger._payloads.unreadable import Unreadable
from settlemark.ledger._seals import seal_id

KIND = "verdict"
_NEWEST = 1_000
NOTHING = "No policy has said anything."


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """What a policy has said of a call, before that acted.

    Attributes:
        key: the call's; of a denied call there is no effect on record.
        verdict: `"allow"`, `"ask"` or `"deny"`.
        rule: the name of the rule that said it; None where retention has removed it, as with `policy`.
        policy: the policy's version.
        tool: what was to be called, on `scope`.
        transaction, attempt, run: whose call it is.
        at: when it was judged, in seconds since 1970, on the store's clock.
        version: 1 for the first verdict on the call; more where another policy has judged it anew since.
    """

    key: str
    verdict: Verdict
    rule: str | None
    policy: str | None
    tool: str | None
    scope: str | None
    transaction: str
    attempt: int
    run: str
    at: float
    version: int


class _Told(NamedTuple):
    """What is recorded of a verdict, as a list: no rule of `redact=`, which names fields, takes anything out of it."""

    policy: str | None = None
    digest: str = ""
    rule: str | None = None
    tool: str | None = None
    scope: str | None = None
    key: str = ""
    worker: str = ""


def body_of(judged: Judged, tool: str, scope: str, key: str, worker: str) -> str:
    """Return what is recorded of a verdict, as JSON; `worker` is the process whose policy has said it."""
    return json_text.encode([*_Told(judged.policy, judged.digest, judged.rule, tool, scope, key, worker)])


def says_the_same(entry: Entry, body: str) -> bool:
    """Whether a recorded verdict is this one, whichever process has said it."""
    return _body(entry)._replace(worker="") == _Told(*json_text.decode(body))._replace(worker="")


def in_force(book: Book, workers: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return by which policy each of these processes has judged last: its version, and the digest of its table.

    Only the newest verdicts are looked at. A process that has judged nothing among them is left out, and so is what
    cannot be read here.
    """
    wanted, found = set(workers), dict[str, tuple[str, str]]()
    for entry in book.entries.find(Which(KIND, newest=_NEWEST)):
        told = _body(entry)
        if told.worker in wanted and told.policy:
            found[told.worker] = told.policy, told.digest
    return found


def verdict_on(book: Book, key: str) -> PolicyVerdict | None:
    """Return the last verdict on a call, or None: no policy has judged it."""
    entry = book.entries.get(KIND, seal_id(key))
    return None if entry is None else _told(entry)


def judged_on(book: Book, key: str) -> Judged | None:
    """Return what a policy has said of a call last, or None: none has, or that can be read no more."""
    entry = book.entries.get(KIND, seal_id(key))
    told = _Told() if entry is None else _body(entry)
    if entry is None or not told.policy or not told.rule:
        return None
    return Judged(cast("Verdict", entry.state), told.rule, told.policy, told.digest)


def verdicts_in(book: Book, *, run: str | None = None, verdict: str | None = None) -> list[PolicyVerdict]:
    """Return the last verdict on each call, oldest first."""
    return [_told(entry) for entry in book.entries.find(Which(KIND, run=run, state=verdict))]


def verdicts_account(found: Sequence[PolicyVerdict]) -> str:
    """Return verdicts in sentences.

    >>> verdicts_account([])
    'No policy has said anything.'
    """
    return joined([line for each in found for line in _lines(each)]) or NOTHING


def _lines(said: PolicyVerdict) -> list[str]:
    words = {"allow": "allowed", "ask": "put to a person", "deny": "denied"}
    when = datetime.fromtimestamp(said.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    what = "a call" if said.tool is None else f"{said.tool}{f' on {said.scope}' if said.scope else ''}"
    by = "what said so is no longer kept" if said.rule is None else f"by the rule {said.rule} of {said.policy}"
    return [f"{short(said.transaction)}: {what} was {words[said.verdict]}, {when}, {by}", f"  key: {said.key}"]


def _told(entry: Entry) -> PolicyVerdict:
    told = _body(entry)
    return PolicyVerdict(
        told.key or entry.id,
        cast("Verdict", entry.state),
        told.rule,
        told.policy,
        told.tool,
        told.scope,
        entry.name or "",
        entry.attempt or 0,
        entry.run,
        entry.at,
        entry.version,
    )


def _body(entry: Entry) -> _Told:
    if not entry.kept or isinstance(entry.body, Unreadable):
        return _Told()
    found: list[object] = json_text.decode(entry.body)
    return _Told(*(each if isinstance(each, str) else "" for each in found))  # a function of redact= may take any


__all__ = [
    "KIND",
    "NOTHING",
    "PolicyVerdict",
    "body_of",
    "in_force",
    "judged_on",
    "says_the_same",
    "verdict_on",
    "verdicts_account",
    "verdicts_in",
]
