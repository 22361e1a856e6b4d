"""Making commits: a function gets an open transaction, and its writes are published whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from settlemark.hosting import json_text
from settlemark_adapters.records._backend import Backend, Moved, Staging
from settlemark_adapters.records._commit import Commit, Committed
from settlemark_adapters.records._entity import Entity, Place, checked_line
from settlemark_adapters.records._errors import Changed, KeyTaken, StoreError
from settlemark_adapters.records._projection import Row, View
from settlemark_adapters.records._snapshot import Snapshot
from settlemark_adapters.records._tx import Naming, Sight, Tx, records_of

TRIES = 200
"""How often a transaction that loses races is tried."""


@dataclass(frozen=True)
class Store:
    """The records of one tenant on a backend.

    Attributes:
        backend: where the commits are.
        place: its paths and scopes.
        entities: the kinds of records, by name.
        clock: seconds since 1970.
        fit: called with each transaction just before its commit; refuses by raising.
    """

    backend: Backend
    place: Place
    entities: Mapping[str, Entity]
    clock: Callable[[], float]
    fit: Callable[[Tx], None]

    def commit(self, message: str, author: str, fn: Callable[[Tx], Any], *, naming: Naming, request: str) -> Committed:
        """Run `fn(tx)` and return the outcome; it is called again when its reads have changed before its commit.

        If there is a commit of this request under its key already, that is returned, and `fn` is not called.

        Raises:
            KeyTaken: there is one of another request, or it was taken back.
            StoreError, OutcomeUnknown: see there.
        """
        checked_line(message, "message")
        checked_line(author, "author")
        for _ in range(TRIES):
            with self.backend.view() as view:
                earlier = view.of_key(naming.key)
                if earlier is not None:
                    return again(view, earlier, request)
            staging = self.backend.stage(self.place.tenant, naming.key)
            try:
                tx = self.begin(message, author, _Looking(self.backend), naming, staging)
                result = _plain(fn(tx))
                done = self._publish(tx, result, staging, request)
            finally:
                staging.discard()
            if done is not None:
                return done
        raise self._busy(message)

    def begin(self, message: str, author: str, sight: Sight, naming: Naming, staging: Staging | None = None) -> Tx:
        """Return an open transaction; without `staging` nothing of it is ever written."""
        return Tx(
            message, author, sight=sight, place=self.place, entities=self.entities, naming=naming, staging=staging
        )

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the result of the call under a key; None without a commit of it that still stands."""
        with self.backend.view() as view:
            earlier = view.of_key(key)
            if earlier is None or view.reverting(earlier.id) is not None:
                return None
            return Committed(earlier.result, earlier.id, {}).answer

    def take_back(self, key: str, author: str) -> None:
        """Take back the commit under a key, by a commit that restores the previous records; once, even if repeated.

        Raises:
            Changed: another writer has written to one of its records since: nothing is taken back.
        """
        for _ in range(TRIES):
            with self.backend.view() as view:
                commit = view.of_key(key)
                if commit is None or view.reverting(commit.id) is not None:
                    return
                for path, text in commit.contents.items():
                    _still_ours(view, commit, path, text)
                before, head = view.before(commit), view.head
            staging = self.backend.stage(self.place.tenant, key)
            try:
                tx = self.begin(f'Revert "{commit.message}"', author, _Looking(self.backend), Naming(key, ""), staging)
                for path, (text, _) in before.items():
                    tx.restore(path, text)
                self.fit(tx)
                staging.publish(Commit(tx.message, author, self.clock(), tx.contents, reverts=commit.id), head)
            except Moved:
                continue
            finally:
                staging.discard()
            return
        raise self._busy(f"taking back {key}")

    @contextmanager
    def snapshot(self, sight: Callable[[View], Sight] | None = None) -> Generator[Snapshot]:
        """Yield all records at the last commit, perhaps as changed by `sight`."""
        with self.backend.view() as view:
            yield Snapshot(view, self.place, self.entities, None if sight is None else sight(view))

    def _publish(self, tx: Tx, result: Any, staging: Staging, request: str) -> Committed | None:
        """Commit a transaction's writes; return None when its reads have changed."""
        if not tx.contents:
            return Committed(result, None, {})
        message, key = checked_line(tx.message, "message"), tx.naming.key
        for _ in range(TRIES):
            with self.backend.view() as view:
                earlier = view.of_key(key)
                if earlier is not None:
                    return again(view, earlier, request)
                if tx.still_sees(view) is not None:
                    return None
                head = view.head
            self.fit(tx)  # checked at this head: if another commit came meanwhile, the next line is refused
            try:
                done = staging.publish(
                    Commit(message, tx.author, self.clock(), tx.contents, result, key, request), head
                )
            except Moved:
                continue
            return Committed(result, done.id, tx.records())
        raise self._busy(message)

    def _busy(self, what: str) -> StoreError:
        return StoreError(
            f"{what}: others have committed to {self.backend!r} {TRIES} times meanwhile; nothing was written; try again"
            " when fewer write to it",
            store=repr(self.backend),
        )


class _Looking:
    """The records as a transaction reads them: its reads are compared before it commits."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def row(self, path: str) -> Row | None:
        """Return what stands at a path."""
        with self._backend.view(fresh=False) as view:
            return view.row(path)

    def rows(self, space: str, where: Mapping[str, Any]) -> list[Row]:
        """Return the records of a folder whose fields have these values."""
        with self._backend.view(fresh=False) as view:
            return view.rows(space, where)


def again(view: View, earlier: Commit, request: str) -> Committed:
    """Return the outcome of a repeated call.

    Raises:
        KeyTaken: its key is another call's, or it was taken back.
    """
    reverting = view.reverting(earlier.id)
    if earlier.request == request and reverting is None:
        return Committed(earlier.result, earlier.id, records_of(earlier.contents))
    why = (
        "for another call: where two ledgers write to one store, give one of their settlements a namespace of its own"
        if reverting is None
        else f"which {reverting.id} took back: a new call has a new key"
    )
    raise KeyTaken(
        f"the key {earlier.key!r} made commit {earlier.id} ({earlier.message!r}), {why}; nothing was written",
        key=earlier.key,
        commit=earlier.id,
    )


def _still_ours(view: View, commit: Commit, path: str, text: str | None) -> None:
    row = view.row(path)
    if row is not None and (row.commit, row.text) == (commit.id, text):
        return
    by = None if row is None else view.of_id(row.commit)
    who = "somebody" if by is None or by.id == commit.id else f"{by.author} in {by.id} ({by.message!r})"
    raise Changed(
        f"{path} was changed by {who} after {commit.id} ({commit.message!r}): nothing is taken back; decide what the"
        " record is to be, and commit it",
        path=path,
        commit=None if by is None else by.id,
    )


def _plain(result: Any) -> Any:
    """Return a result as it will be read back."""
    json_text.check(result)
    return json.loads(json.dumps(result, default=dict))


__all__ = ["Store", "again"]
