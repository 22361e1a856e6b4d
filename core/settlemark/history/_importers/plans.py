"""Planned calls, with the tools that were offered to the model, until they are carried out.

A planned call may be carried out much later, by another graph or process of the same agent, with other tools. So the
offered tools are kept with the call, for the program that carries it out with the same recorder.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from settlemark.history._importers.messages import is_list, is_mapping
from settlemark.history._recording.recorder import Operation, Recorder
from settlemark.history._recording.values import digest

Registry: TypeAlias = Mapping[str, str]
"""The available tools, with their signatures."""

ANYWHERE = ""
_REMEMBERED = 10_000  # calls that nobody has carried out
_BESIDE = frozenset({"strict", "title"})
_CLOSED = "additionalProperties"  # some providers make models keep to the named arguments
_BY_NAMES = frozenset({"properties", "$defs", "definitions"})
_VALUES = frozenset({"default", "const", "enum", "examples"})


class _Plan(NamedTuple):
    operation: Operation
    offered: Mapping[str, Registry]


class Plans:
    """Planned calls that are not carried out yet, by call id. Safe for threads.

    >>> recorder = Recorder()
    >>> plans = Plans.of(recorder)
    >>> plans.made("call-1", "ada", "book", {"tools": {"book": "1"}})
    >>> plan = Plans.of(recorder).take("call-1", "book", where="tools")
    >>> plan.agent, plan.tool, plan.registry
    ('ada', 'book', {'book': '1'})
    >>> plans.take("call-1", "book", where="tools") is None
    True
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Plan]] = {}

    @classmethod
    def of(cls, recorder: Recorder) -> Plans:
        """Return the plans that all users of a recorder share."""
        return recorder.shared(cls, "plans")

    def made(
        self, call: str, agent: str, tool: str, offered: Mapping[str, Registry], *, name: str | None = None
    ) -> None:
        """Record that a model has planned a call.

        Args:
            call: its id.
            agent: the model's agent.
            tool: the tool to call.
            offered: the available tools, by where the call may be carried out; `ANYWHERE` for all other places.
            name: what it is part of, for people.
        """
        self._keep(call, _Plan(self._recorder.begin(agent, tool=tool, name=name), offered))

    def take(self, call: str, tool: str, *, where: str = ANYWHERE) -> Operation | None:
        """Return the plan of a call that is carried out now, the latest of its id, and forget it.

        None when nobody saw the plan, or its offered tools are unknown.
        """
        with self._lock:
            plans = self._waiting.get(call, [])
            found = next((plan for plan in reversed(plans) if plan.operation.tool == tool), None)
            if found is None:
                return None
            plans.remove(found)
            if not plans:
                del self._waiting[call]
        registry = found.offered.get(where, found.offered.get(ANYWHERE))
        if registry is None:
            found.operation.drop()
            return None
        found.operation.registry = dict(registry)
        return found.operation

    def give_back(self, call: str, operation: Operation) -> None:
        """Return the plan of a call that was not carried out after all."""
        self._keep(call, _Plan(operation, {ANYWHERE: operation.registry}))

    def _keep(self, call: str, plan: _Plan) -> None:
        with self._lock:
            self._waiting.setdefault(call, []).append(plan)
            if len(self._waiting) > _REMEMBERED:
                del self._waiting[next(iter(self._waiting))]


def signature(tool: str, arguments: Mapping[str, Any] | None) -> str:
    """Return a tool's signature: a digest of its name and its arguments' JSON schema.

    Law: key order, titles, and a provider's additions to the schema change nothing.

    >>> text = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    >>> number = {"type": "object", "properties": {"to": {"type": "integer", "title": "To"}}, "required": ["to"]}
    >>> signature("send", text) == signature("send", {**text, "additionalProperties": False})
    True
    >>> signature("send", text) == signature("send", number)
    False
    """
    return digest(json.dumps([tool, _bare(arguments or {})], sort_keys=True, default=str))


def _bare(schema: Any) -> Any:
    """Return a schema without what does not concern the arguments."""
    if is_list(schema):
        return [_bare(each) for each in schema]
    if not is_mapping(schema):
        return schema
    return {
        key: _by_names(value) if key in _BY_NAMES else value if key in _VALUES else _bare(value)
        for key, value in schema.items()
        if key not in _BESIDE and not (key == _CLOSED and isinstance(value, bool))
    }


def _by_names(schemas: Any) -> Any:
    return {name: _bare(each) for name, each in schemas.items()} if is_mapping(schemas) else schemas


__all__ = ["ANYWHERE", "Plans", "Registry", "signature"]
