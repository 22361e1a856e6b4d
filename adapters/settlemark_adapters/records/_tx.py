"""What one transaction reads and writes before its commit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from settlemark import Scope
from settlemark_adapters.records._backend import Staging
from settlemark_adapters.records._entity import Entity, Place, checked_id, mark, read, split, write
from settlemark_adapters.records._errors import BadRecord, RecordError, StoreError
from settlemark_adapters.records._projection import Row

_LAST = 1 << 62  # after everything committed


class Sight(Protocol):
    """Records to read: a view of the committed ones, perhaps with a transaction's changes."""

    def row(self, path: str) -> Row | None:
        """Return the row of a path."""
        ...

    def rows(self, space: str, where: Mapping[str, Any]) -> list[Row]:
        """Return the records of a folder whose fields have these values."""
        ...


@dataclass(frozen=True)
class Naming:
    """How a transaction's new records get their ids: from its key, so that a repeated call makes the same ones.

    Attributes:
        key: the call's.
        bucket: the part of the ids that is known before the key: the call holds it while it creates.
        covered: the call's scopes; None if unknown.
    """

    key: str
    bucket: str
    covered: tuple[Scope, ...] | None = None

    def id(self, entity: str, number: int) -> str:
        """Return the id of the n-th created record."""
        own = hashlib.sha256(f"{self.key}/{entity}/{number}".encode()).hexdigest()
        return f"{self.bucket}-{number:04x}{own[:12]}"  # sorted: git, for one, keeps names and no order


@dataclass
class Overlay:
    """A view with some changes on top."""

    under: Sight
    changes: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def row(self, path: str) -> Row | None:
        """Return the row of a path."""
        if path not in self.changes:
            return self.under.row(path)
        return Row(path, self.changes[path], "", self._place(path))

    def rows(self, space: str, where: Mapping[str, Any]) -> list[Row]:
        """Return the records of a folder whose fields have these values."""
        found = [row for row in self.under.rows(space, where) if row.path not in self.changes]
        for path, text in self.changes.items():
            at = split(path)
            if text is not None and at is not None and at[0] == space and _has(read(text), where):
                found.append(Row(path, text, "", self._place(path)))
        return sorted(found, key=lambda row: row.place)

    def _place(self, path: str) -> tuple[int, int]:
        before = self.under.row(path)
        stays = before is not None and before.text is not None
        return before.place if before is not None and stays else (_LAST, list(self.changes).index(path))


class Tx:
    """An open transaction: its writes become one commit, or nothing.

    Attributes:
        message: why, in one line; may be changed before the end.
        author: who.
        naming: how its new records get their ids.
    """

    def __init__(
        self,
        message: str,
        author: str,
        *,
        sight: Sight,
        place: Place,
        entities: Mapping[str, Entity],
        naming: Naming,
        staging: Staging | None = None,
    ) -> None:
        self.message = message
        self.author = author
        self._overlay = Overlay(sight)
        self._place = place
        self._entities = entities
        self.naming = naming
        self._staging = staging
        self._created = 0
        self._seen: dict[str, str | None] = {}
        self._asked: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = []

    # ---- writing

    def create(self, entity: str, fields: Mapping[str, Any], record_id: str | None = None) -> dict[str, Any]:
        """Add a record, and return it with its `id`; a generated id is the same when the call is repeated.

        Raises:
            BadRecord: the fields are invalid, or there is such a record.
        """
        kind = self.entity(entity)
        fit = kind.fit(fields)
        if record_id is None:
            record_id = self.naming.id(entity, self._created)
            self._created += 1
        path = self._path(entity, record_id)
        if self._text(path) is not None:
            raise BadRecord(
                f"there is a {entity} {record_id} already: update it, or choose another id; nothing was written",
                entity=entity,
                record_id=record_id,
            )
        return self._write(path, record_id, fit)

    def update(self, entity: str, record_id: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Change some fields of a record, and return the new record.

        Raises:
            BadRecord: the fields are invalid, or there is no such record.
        """
        kind = self.entity(entity)
        fit = kind.fit(fields, partly=True)
        path = self._path(entity, record_id)
        now = kind.fit({**self._fields(path, entity, record_id), **fit})
        return self._write(path, record_id, now)

    def delete(self, entity: str, record_id: str) -> None:
        """Remove a record.

        Raises:
            BadRecord: there is no such record.
        """
        self.entity(entity)
        path = self._path(entity, record_id)
        self._fields(path, entity, record_id)
        self._change(path, None)

    # ---- reading

    def get(self, entity: str, record_id: str) -> dict[str, Any] | None:
        """Return a record as this transaction sees it, or None."""
        self.entity(entity)
        text = self._text(self._path(entity, record_id))
        return None if text is None else {"id": record_id, **read(text)}

    def query(self, entity: str, where: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the records whose fields have these values, as this transaction sees them, in order of creation."""
        self.entity(entity)
        self._hold(self._place.scope(entity))
        space, wanted = self._place.space(entity), dict(where or {})
        under = self._overlay.under.rows(space, wanted)
        self._asked.append((space, wanted, [(row.path, row.commit) for row in under]))
        return self.look(entity, wanted)

    # ---- for checks of the whole, just before the commit; they hold nothing

    def look(self, entity: str, where: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the records whose fields will have these values."""
        return [row.record() for row in self._overlay.rows(self._place.space(entity), where)]

    def peek(self, entity: str, record_id: str) -> dict[str, Any] | None:
        """Return a record as it will be, or None."""
        row = self._overlay.row(self._place.path(entity, record_id))
        return None if row is None or row.text is None else row.record()

    def changed(self, entity: str) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
        """Return the records of a kind that it changes: before and after; None where there is none."""
        space = self._place.space(entity)
        for path, text in list(self._overlay.changes.items()):
            at = split(path)
            if at is not None and at[0] == space:
                before = self._overlay.under.row(path)
                was = None if before is None or before.text is None else before.record()
                yield was, None if text is None else {"id": at[1], **read(text)}

    def entity(self, name: str) -> Entity:
        """Return the declaration of a kind of record.

        Raises:
            BadRecord: there is no such kind.
        """
        return known(self._entities, name)

    # ---- the commit

    @property
    def contents(self) -> dict[str, str | None]:
        """Its writes, by path."""
        return dict(self._overlay.changes)

    def records(self) -> dict[str, dict[str, Any] | None]:
        """Return its writes, by path, as records."""
        return records_of(self._overlay.changes)

    def still_sees(self, sight: Sight) -> str | None:
        """Return None if all its reads are unchanged, else a changed path."""
        for path, commit in self._seen.items():
            row = sight.row(path)
            if (None if row is None else row.commit) != commit:
                return path
        for space, where, found in self._asked:
            if [(row.path, row.commit) for row in sight.rows(space, where)] != found:
                return space
        return None

    def restore(self, path: str, text: str | None) -> None:
        """Write a path's earlier text."""
        self._change(path, text)

    def _path(self, entity: str, record_id: str) -> str:
        path = self._place.path(entity, checked_id(record_id, entity))
        self._hold(self._place.scope(entity, record_id))
        return path

    def _hold(self, scope: str) -> None:
        covered = self.naming.covered
        if covered is not None and not any(ours.covers(Scope.parse(scope)) for ours in covered):
            raise RecordError(
                f"this call holds {', '.join(map(str, covered))}, and not {scope}: say in creates= or touches= of its"
                " tool which records it is about; nothing was written",
                scope=scope,
            )

    def _text(self, path: str) -> str | None:
        if path not in self._seen:
            under = self._overlay.under.row(path)
            self._seen[path] = None if under is None else under.commit
        row = self._overlay.row(path)
        return None if row is None else row.text

    def _fields(self, path: str, entity: str, record_id: str) -> dict[str, Any]:
        text = self._text(path)
        if text is None:
            raise BadRecord(
                f"there is no {entity} {record_id}: look for it with query_records; nothing was written",
                entity=entity,
                record_id=record_id,
            )
        try:
            return read(text)
        except ValueError as error:
            raise StoreError(f"{path} holds no record ({error}); nothing was written", store=path) from error

    def _write(self, path: str, record_id: str, fields: dict[str, Any]) -> dict[str, Any]:
        self._change(path, write(fields))
        return {"id": record_id, **fields}

    def _change(self, path: str, text: str | None) -> None:
        if self._staging is not None:
            self._staging.put(path, text)
        under = self._overlay.under.row(path)
        there = None if under is None else under.text
        self._overlay.changes.pop(path, None)
        if text != there:  # an unchanged record is no change
            self._overlay.changes[path] = text


def known(entities: Mapping[str, Entity], name: str) -> Entity:
    """Return the declaration of a kind of record.

    Raises:
        BadRecord: there is no such kind.
    """
    if name not in entities:
        raise BadRecord(f"there is no entity {name!r}; there are {', '.join(entities) or 'none'}", entity=name)
    return entities[name]


def records_of(contents: Mapping[str, str | None]) -> dict[str, dict[str, Any] | None]:
    """Return a commit's contents as records, by path."""
    found: dict[str, dict[str, Any] | None] = {}
    for path, text in contents.items():
        at = split(path)
        found[path] = None if text is None or at is None else {"id": at[1], **read(text)}
    return found


def _has(fields: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(name in fields and mark(fields[name]) == mark(value) for name, value in where.items())


__all__ = ["Naming", "Overlay", "Sight", "Tx", "known", "records_of"]
