"""Optimistic versions in a channel: a write holds only if what it was made from still does."""

# What nodes write comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from typing_extensions import TypedDict

from settlemark_langgraph.channels._conflicts import RESOLVED, Conflict, conflicts, named, same, without

_EMPTY: dict[str, Any] = {"version": 0, "after": 0, "by": None, "conflicts": []}


class Versioned(TypedDict, total=False):
    """The state of a `latest_by_version` channel: empty until the first write.

    Keys:
        value: what holds.
        version: its version; 0 when nothing was written.
        after: the version that it replaced.
        by: the node that wrote it, or None.
        conflicts: the writes that were not applied, oldest first.
    """

    value: Any
    version: int | str
    after: int | str
    by: str | None
    conflicts: list[Conflict]


def latest_by_version(old: Mapping[str, Any] | None, new: Any) -> Versioned:
    """Return the channel after a write: applied if it was based on the version that holds, else on record.

    Annotate with `Versioned`, write with `propose`, read `["value"]` or `value_of`, and see `conflicts`.
    A write is a mapping of `value`, `based_on` (the version its writer read; 0 or absent for the first write)
    and perhaps `version` (an ETag; a number has to grow). Without a version the channel counts: 3 makes 4,
    and the ETag "abc" makes "abc+1".

    Channel contract: nothing lost and nothing stale-grounded: every write either is the next version of the one
    it was based on, or stands in `conflicts` with who wrote it, what it was based on and what was found. It
    compares versions, never values: a value that changed and changed back is a new version. It never raises, so
    a conflict cannot make the thread unreadable. This is the one channel contract here that stops a write made
    from a superseded read.

    Not a write: None, and a whole record that a subgraph or node hands back as it was when the step began. One
    in which a subgraph put the next version is a write based on the version that this one replaced.

    Laws: a left fold in write order. Of the writes based on one version at most one is applied, the first in
    write order; versions never return to one that held before, as long as given ETags do not. Not associative,
    commutative or idempotent: the same write again is a conflict, since its base is gone.

    >>> plan = latest_by_version({}, {"value": "fly"})
    >>> plan = latest_by_version(plan, {"value": "drive", "based_on": 1, "by": "left"})
    >>> plan = latest_by_version(plan, {"value": "swim", "based_on": 1, "by": "right"})
    >>> plan["value"], plan["version"], plan["conflicts"][0]["values"]
    ('drive', 2, ['swim'])
    >>> print(plan["conflicts"][0]["message"])
    'right' wrote on version 1, but 'left' had written version 2: not applied; read it again and propose() anew
    """
    record = _whole(old)
    if new is None or new == {}:
        return cast("Versioned", record)
    if isinstance(new, Mapping) and isinstance(new.get("conflicts"), list) and "based_on" not in new:
        return _handed_back(record, new)
    if not isinstance(new, Mapping) or not ("value" in new or RESOLVED in new):
        return _refused(record, {"value": new}, "a write has to be made with propose()")
    if "value" not in new:
        return cast("Versioned", {**record, "conflicts": without(record["conflicts"], new[RESOLVED])})
    return _applied(record, new)


def _applied(record: dict[str, Any], new: Mapping[str, Any]) -> Versioned:
    head, version = record["version"], new.get("version")
    version = _next(head) if version is None else version
    if (new.get("based_on") or 0) != head:
        return _refused(record, new, "read it again and propose() anew")
    if not _follows(version, head):
        return _refused(record, new, f"version {version!r} does not come after {head!r}")
    standing = without(record["conflicts"], new.get(RESOLVED))
    return {"value": new["value"], "version": version, "after": head, "by": new.get("by"), "conflicts": standing}


def _handed_back(record: dict[str, Any], new: Mapping[str, Any]) -> Versioned:
    """Take a whole record, as a subgraph is handed one and hands it back: by its versions it may be no write."""
    record = {**record, "conflicts": [*record["conflicts"], *without(conflicts(new), record["conflicts"])]}
    version = new.get("version")
    if record["version"] == 0 and isinstance(version, int | str):
        return cast("Versioned", {**record, **new, "conflicts": record["conflicts"]})
    unchanged = version == record["version"] and same(new.get("value"), record.get("value"))
    if unchanged or version == record["after"] or "value" not in new:
        return cast("Versioned", record)
    return _applied(record, {**new, "based_on": new.get("after")})


def _whole(old: Any) -> dict[str, Any]:
    """The record in full; also of a first write that LangGraph stored unreduced, its type being none it can call."""
    if isinstance(old, Mapping) and "conflicts" in old:
        return {**_EMPTY, **old, "conflicts": conflicts(old)}
    return cast("dict[str, Any]", latest_by_version(_EMPTY, old)) if old else dict(_EMPTY)


def _next(version: int | str) -> int | str:
    if isinstance(version, int):
        return version + 1
    counted = re.fullmatch(r"(.*)\+(\d+)", version, re.DOTALL)
    return f"{counted[1]}+{int(counted[2]) + 1}" if counted else f"{version}+1"


def _follows(version: Any, head: int | str) -> bool:
    if isinstance(version, int) and isinstance(head, int):
        return version > head
    return isinstance(version, int | str) and version != head


def _refused(record: dict[str, Any], write: Mapping[str, Any], advice: str) -> Versioned:
    head, base, writer, holder = record["version"], write.get("based_on"), write.get("by"), record["by"]
    on = "no version" if base is None else f"version {base!r}"
    met = f"but {named([holder])} had written version {head!r}" if head != 0 else "but nothing was written before"
    lost: Conflict = {
        "message": f"{named([writer])} wrote on {on}, {met}: not applied; {advice}",
        "by": [writer, holder],
        "values": [write.get("value")],
        "based_on": base,
        "found": head,
    }
    return cast("Versioned", {**record, "conflicts": [*record["conflicts"], lost]})
