"""A kind of record: its fields, its records' paths in a commit, and their scopes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from settlemark.hosting import json_text
from settlemark_adapters.records._errors import BadRecord

ROOT = "data"
SUFFIX = ".json"
_ENTITY = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,119}")
_DERIVED = re.compile(r"([0-9a-f]{8})-([0-9a-f]{16})")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KINDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True)
class Entity:
    """A kind of record: the names and types of its fields.

    Args:
        name: begins with a capital, as in `Invoice`.
        fields: by name: `str`, `int`, `float` (whole numbers too), `bool`, `list` or `dict`.
        optional: fields that may be missing, or None.
        computed: fields that the tools compute, and that `commit_records` refuses.

    Raises:
        ValueError: a name or a type is not one of these.

    >>> invoice = Entity("Invoice", {"total": float, "customer_id": str}, computed=("total",))
    >>> invoice.fit({"customer_id": "c1", "total": 5})
    {'total': 5, 'customer_id': 'c1'}
    """

    name: str
    fields: Mapping[str, type] = field(hash=False)
    optional: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _ENTITY.fullmatch(self.name):
            raise ValueError(f"the entity {self.name!r}: name it with letters and digits, a capital first: 'Invoice'")
        for name, kind in self.fields.items():
            if not _FIELD.fullmatch(name) or name == "id":
                raise ValueError(f"{self.name} has a field {name!r}: use letters, digits and _, and not `id`, its own")
            if kind not in _KINDS:
                raise ValueError(
                    f"{self.name}.{name} is {kind!r}: choose one of {', '.join(k.__name__ for k in _KINDS)}"
                )
        for name in (*self.optional, *self.computed):
            if name not in self.fields:
                raise ValueError(f"{self.name} has no field {name!r}; it has {', '.join(self.fields)}")

    def fit(self, fields: Mapping[str, Any], *, partly: bool = False) -> dict[str, Any]:
        """Check fields against this kind of record, and return them in order.

        Args:
            fields: values by name.
            partly: only some of them are given, as for an update.

        Raises:
            BadRecord: one is unknown, missing, or of another type.
        """
        for name in fields:
            if name not in self.fields:
                raise self.bad(f"has no field {name!r}: it has {', '.join(self.fields)}", name)
        missing = [name for name in self.fields if name not in fields and name not in self.optional]
        if missing and not partly:
            raise self.bad(f"lacks {', '.join(missing)}", missing[0])
        return {name: self._fit(name, fields[name]) for name in self.fields if name in fields}

    def take(self, fields: Mapping[str, Any]) -> None:
        """Check that none of the fields is a computed one.

        Raises:
            BadRecord: one is.
        """
        for name in self.computed:
            if name in fields:
                raise self.bad(f"works out {name!r} itself: leave it out, and use the tool that computes it", name)

    def bad(self, why: str, name: str | None = None) -> BadRecord:
        """Return the error for an invalid record of this kind."""
        return BadRecord(f"{self.name} {why}; nothing was written", entity=self.name, field=name)

    def _fit(self, name: str, value: Any) -> Any:
        kind = self.fields[name]
        if value is None and name in self.optional:
            return None
        wanted = (int, float) if kind is float else kind
        is_bool = isinstance(value, bool)
        if not isinstance(value, wanted) or (is_bool and kind is not bool):
            raise self.bad(f"has {_shown(value)} for {name!r}, which is {_KINDS[kind]}", name)
        if isinstance(value, float) and not math.isfinite(value):
            raise self.bad(f"has {value!r} for {name!r}, which no record can hold", name)
        json_text.check(value, f"{self.name}.{name}")
        return json_text.snapshot(value)


@dataclass(frozen=True)
class Place:
    """The paths and scopes of one store's (and tenant's) records.

    >>> place = Place("books", "acme")
    >>> (place.path("Invoice", "INV-7"), place.scope("Invoice", "INV-7"))
    ('data/acme/Invoice/INV-7.json', 'record:/books/acme/Invoice/INV-7')
    >>> place.scope("Invoice", "0123abcd-0123456789abcdef")  # derived ids lie beneath what is held while they are made
    'record:/books/acme/Invoice/0123abcd/0123456789abcdef'
    """

    store: str
    tenant: str = ""

    def __post_init__(self) -> None:
        for what, name in (("store", self.store), ("tenant", self.tenant or "x")):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{what}={name!r}: use small letters, digits, `.`, `_` and `-`")

    def space(self, entity: str) -> str:
        """Return the folder of an entity's records."""
        return "/".join(filter(None, (ROOT, self.tenant, entity)))

    def path(self, entity: str, record_id: str) -> str:
        """Return the path of a record."""
        return f"{self.space(entity)}/{record_id}{SUFFIX}"

    def scope(self, entity: str = "", part: str = "") -> str:
        """Return the scope of the store, of an entity, of a record, or of everything one call creates."""
        derived = _DERIVED.fullmatch(part)
        parts = ("record:", self.store, self.tenant, entity, *(derived.groups() if derived else (part,)))
        return "/".join(filter(None, parts))


def split(path: str) -> tuple[str, str] | None:
    """Return the folder of a record's path, and the record's id; None for a path of something else.

    >>> split("data/acme/Invoice/INV-7.json"), split("README.md")
    (('data/acme/Invoice', 'INV-7'), None)
    """
    space, _, name = path.rpartition("/")
    parts = space.split("/")
    if parts[0] != ROOT or not 2 <= len(parts) <= 3 or not name.endswith(SUFFIX):  # noqa: PLR2004 - with a tenant, or without
        return None
    record_id = name.removesuffix(SUFFIX)
    return (space, record_id) if _ID.fullmatch(record_id) and _ENTITY.fullmatch(parts[-1]) else None


def checked_id(record_id: object, entity: str) -> str:
    """Return a valid id of a record.

    Raises:
        BadRecord: it is invalid.
    """
    if not isinstance(record_id, str) or not _ID.fullmatch(record_id) or record_id.endswith("."):
        raise BadRecord(
            f"{_shown(record_id)} is no id of a {entity}: use letters, digits and . _ @ + -, at most 120, a letter or"
            " digit first; nothing was written",
            entity=entity,
            record_id=record_id,
        )
    return record_id


def checked_line(text: object, what: str) -> str:
    """Return a text that fits into one line of a log.

    Raises:
        BadRecord: it is empty, too long, or has several lines.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > 500 or not text.isprintable():  # noqa: PLR2004
        raise BadRecord(f"the {what} {_shown(text)}: give one line of at most 500 characters; nothing was written")
    return text.strip()


def write(fields: Mapping[str, Any]) -> str:
    """Return a record's text: one field a line, so that two versions can be compared by eye."""
    return json.dumps(fields, ensure_ascii=False, indent=1) + "\n"


def read(text: str) -> dict[str, Any]:
    """Return a record's fields.

    Raises:
        ValueError: it is no object.
    """
    found: Any = json.loads(text)
    if isinstance(found, dict):
        return cast("dict[str, Any]", found)
    raise ValueError("a record is a JSON object")


def mark(value: Any) -> str:
    """Return a digest that is equal for two values exactly when JSON says so; `1` is `1.0`.

    >>> mark(1) == mark(1.0), mark(1) == mark(True), mark("1") == mark(1)
    (True, False, False)
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json_text.fingerprint(json_text.encode(value))


def by_name(entities: Iterable[Entity]) -> dict[str, Entity]:
    """Return entities by their names.

    Raises:
        ValueError: two have one name, or names that a store may take for one.
    """
    found: dict[str, Entity] = {}
    for entity in entities:
        twin = next((name for name in found if name.casefold() == entity.name.casefold()), None)
        if twin is not None and found[twin] != entity:
            raise ValueError(f"there are two entities {twin} and {entity.name}: give one of them another name")
        found[entity.name] = entity
    return found


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - a line of an error


__all__ = ["Entity", "Place", "by_name", "checked_id", "checked_line", "mark", "read", "split", "write"]
