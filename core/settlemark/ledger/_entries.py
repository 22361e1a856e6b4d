"""Entries: what a ledger holds beside transactions and effects, in versions that are never overwritten.

Decisions, questions, promises: whatever needs an identity, a state that changes at most once from each version, and a
history. The entries of a run are a chain: each digest is over the entry and the digest before it, and over a digest of
the body, which outlives the body. So a change by hand shows, and redaction, encryption and retention do not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from settlemark._edges.errors import LedgerError
from settlemark._edges.text import DERIVED, KEY, Most, brief, wrong_with
from settlemark._model import json_text
from settlemark.ledger._payloads.payloads import PRUNED, Packed, Packer
from settlemark.ledger._payloads.unreadable import Damaged, Unreadable

BEGINNING = "0" * 64
"""The digest before the first entry of a run."""
_ID = Most(400, 1_600)
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_BIG = 1 << 63

STEERED = ("pause", "steering")
"""The kinds of entries about what a run has done: retention leaves its transactions while such an entry is open."""


class Draft(NamedTuple):
    """An entry to be added: its first version.

    Attributes:
        kind: which ledger it belongs to, a short word: "decision".
        id: unique among the entries of its kind; at most 400 characters.
        run: whose chain it continues.
        state: a short word.
        at: seconds since 1970, on the store's clock.
        body: JSON. Rules of `redact=` apply to it as to arguments, with the kind as the tool; of some kinds, to its
            words alone: see `redaction.OF_BODIES`.
        name, attempt: the transaction that it belongs to: its body stays for as long as that one's payloads.
        key: the effect that it belongs to; secrets redacted from that are removed from the body.
        due: when something is to happen about it, in seconds on the store's clock.
        open: retention leaves it, since it is still to be dealt with.
    """

    kind: str
    id: str
    run: str
    state: str
    at: float
    body: str = "{}"
    name: str | None = None
    attempt: int | None = None
    key: str | None = None
    due: float | None = None
    open: bool = False


class Entry(NamedTuple):
    """One version of an entry, as recorded; the first fields are those of `Draft`.

    Attributes:
        version: 1 for the first.
        place: its place in the chain of its run, from 1.
        content: the digest of the body as it was stored.
        digest: the digest of the entry, over that of the one before it.
        intact: whether the stored body is the one that was recorded, or was removed by retention.
        latest: whether it is marked as the last version.
        kept: whether its body is there: retention has not removed it.
    """

    kind: str
    id: str
    run: str
    state: str
    at: float
    body: str
    name: str | None
    attempt: int | None
    key: str | None
    due: float | None
    open: bool
    version: int
    place: int
    content: str
    digest: str
    intact: bool = True
    latest: bool = True
    kept: bool = True

    def link(self, before: str) -> str:
        """Return the digest that this entry must have behind an entry with the digest `before`."""
        told = [
            before,
            self.kind,
            self.id,
            self.version,
            self.run,
            self.place,
            self.state,
            repr(self.at),
            self.name,
            self.attempt,
            self.key,
            repr(self.due),
            self.open,
            self.content,
        ]
        return hashlib.sha256(json_text.canonical(told).encode()).hexdigest()


class Standing(NamedTuple):
    """What stands after an entry was added or changed.

    Attributes:
        won: whether this call wrote it; else nothing was written, and `entry` is what stood before.
        entry: the last version.
    """

    won: bool
    entry: Entry


class Chain(NamedTuple):
    """The entries of a run as they are stored, and where its chain ends.

    Attributes:
        entries: in their places.
        length: how many there must be.
        digest: the last one's digest.
    """

    entries: list[Entry]
    length: int = 0
    digest: str = BEGINNING


class Which(NamedTuple):
    """Which entries are looked for, by their last version; None: any. `newest`: at most so many, the last ones."""

    kind: str
    run: str | None = None
    state: str | None = None
    due_before: float | None = None
    key: str | None = None
    name: str | None = None
    newest: int | None = None


class Entries(Protocol):
    """The entries of a book, for one step: they are taken with it, in the same commit of the store, or not at all.

    What a version is, and who of several writes the next one, is said here; a store says how versions are kept.
    """

    __slots__ = ()

    def add(self, draft: Draft) -> Standing:
        """Add an entry; one that has this kind and id stays as it is, and is returned.

        Raises:
            LedgerError: it cannot be stored; nothing was recorded.
        """
        last = self.get(checked(draft).kind, draft.id)
        return Standing(True, self._append(draft, 1)) if last is None else Standing(False, last)

    def change(
        self,
        kind: str,
        id: str,  # noqa: A002 - the column's name
        *,
        state: str,
        at: float,
        from_version: int | None = None,
        from_state: str | None = None,
        body: str | None = None,
        due: float | None = None,
        open: bool = False,  # noqa: A002 - as the record has it
        key: str | None = None,
    ) -> Standing:
        """Add the next version of an entry, if the last one has this version, or this state.

        Of several that answer one version, one wins: the others get what stands, and have written nothing. Without a
        body, or a key, the last one's stays; `due` and `open` are as given.

        Raises:
            LedgerError: there is no such entry, or it cannot be stored; nothing was recorded.
        """
        last = self.get(kind, id)
        if last is None:
            raise missing(kind, id)
        if not wins(last, from_version, from_state):
            return Standing(False, last)
        draft = checked(next_draft(last, state=state, at=at, body=body, due=due, open=open, key=key))
        self._supersede(last)
        return Standing(True, self._append(draft, last.version + 1))

    def get(self, kind: str, id: str) -> Entry | None:  # noqa: A002 - as the record has it
        """Return the last version of an entry, or None."""
        return next(reversed(self.versions(kind, id)), None)

    def versions(self, kind: str, id: str) -> list[Entry]:  # noqa: A002 - as the record has it
        """Return all versions of an entry, the first one first."""
        ...

    def find(self, which: Which) -> list[Entry]:
        """Return the last versions of entries, the oldest first."""
        ...

    def chain(self, run: str) -> Chain:
        """Return the entries of a run, all versions, and where its chain ends."""
        ...

    def effects(self, run: str) -> list[Mapping[str, Any]]:
        """Return the rows of a run's effects that are under a decision, as they are stored: see `ledger._seals`."""
        ...

    def _supersede(self, last: Entry) -> None:
        """Note that a version is the last one no more."""
        ...

    def _append(self, draft: Draft, version: int) -> Entry:
        """Write a version at the end of its run's chain, and return it."""
        ...


def checked(draft: Draft) -> Draft:
    """Return an entry that every store can hold.

    Raises:
        LedgerError: no store could hold it; nothing was recorded.
    """
    for what, word in (("kind", draft.kind), ("state", draft.state)):
        if not isinstance(cast("object", word), str) or _WORD.fullmatch(word) is None:
            raise _refused(what, f"{brief(word)} is no short word in small letters")
    names = (("id", draft.id, _ID), ("run", draft.run, DERIVED), ("name", draft.name, DERIVED), ("key", draft.key, KEY))
    for what, text, most in names:
        wrong = None if text is None and what in ("name", "key") else wrong_with(text, most)
        if wrong is not None:
            raise _refused(what, f"{brief(text)} {wrong}")
    for what, seconds in (("at", draft.at), ("due", draft.due)):
        if seconds is not None and not (-_BIG < seconds < _BIG):
            raise _refused(what, f"{brief(seconds)} is not a time")
    try:
        if not isinstance(draft.body, Packed | Unreadable):
            json_text.decode(draft.body)
            draft.body.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused("body", f"it is no JSON text that can be stored ({error})") from None
    return draft


def _refused(what: str, why: str) -> LedgerError:
    return LedgerError(f"the {what} of an entry cannot be stored: {why}; nothing was recorded", field=what)


def place_key(kind: str, id: str) -> str:  # noqa: A002 - as the record has it
    """Return the name under which an entry's body is encrypted."""
    return f"{kind}/{id}"


def made(draft: Draft, version: int, before: Chain, stored: str, body: str) -> Entry:
    """Return the next entry of a chain, with its digests."""
    content = hashlib.sha256(stored.encode()).hexdigest()
    due = None if draft.due is None else float(draft.due)
    shown = draft._replace(at=float(draft.at), due=due, body=body)
    entry = Entry(*shown, version=version, place=before.length + 1, content=content, digest="")
    return entry._replace(digest=entry.link(before.digest))


def next_draft(
    last: Entry,
    *,
    state: str,
    at: float,
    body: str | None,
    due: float | None,
    open: bool,  # noqa: A002 - as the record has it
    key: str | None,
) -> Draft:
    """Return the draft of an entry's next version."""
    kept = last.body if body is None else body
    name, attempt = last.name, last.attempt
    return Draft(last.kind, last.id, last.run, state, at, kept, name, attempt, key or last.key, due, open)


def wins(last: Entry, from_version: int | None, from_state: str | None) -> bool:
    """Whether a change from this version, and this state, is one of the last version."""
    if from_version is None and from_state is None:
        raise _refused("change", "it says neither from_version= nor from_state=")
    return from_version in (None, last.version) and from_state in (None, last.state)


def missing(kind: str, id: str) -> LedgerError:  # noqa: A002 - as the record has it
    """Return the error for an entry that is not there."""
    return LedgerError(f"there is no {kind} {brief(id)} in this ledger; nothing was recorded", kind=kind, id=id)


def is_intact(stored: str, read: str, content: str, *, kept: bool) -> bool:
    """Whether a stored body is the one of a digest, and can be read, or was removed by retention."""
    if not kept:
        return stored == PRUNED
    return hashlib.sha256(stored.encode()).hexdigest() == content and not isinstance(read, Damaged)


def scrubbed(body: str, key: str | None, payloads: Packer) -> str:
    """Return a body without the secrets that were redacted from an effect."""
    if key is None or payloads.plain or isinstance(body, Unreadable):
        return body

    def without(value: Any) -> Any:
        if isinstance(value, str):
            return payloads.scrub(value, [key])
        if isinstance(value, dict):
            return {name: without(item) for name, item in cast("dict[str, Any]", value).items()}
        return [without(item) for item in cast("Any", value)] if isinstance(value, list) else value

    found: str = json_text.with_room(lambda: json_text.encode(without(json_text.decode(body))))
    return found


def ordered(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries, the oldest first."""
    return sorted(entries, key=lambda entry: (entry.at, entry.run, entry.place))


__all__ = [
    "BEGINNING",
    "STEERED",
    "Chain",
    "Draft",
    "Entries",
    "Entry",
    "Standing",
    "Which",
    "checked",
    "is_intact",
    "made",
    "missing",
    "next_draft",
    "ordered",
    "place_key",
    "scrubbed",
    "wins",
]
