"""Whether what a plan is to mend is still for it to mend: looked up in the step that decides its transaction."""

from __future__ import annotations

from settlemark._mending.claims import GATE, recorded_of
from settlemark._mending.remedy import KIND, MENDS, RemedyState, remedy_in
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason
from settlemark._report.stuck import is_stuck
from settlemark.ledger._contract import Book


def stands(book: Book, key: str) -> bool:
    """Whether the effect of a key is stuck."""
    found = recorded_of(book, key)
    return found is not None and is_stuck(*found)


def refuse_unwanted(txn: Txn, protocol: Protocol, book: Book) -> None:
    """Abort a plan's transaction, and raise why, when its case has ended or a person works on it.

    Raises:
        Vetoed: it is not for the plan to mend any more.
    """
    number, _, part = txn.name.removeprefix(MENDS).partition("/")
    entry = book.entries.get(KIND, number)
    if entry is None:
        return
    due = RemedyState.GATED if f"/{part}" == GATE else RemedyState.PROPOSED
    if entry.state == due and all(stands(book, key) for key in remedy_in(entry).keys):
        return
    verdict = f"{entry.name} is not for this plan to mend any more; see settlement.stuck()"
    protocol.abort(txn, Reason.VETOED, hook="what is on record of its remedy", verdict=verdict)
    raise protocol.refusal(txn)


__all__ = ["refuse_unwanted", "stands"]
