"""Records as they are at one commit, for reading several of them consistently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from settlemark_adapters.records._entity import Entity, Place, checked_id
from settlemark_adapters.records._errors import BadRecord
from settlemark_adapters.records._projection import View
from settlemark_adapters.records._tx import Sight, known

MOST = 1000


class Snapshot:
    """All records at one commit, for as long as it is open: what was committed together is seen together.

    Attributes:
        commit: the id of the last commit in it, or None.
    """

    def __init__(self, view: View, place: Place, entities: Mapping[str, Entity], sight: Sight | None = None) -> None:
        self._view, self._place, self._entities = view, place, entities
        self._sight: Sight = view if sight is None else sight

    @property
    def commit(self) -> str | None:
        """The id of the last commit in it, or None."""
        return self._view.head.id

    def get(self, entity: str, record_id: str) -> dict[str, Any] | None:
        """Return a record, or None."""
        known(self._entities, entity)
        row = self._sight.row(self._place.path(entity, checked_id(record_id, entity)))
        return None if row is None or row.text is None else row.record()

    def query(self, entity: str, where: Mapping[str, Any] | None = None, limit: int = MOST) -> list[dict[str, Any]]:
        """Return the records whose fields have these values, in the order they were created."""
        kind, wanted = known(self._entities, entity), where or {}
        if unknown := [name for name in wanted if name not in kind.fields]:
            raise BadRecord(
                f"{entity} has no field {unknown[0]!r} to look for: it has {', '.join(kind.fields)}",
                entity=entity,
                field=unknown[0],
            )
        return [row.record() for row in self._sight.rows(self._place.space(entity), wanted)[: checked_limit(limit)]]

    def log(self, limit: int = MOST, entity: str = "", record_id: str = "") -> list[dict[str, Any]]:
        """Return the last commits, the newest first: of all records, of a kind, or of one."""
        if entity or record_id:
            known(self._entities, entity)
        below = self._place.path(entity, checked_id(record_id, entity)) if record_id else self._place.space(entity)
        return [commit.entry() for commit in self._view.log(checked_limit(limit), below)]


def checked_limit(limit: object) -> int:
    """Return a valid limit.

    Raises:
        BadRecord: it is invalid.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise BadRecord(f"limit={limit!r}: ask for 1 to {MOST}")
    return limit


__all__ = ["MOST", "Snapshot", "checked_limit"]
