"""The memory tools, and how a value, its mark and its undo's data are written."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Literal, cast

from settlemark import UNKNOWN, Settlement, current_call
from settlemark.hosting import EffectName, Staged, escape, in_words
from settlemark_adapters._adapter import Adapter, operation
from settlemark_adapters._keyed import running
from settlemark_adapters.store._blocks import BaseStore, Blocks, Json, Namespace, mentions
from settlemark_adapters.store._edits import (
    Edit,
    State,
    appending,
    bare,
    deleting,
    digest,
    fitting,
    marked,
    putting,
    replacing,
    state_of,
)
from settlemark_adapters.store._faults import ChangedOutside, MemoryFault, StoreLost

RESERVED = frozenset({"settlemark", "langgraph"})
EFFECTS: Namespace = ("settlemark", "effects")
GONE: Namespace = ("settlemark", "gone")
DAY = 86_400.0
_PAGE = 200
_UNTOLD: Any = object()
"""In place of an argument that a user's own function does not take: what it will write is not known."""
_WRITING = ("put_memory", "append_memory", "replace_in_memory", "delete_memory")


class Store(Adapter):
    """Memory tools over a store: look up, search, put, append to, replace in, delete.

    Args:
        base_store: a LangGraph store, or a mapping of shared blocks.
        settlement: as for every adapter.
        field: where a value's text stands, for `append_memory` and `replace_in_memory`.
        index: the fields that the store embeds for its search, if it has one.
        clock: tells the time, for `prune`.
        name, effects: as for every adapter.

    Laws: the version of a name grows with every write, undone and deleted ones included, and is never used again.
    An undo restores the value it found, or refuses because a program has written past the settlement since.

    Raises (from the tools):
        ScopeError: a namespace or a name that no store can hold; nothing was done.
        VersionMoved, ChangedOutside, MemoryFault: see there; nothing was changed.
        StoreLost: the store failed while it was to write.
    """

    def __init__(
        self,
        base_store: BaseStore | MutableMapping[str, Any],
        settlement: Settlement | None = None,
        *,
        field: str = "text",
        index: list[str] | None = None,
        clock: Callable[[], float] = time.time,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
    ) -> None:
        self._base: BaseStore = Blocks(base_store) if isinstance(base_store, MutableMapping) else base_store
        self._field = field
        self._index = index
        self._clock = clock
        self._lock = threading.RLock()
        super().__init__(settlement, name=name, effects=effects)

    # ---- probe and undo

    def _at(self, namespace: str, name: str) -> str:
        path = (*_path(namespace), self._named(name))
        return f"memory:/{'/'.join(map(escape, path))}"

    def _under(self, namespace: str) -> str:
        return f"memory:/{'/'.join(map(escape, _path(namespace)))}"

    def _named(self, name: str) -> str:
        if not isinstance(cast("object", name), str) or not name.strip():
            raise MemoryFault("a memory needs a name", name=name)
        if "/" in name and isinstance(self._base, Blocks):
            raise MemoryFault(
                f"{name!r} has a slash, which parts the namespaces of shared blocks: give what stands before its last"
                " one as part of namespace=",
                name=name,
            )
        return name

    def _fit_put(self, namespace: str, name: str, value: Json = _UNTOLD, expected_version: str | None = None) -> None:
        if value is not _UNTOLD:
            self._fit(putting(fitting(value), expected_version, namespace, name), namespace, name)

    def _fit_append(self, namespace: str, name: str, text: str = "") -> None:
        self._fit(appending(self._field, text, namespace, name), namespace, name)

    def _fit_replace(self, namespace: str, name: str, old: str = _UNTOLD, new: str = _UNTOLD) -> None:
        if _UNTOLD not in (old, new):
            self._fit(replacing(self._field, (old, new), namespace, name), namespace, name)

    def _fit_delete(self, namespace: str, name: str, expected_version: str | None = None) -> None:
        self._fit(deleting(expected_version, namespace, name), namespace, name)

    def _fit(self, edit: Edit, namespace: str, name: str) -> None:
        """Refuse a held call now rather than at its release, where others have left before it."""
        effect = running()
        if effect is not None and effect.declaration.held:
            edit(self._seen(namespace, name))

    def _version(self, namespace: str, name: str) -> str:
        return self._state(_path(namespace), name).version

    def _found(self, namespace: str, name: str, key: str) -> Any:
        """Tell from the marks whether the call under a key has written: its result, None, or `UNKNOWN`."""
        return self._became(key, self._state(_path(namespace), name))

    def _restore(self, namespace: str, name: str, result: Any, key: str) -> None:
        """Restore the value from before the call under a key, if nobody has changed it since."""
        record, path = self._record(key), _path(namespace)
        if record is None:
            if result is None and self._state(path, name).writer != key:
                return  # it never wrote
            raise MemoryFault(
                f"{namespace}/{name} cannot be put back: what stood there before is no longer kept (prune); mend it by"
                " hand",
                namespace=namespace,
                name=name,
            )
        with self._lock:
            now, was = self._state(path, name), record["was"]
            if now.writer == key and not now.meddled:
                self._set(path, name, record["before"], now.counter + 1, was["writer"])
            elif (now.writer, now.digest) != (was["writer"], was["digest"]):
                raise ChangedOutside(
                    f"{namespace}/{name} was changed past the settlement (it is at version {now.version}, and was"
                    f" written as {record['result']['version']}): it stays as it is; mend it by hand",
                    namespace=namespace,
                    name=name,
                    version=now.version,
                )

    # ---- the tools

    @operation("get_memory", "read", scope=_at, live=_version)
    def get(self, namespace: str, name: str) -> Json:
        """Look up one memory: its value (null if there is none) and its version.

        Args:
            namespace: where it is kept, as a path: "users/ada".
            name: its name there.
        """
        now = self._seen(namespace, name)
        return {"value": now.value, "version": now.version}

    @operation("search_memory", "read", scope=_under)
    def search(self, namespace: str, query: str = "", limit: int = 10) -> list[Json]:
        """Search the memories in a namespace and below it.

        Args:
            namespace: where to look, as a path: "users/ada".
            query: what to look for; leave it empty for all.
            limit: how many to return at most.
        """
        found = self._base.search(_path(namespace), query=query or None, limit=limit)
        known = {("/".join(item.namespace), item.key): bare(item.value) for item in found}
        for request in self._staged(self._under(namespace)):
            place = (request["namespace"], request["name"])
            value = self.get(*place)["value"]
            known.pop(place, None)
            if value is not None and mentions(value, query):
                known[place] = value
        return [{"namespace": place, "name": name, "value": value} for (place, name), value in known.items()][:limit]

    @operation("put_memory", "reversible", scope=_at, check=_fit_put, undo=_restore, probe=_found)
    def put(self, namespace: str, name: str, value: Json, expected_version: str | None = None) -> Json:
        """Put a memory in place of what stands there, and return its version.

        Args:
            namespace: where it is kept, as a path: "users/ada".
            name: its name there.
            value: the memory, an object.
            expected_version: the version you have read ("0" if there was none); refused if it has moved since.
        """
        return self._write(namespace, name, putting(fitting(value), expected_version, namespace, name))

    @operation("append_memory", "reversible", scope=_at, check=_fit_append, undo=_restore, probe=_found)
    def append(self, namespace: str, name: str, text: str) -> Json:
        """Append a line to a memory's text, whatever stands there by now, and return its version.

        Args:
            namespace: where it is kept, as a path: "team".
            name: its name there; it is created if there is none.
            text: the line.
        """
        return self._write(namespace, name, appending(self._field, text, namespace, name))

    @operation("replace_in_memory", "reversible", scope=_at, check=_fit_replace, undo=_restore, probe=_found)
    def replace(self, namespace: str, name: str, old: str, new: str) -> Json:
        """Replace a passage of a memory's text, and return its version.

        Args:
            namespace: where it is kept, as a path: "team".
            name: its name there.
            old: the passage, which must stand there exactly once.
            new: what is to stand in its place.
        """
        return self._write(namespace, name, replacing(self._field, (old, new), namespace, name))

    @operation("delete_memory", "reversible", scope=_at, check=_fit_delete, undo=_restore, probe=_found)
    def delete(self, namespace: str, name: str, expected_version: str | None = None) -> Json:
        """Delete a memory, and return the version that says so.

        Args:
            namespace: where it is kept, as a path: "users/ada".
            name: its name there.
            expected_version: the version you have read; refused if it has moved since.
        """
        return self._write(namespace, name, deleting(expected_version, namespace, name))

    def prune(self, days: float = 30.0) -> int:
        """Remove what the undos of older calls would need, and return how many were removed.

        Choose more days than a transaction may stay open, or be rewound.
        """
        before, old, offset = self._clock() - days * DAY, list[str](), 0
        while page := self._base.search(EFFECTS, limit=_PAGE, offset=offset):
            old += [item.key for item in page if item.value["at"] < before]
            offset += len(page)
        for key in old:
            self._base.delete(EFFECTS, key)
        return len(old)

    # ---- reading and writing marked values

    def _write(self, namespace: str, name: str, edit: Edit) -> Json:
        path, me = _path(namespace), self.key
        self._named(name)
        with self._lock:
            now = self._state(path, name)
            if (done := self._became(me, now)) is UNKNOWN:
                raise ChangedOutside(
                    f"{namespace}/{name} was changed past the settlement, so that nobody can tell whether this call"
                    " had written it: it stays as it is; look at it, and plan again",
                    namespace=namespace,
                    name=name,
                    version=now.version,
                )
            if done is not None:
                return cast("Json", done)
            value = edit(now)
            result = {"version": str(now.counter + 1)}
            if current_call() is not None:  # else nobody will probe or undo it
                was = {"writer": now.writer, "digest": now.digest}
                told = {"before": now.value, "was": was, "result": result, "at": self._clock(), "path": [*path, name]}
                self._put(EFFECTS, digest(me), told)
            self._set(path, name, value, now.counter + 1, me)
            return result

    def _became(self, key: str, now: State) -> Any:
        """Follow the writers back from the last one: the call under a key is among them, is not, or it is unknown."""
        record = self._record(key)
        if record is None:  # it never wrote, or what its undo needs was pruned
            return {"version": str(now.counter)} if now.writer == key else None
        before, writer = record["was"]["writer"], now.writer
        while writer not in (None, before, key):
            earlier = self._record(writer)
            writer = None if earlier is None else earlier["was"]["writer"]
            if earlier is None or (writer is None and before is not None):
                return UNKNOWN
        if writer == key:
            return record["result"]
        untouched = before is not None or now.writer is not None or now.digest == record["was"]["digest"]
        return None if writer == before and untouched else UNKNOWN

    def _record(self, key: str) -> Json | None:
        found = self._base.get(EFFECTS, digest(key))
        return None if found is None else cast("Json", found.value)

    def _seen(self, namespace: str, name: str) -> State:
        """Return a memory's state as the running call sees it, with what its transaction has staged."""
        now = self._state(_path(namespace), self._named(name))
        for request in self._staged(self._at(namespace, name)):
            if (request["namespace"], request["name"]) == (namespace, name):
                now = State(self._edited(request)(now), now.counter + 1, None, "")
        return now

    def _state(self, path: Namespace, name: str) -> State:
        found = self._base.get(path, name)
        if found is None:
            gone = self._base.get(GONE, _gone(path, name))
            mark: Json = {} if gone is None else gone.value
            return State(None, mark.get("version", 0), mark.get("writer"), "")
        return state_of(found.value)

    def _set(self, path: Namespace, name: str, value: Json | None, version: int, writer: str | None) -> None:
        if value is not None:
            self._put(path, name, marked(value, version, writer), self._index)
            return
        # First, so that the version continues from here: until the value is gone, its own mark counts.
        self._put(GONE, _gone(path, name), {"version": version, "writer": writer})
        try:
            self._base.delete(path, name)
        except Exception as error:
            raise _lost(path, name, error) from error

    def _put(self, path: Namespace, name: str, value: Json, index: list[str] | Literal[False] | None = False) -> None:
        try:
            self._base.put(path, name, value, index)
        except Exception as error:
            raise _lost(path, name, error) from error

    def _staged(self, scope: str) -> list[Staged]:
        """Return what our own tools have staged: what other tools will write is unknown."""
        call = current_call()
        own = {f"{self._prefix}{tool}" for tool in _WRITING}
        return [] if call is None else [request for request in call.staged(scope) if request.tool in own]

    def _edited(self, request: Staged) -> Edit:
        place = request["namespace"], request["name"]
        match request.tool.removeprefix(self._prefix):
            case "put_memory":
                return putting(request["value"], request["expected_version"], *place)
            case "append_memory":
                return appending(self._field, request["text"], *place)
            case "replace_in_memory":
                return replacing(self._field, (request["old"], request["new"]), *place)
            case _:
                return deleting(request["expected_version"], *place)


def _path(namespace: str) -> Namespace:
    path = tuple(namespace.split("/")) if isinstance(cast("object", namespace), str) else ("",)
    if any(not label or "." in label or label != label.strip() for label in path):
        raise MemoryFault(
            f"{namespace!r} is no namespace: write a path of names without dots, as in 'users/ada'", namespace=namespace
        )
    if path[0] in RESERVED:
        raise MemoryFault(f"the namespace {path[0]!r} is reserved: choose another", namespace=namespace)
    return path


def _gone(path: Namespace, name: str) -> str:
    """Return the key of what is kept of a deleted memory: another one for `a/b`, `c` than for `a`, `b/c`."""
    between = "//" if "/" in name else "/"  # no label is empty
    return digest(f"{'/'.join(path)}{between}{name}")


def _lost(path: Namespace, name: str, error: Exception) -> StoreLost:
    return StoreLost(f"the store failed while {'/'.join((*path, name))} was written ({in_words(error)})")


__all__ = ["Store"]
