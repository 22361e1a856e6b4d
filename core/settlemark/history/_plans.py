"""Calls that models have planned: on which tools they were offered, until somebody carries them out.

A call that is planned now may be carried out much later, by another graph or process of the same agent, whose tools are
others by then. So what was offered is kept beside the call, for whoever carries it out and records with the same
recorder.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from settlemark.history._messages import is_list, is_mapping
from settlemark.history._recorder import Operation, Recorder
from settlemark.history._values import digest

Registry: TypeAlias = Mapping[str, str]
"""The tools that there are, with their signatures."""

ANYWHERE = ""
_REMEMBERED = 10_000  # calls that nobody has carried out
_BESIDE = frozenset({"strict", "title"})
_CLOSED = "additionalProperties"  # some providers have their models keep to the arguments that are named
_BY_NAMES = frozenset({"properties", "$defs", "definitions"})
_VALUES = frozenset({"default", "const", "enum", "examples"})


class _Plan(NamedTuple):
    operation: Operation
    offered: Mapping[str, Registry]


class Plans:
    """What was planned and is not carried out yet, by the id of its call. Safe for threads.

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
        """Return those of all who record with a recorder."""
        return recorder.shared(cls, "plans")

    def made(
        self, call: str, agent: str, tool: str, offered: Mapping[str, Registry], *, name: str | None = None
    ) -> None:
        """Note that a model has planned a call.

        Args:
            call: its id.
            agent: whose model.
            tool: what is to be called.
            offered: the tools there are, by where the call may be carried out; `ANYWHERE` for all other places.
            name: what it is part of, for people.
        """
        self._keep(call, _Plan(self._recorder.begin(agent, tool=tool, name=name), offered))

    def take(self, call: str, tool: str, *, where: str = ANYWHERE) -> Operation | None:
        """Return the plan of a call that is carried out now, the latest of its id, and forget it.

        None when nobody saw it planned, or knows the tools that were offered.
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
        """Note that the plan of a call that was taken has come to nothing yet: it may be carried out again."""
        self._keep(call, _Plan(operation, {ANYWHERE: operation.registry}))

    def _keep(self, call: str, plan: _Plan) -> None:
        with self._lock:
            self._waiting.setdefault(call, []).append(plan)
            if len(self._waiting) > _REMEMBERED:
                del self._waiting[next(iter(self._waiting))]


def signature(tool: str, arguments: Mapping[str, Any] | None) -> str:
    """Return what tells a tool from another of its name: a digest of that and of its arguments' JSON schema.

    Law: the order of keys, titles, and what a provider adds so that its model keeps to the schema change nothing.

    >>> text = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    >>> number = {"type": "object", "properties": {"to": {"type": "integer", "title": "To"}}, "required": ["to"]}
    >>> signature("send", text) == signature("send", {**text, "additionalProperties": False})
    True
    >>> signature("send", text) == signature("send", number)
    False
    """
    return digest(json.dumps([tool, _bare(arguments or {})], sort_keys=True, default=str))


def _bare(schema: Any) -> Any:
    """Return a schema without what says nothing of the arguments."""
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
