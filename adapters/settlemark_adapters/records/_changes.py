"""Changes to records as a model writes them: a list of objects, one for each record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from settlemark_adapters.records._entity import Entity, Place, checked_id
from settlemark_adapters.records._errors import BadRecord
from settlemark_adapters.records._tx import Tx, known

_DO = ("create", "update", "delete")
_MAY = frozenset({"do", "entity", "id", "fields"})


def fit_changes(changes: object, entities: Mapping[str, Entity]) -> list[dict[str, Any]]:
    """Check changes as far as possible without the store, and return them.

    Raises:
        BadRecord: naming the first invalid one.
    """
    if not isinstance(changes, list | tuple) or not changes:
        raise BadRecord("changes: give a list with one object for each record, at least one; nothing was written")
    return [_fit(f"changes[{n}]", one, entities, n) for n, one in enumerate(cast("Sequence[Any]", changes))]


def scopes_of_changes(changes: object, entities: Mapping[str, Entity], place: Place, bucket: str) -> list[str]:
    """Return the scopes of the changed records, each once."""
    told = fit_changes(changes, entities)
    return list(dict.fromkeys(place.scope(one["entity"], one.get("id") or bucket) for one in told))


def made(tx: Tx, changes: object) -> list[dict[str, Any]]:
    """Make the changes, and return the changed records; for a deleted one, its id.

    Raises:
        BadRecord: one cannot be made.
    """
    done: list[dict[str, Any]] = []
    for one in cast("Sequence[Mapping[str, Any]]", changes):
        given: Mapping[str, Any] = one.get("fields") or {}
        fields = {name: _meant(value, done) for name, value in given.items()}
        entity, record_id = one["entity"], one.get("id")
        if one["do"] == "create":
            done.append(tx.create(entity, fields, record_id))
        elif one["do"] == "update":
            done.append(tx.update(entity, str(record_id), fields))
        else:
            tx.delete(entity, str(record_id))
            done.append({"id": record_id})
    return done


def _fit(where: str, one: object, entities: Mapping[str, Entity], number: int) -> dict[str, Any]:
    if not isinstance(one, dict):
        raise _bad(where, f'is {one!r}: give an object such as {{"do": "create", "entity": "Task", "fields": {{}}}}')
    change = cast("dict[str, Any]", one)
    if unknown := sorted(set(change) - _MAY):
        raise _bad(where, f"has {', '.join(map(repr, unknown))}: it may have {', '.join(sorted(_MAY))}")
    if change.get("do") not in _DO:
        raise _bad(where, f"does {change.get('do')!r}: choose one of {', '.join(_DO)}")
    entity = known(entities, str(change.get("entity")))
    if change["do"] != "create" or change.get("id") is not None:
        checked_id(change.get("id"), entity.name)
    given: dict[str, Any] = change.get("fields") or {}
    if not isinstance(cast("object", given), dict) or (bool(given) == (change["do"] == "delete")):
        raise _bad(
            where,
            "needs its fields as an object" if change["do"] != "delete" else "deletes: it has no fields",
        )
    entity.take(given)
    plain = {name: value for name, value in given.items() if not _stands_for(value, number, f"{where}.{name}")}
    entity.fit(plain, partly=True)
    if unknown := [name for name in given if name not in entity.fields]:
        raise entity.bad(f"has no field {unknown[0]!r}: it has {', '.join(entity.fields)}", unknown[0])
    return change


def _stands_for(value: object, number: int, where: str) -> bool:
    which = _reference(value)
    if which is None:
        return False
    if isinstance(which, bool) or not isinstance(which, int) or not 0 <= which < number:
        raise _bad(where, f"stands for the id of change {which!r}: name one of the changes before it, from 0")
    return True


def _meant(value: object, done: list[dict[str, Any]]) -> object:
    which = _reference(value)
    if which is None:
        return value
    return done[int(which)]["id"]


def _reference(value: object) -> Any:
    """Return the number of the change that a value refers to, or None for an ordinary value."""
    if not isinstance(value, dict):
        return None
    given = cast("dict[str, Any]", value)
    return given["id_of"] if set(given) == {"id_of"} else None


def _bad(where: str, why: str) -> BadRecord:
    return BadRecord(f"{where} {why}; nothing was written")


__all__ = ["fit_changes", "made", "scopes_of_changes"]
