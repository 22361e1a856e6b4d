"""A log of commits outside of a database, and a projection that is brought up to date at each read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from sqlalchemy import exc

from settlemark.hosting import shown
from settlemark_adapters.records._commit import Commit, Head
from settlemark_adapters.records._errors import StoreError
from settlemark_adapters.records._projection import Projection, View, apply_all


class LogBackend(ABC):
    """The reading part of a backend: applies the log to the projection, commit by commit.

    The projection knows its commit, and applies each in one database transaction: a crash anywhere leaves it at some
    commit, from which the next read continues. Losing it loses nothing.

    Args:
        projection: an SQLAlchemy URL; by default it is in memory, and made anew by each process.
    """

    def __init__(self, projection: str) -> None:
        self._projection = Projection(projection)
        self._known = False

    @abstractmethod
    def since(self, head: Head, *, known: bool) -> Iterable[Commit] | None:
        """Return the commits after this one, the oldest first; None when the log has no such commit.

        Args:
            head: the projection's commit.
            known: this process has seen it in the log.
        """

    @contextmanager
    def view(self, *, fresh: bool = True) -> Generator[View]:
        """Yield the state at one commit, unchanged while it is open: the last one, or, not fresh, the last seen."""
        with self._sound():
            if fresh or not self._known:
                self.catch_up()
            with self._projection.reading() as view:
                yield view

    def catch_up(self) -> None:
        """Bring the projection up to the log's end."""
        with self._projection.lock:
            with self._projection.reading() as view:
                head = view.head
            found = self.since(head, known=self._known)
            new = list(self.since(Head(), known=True) or ()) if found is None else list(found)
            if new or found is None:
                apply_all(self._projection, new, anew=found is None)
            self._known = True

    @contextmanager
    def _sound(self) -> Generator[None]:
        try:
            yield
        except exc.DBAPIError as error:
            url = shown(self._projection.engine.url.render_as_string(hide_password=False))
            raise StoreError(
                f"queries are answered from {url}, which failed: {error.orig}; nothing was committed; when"
                " it is removed, it is made anew from the log",
                store=url,
            ) from error

    def close(self) -> None:
        """Close the projection's connections."""
        self._projection.close()


class NumberedLog(LogBackend):
    """A log whose commits are found by their numbers."""

    @abstractmethod
    def entry(self, number: int) -> Commit | None:
        """Return a commit; None if there is none of this number."""

    def since(self, head: Head, *, known: bool) -> Iterable[Commit] | None:
        """Return the commits after this one, the oldest first; None when the log has no such commit."""
        if head.number and not known:
            last = self.entry(head.number)
            if last is None or last.id != head.id:
                return None
        return self._after(head.number)

    def _after(self, number: int) -> Generator[Commit]:
        while (commit := self.entry(number + 1)) is not None:
            yield commit
            number = commit.number


def whole(commit: Commit, where: str) -> Commit:
    """Return a commit that was read, if its contents are intact.

    Raises:
        StoreError: its id is not the digest of its contents.
    """
    if commit.digest() != commit.id:
        raise StoreError(
            f"{where} is damaged: it is not what was committed as {commit.id}; nothing was read from it or written;"
            " bring it back from a backup",
            store=where,
        )
    return commit


__all__ = ["LogBackend", "NumberedLog", "whole"]
