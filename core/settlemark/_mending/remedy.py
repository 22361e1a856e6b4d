"""What was done about a stuck transaction: a remedy, as the record has it, in the versions of one entry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from settlemark._model import json_text
from settlemark._report.stuck import MENDS
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Entry, Which
from settlemark.ledger._notices import KIND as NOTICE
from settlemark.ledger._notices import notice_in
from settlemark.ledger._payloads.unreadable import Unreadable

KIND = "mend"


class RemedyState(StrEnum):
    """How far a remedy is.

    `asked`: a plan is asked for; `gated`: there is one, which waits for a person's yes; `proposed`: there is one, which
    runs; `mended`: it ran, and the probe proves it. Else a person is paged, since it was `refused`, has `failed`, is
    `unproven`, or none came: `silent`; `paged`: that has been done. `over`: what was stuck was
    ended otherwise, or a person has taken it up.
    """

    ASKED = "asked"
    GATED = "gated"
    PROPOSED = "proposed"
    REFUSED = "refused"
    FAILED = "failed"
    SILENT = "silent"
    UNPROVEN = "unproven"
    MENDED = "mended"
    PAGED = "paged"
    OVER = "over"


ENDED = (RemedyState.MENDED, RemedyState.PAGED, RemedyState.OVER)
PLANNED = (RemedyState.ASKED, RemedyState.GATED, RemedyState.PROPOSED)
FOR_A_PERSON = (RemedyState.REFUSED, RemedyState.FAILED, RemedyState.SILENT, RemedyState.UNPROVEN)


@dataclass(frozen=True, slots=True)
class Remedy:
    """What was tried about a stuck transaction.

    Attributes:
        id: names it; the plan runs in the transaction `mends/<id>`, in the run of the one that is stuck.
        state: how far it is.
        tried: what it came to before a person was paged: "refused", "failed", "silent" or "unproven"; else None.
        keys: the effects that it is about.
        plan: the calls, each with its tool and arguments, as recorded; None: there was no plan.
        why: why it came to that, for people; no decision reads it.
        told: the channels by which a person was told.
    """

    id: str
    state: RemedyState
    tried: RemedyState | None
    keys: tuple[str, ...]
    plan: tuple[dict[str, Any], ...] | None
    why: str
    told: tuple[str, ...]

    @property
    def transaction(self) -> str:
        """The name of the transaction in which the plan runs."""
        return transaction_of(self.id)


def remedy_in(entry: Entry, told: tuple[str, ...] = ()) -> Remedy:
    """Return a remedy as it is recorded."""
    body: dict[str, Any] = {} if isinstance(entry.body, Unreadable) else json_text.decode(entry.body)
    plan = body.get("plan")
    tried = body.get("tried")
    return Remedy(
        entry.id,
        RemedyState(entry.state),
        None if tried is None else RemedyState(tried),
        tuple(body.get("keys") or ()),
        None if plan is None else tuple(plan),
        str(body.get("why") or ""),
        told,
    )


def last_remedy(book: Book, name: str, attempt: int) -> Remedy | None:
    """Return what was last tried about an attempt of a transaction, or None."""
    found = [entry for entry in book.entries.find(Which(KIND, name=name)) if entry.attempt == attempt]
    if not found:
        return None
    page = book.entries.get(NOTICE, notice_id(found[-1].id))
    notice = None if page is None else notice_in(page)
    return remedy_in(found[-1], () if notice is None else tuple(sorted(notice.told)))


def transaction_of(number: str) -> str:
    """Return the name of the transaction in which the plan of a remedy runs."""
    return f"{MENDS}{number}"


def notice_id(number: str) -> str:
    """Return the id of the notice that tells a person what a remedy came to."""
    return f"mend-{number}"


__all__ = [
    "ENDED",
    "FOR_A_PERSON",
    "KIND",
    "MENDS",
    "PLANNED",
    "Remedy",
    "RemedyState",
    "last_remedy",
    "notice_id",
    "remedy_in",
    "transaction_of",
]
