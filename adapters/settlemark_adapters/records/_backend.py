"""The interface of a store of commits, for the four that are shipped and your own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from settlemark_adapters.records._commit import Commit, Head
from settlemark_adapters.records._projection import View

DAY = 86_400.0


class Moved(Exception):
    """Another commit came first: nothing was published; read the new state and try again."""


class Staging(Protocol):
    """What one transaction has written so far, invisible to readers."""

    def put(self, path: str, text: str | None) -> None:
        """Write a record's text, or record its deletion; a later write of the same path replaces it."""
        ...

    def publish(self, commit: Commit, head: Head) -> Commit:
        """Publish in one atomic step, as the next commit after this head; return the commit, with its id.

        Raises:
            Moved: that is no longer the head.
            OutcomeUnknown: nobody can tell whether it was published.
            StoreError: it was not.
        """
        ...

    def discard(self) -> None:
        """Remove its remains; a second call does nothing."""
        ...


@runtime_checkable
class Backend(Protocol):
    """A log of commits, and the state it leads to.

    Laws: a commit is there as a whole or not at all, for every reader and after every crash. The log only grows, and of
    two that publish after one head, one is refused. A view shows the state at one commit.
    """

    def view(self, *, fresh: bool = True) -> AbstractContextManager[View]:
        """Return the state at one commit, unchanged while it is open: the last one, or, not fresh, the last seen."""
        ...

    def stage(self, tenant: str, key: str) -> Staging:
        """Return a place for a transaction's writes before they are published."""
        ...

    def sweep(self, older_than: float = DAY) -> list[str]:
        """Remove what transactions of dead processes have left, and return the names; no reader could see it."""
        ...

    def close(self) -> None:
        """Close connections and files."""
        ...


__all__ = ["DAY", "Backend", "Moved", "Staging"]
