"""Which attempts are on a page of a ledger in memory."""

from __future__ import annotations

from settlemark.ledger._contract import Page, RecordedTransaction


def is_on(page: Page, recorded: RecordedTransaction, at: float) -> bool:
    """Whether an attempt, by a time of its own, is on a page."""
    return (
        (page.run is None or recorded.row.run == page.run)
        and (page.state is None or recorded.state is page.state)
        and (page.since is None or at >= page.since)
    )


__all__ = ["is_on"]
