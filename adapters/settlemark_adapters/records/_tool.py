"""A tool that writes several records as one commit, written as a method over an open transaction."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Concatenate, ParamSpec, Protocol

from settlemark_adapters._adapter import Operation
from settlemark_adapters.records._tx import Tx

P = ParamSpec("P")


class RecordHost(Protocol):
    """What the tools made by `record_tool` need of their records; see `Records`."""

    def act(self, tool: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Do a tool's work in a transaction, and return its result."""
        ...

    def within(self, tool: str, arguments: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Run a tool: the transactions within are the call's."""
        ...

    def check(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Refuse a call before it is recorded."""
        ...

    def scopes_of(
        self, tool: str, arguments: Mapping[str, Any], creates: tuple[str, ...], touches: Mapping[str, Any]
    ) -> list[str]:
        """Return a call's scopes."""
        ...

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the result of the call under a key, or None."""
        ...

    def take_back(self, key: str) -> None:
        """Take back the commit under a key."""
        ...


class Bound:
    """A handler that is not written on the class: `Records` binds it to itself."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it with the records as the first argument."""
        return self.function(*args, **kwargs)


class RecordOperation(Operation[P, dict[str, Any]]):
    """An operation of `Records`, made by `record_tool`.

    Attributes:
        body: its work in an open transaction.
        message: why, unless the body says so itself.
        refuses: the method that checks the arguments alone.
    """

    def __init__(
        self,
        tool: str,
        message: str,
        body: Callable[..., Any],
        scope: Callable[..., Any] | Bound,
        refuses: Callable[..., Any] | None,
    ) -> None:
        self.body, self.message, self.refuses = body, message, refuses

        def check(records: RecordHost, **arguments: Any) -> None:
            records.check(tool, arguments)

        def within(records: RecordHost, **arguments: Any) -> AbstractContextManager[None]:
            return records.within(tool, arguments)

        handlers: dict[str, Callable[..., Any]] = {"undo": _undo, "probe": _probe, "check": check, "around": within}
        parts: Any = {"scope": scope, **{role: Bound(handler) for role, handler in handlers.items()}}
        super().__init__(tool, "reversible", parts, _alone(body, tool))


def record_tool(
    tool: str,
    message: str = "",
    *,
    creates: tuple[str, ...] = (),
    touches: Mapping[str, str | tuple[str, ...]] | None = None,
    scope: Callable[..., Any] | None = None,
    check: Callable[..., Any] | None = None,
) -> Callable[[Callable[Concatenate[Any, Tx, P], Any]], RecordOperation[P]]:
    """Return a decorator that makes a tool of a method over an open transaction.

    The method's result is the tool's result, with the commit's id as `commit`. Its writes are one commit, which is
    undone by a commit that takes it back, and found again by its key. It may touch only what is declared here, so that
    everything it does is within the call's scopes. It may be called again, on newer records, before it commits.

    Args:
        tool: the tool's name, as a model sees it.
        message: why, unless the method says so itself (`tx.message = …`); by default the tool's name.
        creates: the entities of which it adds records.
        touches: which records it changes or reads: by entity, the argument (or arguments) with their ids, or `"*"` for
            all of them.
        scope: in place of the two, a method that returns the scopes from the arguments it asks for.
        check: a method that refuses wrong arguments before the call is recorded.

    >>> from settlemark_adapters.records import Entity, Records, SqlBackend
    >>> class Tasks(Records):
    ...     ENTITIES = (Entity("Task", {"text": str, "done": bool}),)
    ...     @record_tool("finish_task", touches={"Task": "task_id"})
    ...     def finish(self, tx: Tx, task_id: str) -> dict[str, Any]:
    ...         '''Mark a task as done.'''
    ...         return {"task": tx.update("Task", task_id, {"done": True})}
    >>> tasks = Tasks(SqlBackend("sqlite://"))
    >>> made = tasks.transaction("begin", lambda tx: tx.create("Task", {"text": "call Ada", "done": False}, "t1"))
    >>> tasks.finish("t1")["task"]
    {'id': 't1', 'text': 'call Ada', 'done': True}
    """
    named = dict(touches or {})

    def scopes(records: RecordHost, **arguments: Any) -> list[str]:
        return records.scopes_of(tool, arguments, creates, named)

    def decorate(method: Callable[Concatenate[Any, Tx, P], Any]) -> RecordOperation[P]:
        return RecordOperation(tool, message or tool.replace("_", " "), method, scope or Bound(scopes), check)

    return decorate


def _alone(body: Callable[..., Any], tool: str) -> Callable[..., dict[str, Any]]:
    """Return the method without its transaction parameter, as a tool has it."""

    @functools.wraps(body)
    def acting(records: RecordHost, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return records.act(tool, args, kwargs)

    signature = inspect.signature(body)
    mine, its, *others = signature.parameters.values()
    made: Any = acting
    made.__signature__ = signature.replace(parameters=[mine, *others])
    made.__annotations__ = {name: hint for name, hint in body.__annotations__.items() if name != its.name}
    return acting


def _undo(records: RecordHost, key: str) -> None:
    records.take_back(key)


def _probe(records: RecordHost, key: str) -> dict[str, Any] | None:
    return records.find(key)


__all__ = ["Bound", "RecordOperation", "record_tool"]
