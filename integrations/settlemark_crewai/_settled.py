"""`settled`: a tool whose effects settle."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast, overload

from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import PrivateAttr

from settlemark import Settlement, UsageError
from settlemark.agents import Declared, Unsettled
from settlemark_crewai._claim import Claim, claim_of
from settlemark_crewai._hooks import ensure_hooks, outside
from settlemark_crewai._job import Job
from settlemark_crewai._tools import MARK, Mark, mark_of

_Tool = TypeVar("_Tool")
_Function = Callable[..., Any]


@overload
def settled(
    tool: _Tool,
    /,
    *,
    settlement: Settlement | None = None,
    run: str | None = None,
    effect: Declared | None = None,
    unsettled: Unsettled = "refuse",
) -> _Tool: ...


@overload
def settled(
    *,
    settlement: Settlement | None = None,
    run: str | None = None,
    effect: Declared | None = None,
    unsettled: Unsettled = "refuse",
) -> Callable[[_Tool], _Tool]: ...


def settled(
    tool: Any = None,
    /,
    *,
    settlement: Settlement | None = None,
    run: str | None = None,
    effect: Declared | None = None,
    unsettled: Unsettled = "refuse",
) -> Any:
    """Return a tool of CrewAI's, or what is made one, whose effects settle: in issuance order, once, and together.

    Above or below `@tool`, on a class of tools (`BaseTool`) or on one tool, of which a settled copy is returned. What
    it does to the world is said with `effect=`, with `@effect` on its function or class, or with
    `settlement.declare`, under the name by which models call it ("Book a room" is `book_a_room`).

    In a crew of `settled_crew` its calls belong to that crew's run. In any other crew, and with `Agent.kickoff`, the
    calls of a turn settle together, a retry or a guardrail repeats none, and `run` makes a new process go on. What
    settlement refuses is the tool's answer, a `ToolFailure`. Called by your own code, it raises; and with `run`, calls
    with the same arguments are one act, in whatever process: the second returns what the first has. What is to be done
    again is another job, with an id of its own.

    Args:
        tool: what is to settle.
        settlement: settles it where it is in no settled crew; `Settlement()` by default, one for all.
        run: your id for the job, so that it can be begun again. One that is given always means the same job.
        effect: a class (`"read"`), or the parts of a declaration (`{"kind": "irreversible", "scope": "mail:/{to}"}`).
        unsettled: as for `settled_crew`.

    Raises:
        UsageError: it is no tool, or an option is none; nothing was made.

    >>> from crewai.tools import tool
    >>> sent = []
    >>> sends = {"kind": "irreversible", "scope": "mail:/{to}"}
    >>> @settled(settlement=Settlement("memory:"), run="trip-42", effect=sends)
    ... @tool
    ... def mail(to: str) -> str:
    ...     "Send a mail."
    ...     sent.append(to)
    ...     return "sent"
    >>> mail.run(to="ada"), mail.run(to="ada"), sent
    ('sent', 'sent', ['ada'])
    """
    if tool is None:
        return functools.partial(settled, settlement=settlement, run=run, effect=effect, unsettled=unsettled)
    mark = Mark(Job(settlement, run, unsettled=unsettled), effect)
    ensure_hooks()
    if isinstance(tool, BaseTool):
        return copied(tool, mark)
    if isinstance(tool, type) and issubclass(tool, BaseTool):
        return _class_of(tool, mark)
    if not inspect.isroutine(cast("Any", tool)):
        raise UsageError(f"{tool!r} is no tool: give settled(…) a function, or a tool of CrewAI's, or a class of tools")
    return _function_of(cast("_Function", tool), mark)


def copied(tool: BaseTool, mark: Mark) -> BaseTool:
    """Return a marked copy of a tool."""
    ensure_hooks()
    copy = tool.model_copy()
    if isinstance(copy, Tool):
        made = cast("Tool[..., Any]", copy)
        made.func = _function_of(made.func, mark, made)
        return made
    # isinstance checks see the original class.
    object.__setattr__(copy, "__class__", _settled_class(type(tool)))
    cast("Any", copy)._settlemark = mark  # noqa: SLF001 - ours
    return copy


@functools.cache
def _settled_class(kind: type[BaseTool]) -> type[BaseTool]:
    """Return the class of the settled tools of a class."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    given: dict[str, Any] = {**names, "_settlemark": PrivateAttr(default=None), **_methods_of(kind, None)}
    return types.new_class(kind.__name__, (kind,), exec_body=lambda names: names.update(given))


def _class_of(kind: type[BaseTool], mark: Mark) -> type[BaseTool]:
    """Return a class of tools, whose methods now settle."""
    for name, method in _methods_of(kind, mark).items():
        setattr(kind, name, method)
    return kind


def _methods_of(kind: type[BaseTool], mark: Mark | None) -> dict[str, _Function]:
    """Return the replacements for a tool class's methods; without a mark each tool has its own."""
    return {name: _method_of(cast("_Function", getattr(kind, name)), mark) for name in ("_run", "_arun")}


def _method_of(method: _Function, mark: Mark | None) -> _Function:
    signature = inspect.signature(method)

    def claim(tool: BaseTool) -> Claim | None:
        found = mark or mark_of(tool)
        return None if found is None else _claim(found, sanitize_tool_name(tool.name), tool)

    if inspect.iscoroutinefunction(method):

        async def arun(self: BaseTool, *args: Any, **kwargs: Any) -> Any:
            claimed = claim(self)
            function = functools.partial(method, self)
            if claimed is None or method is BaseTool._arun:  # noqa: SLF001 - it says that there is none
                return await function(*args, **kwargs)
            return await claimed.aperform(function, _named(signature, (self, *args), kwargs))

        return _marked(arun, method, mark)

    def run(self: BaseTool, *args: Any, **kwargs: Any) -> Any:
        claimed = claim(self)
        function = functools.partial(method, self)
        if claimed is None:
            return function(*args, **kwargs)
        return claimed.perform(function, _named(signature, (self, *args), kwargs))

    return _marked(run, method, mark)


def _function_of(function: _Function, mark: Mark, tool: BaseTool | None = None) -> _Function:
    """Return a function that settles another's effect."""
    signature = inspect.signature(function)
    made: list[BaseTool] = [] if tool is None else [tool]

    def claim() -> Claim | None:
        found = claim_of(mark)
        if found is not None:
            return found
        if not made:
            made.append(_tool_of(function))
        return _claim(mark, sanitize_tool_name(made[0].name), made[0])

    if inspect.iscoroutinefunction(function):

        async def arun(*args: Any, **kwargs: Any) -> Any:
            claimed = claim()
            if claimed is None:
                return await function(*args, **kwargs)
            return await claimed.aperform(function, _named(signature, args, kwargs))

        return _marked(arun, function, mark)

    def run(*args: Any, **kwargs: Any) -> Any:
        claimed = claim()
        if claimed is None:
            return function(*args, **kwargs)
        return claimed.perform(function, _named(signature, args, kwargs))

    return _marked(run, function, mark)


def _claim(mark: Mark, name: str, tool: BaseTool) -> Claim | None:
    return claim_of(mark) or outside(mark, name, tool, tells=False)


def _marked(wrapper: _Function, function: _Function, mark: Mark | None) -> _Function:
    functools.update_wrapper(wrapper, function)
    if mark is not None:
        setattr(wrapper, MARK, mark)
    return wrapper


def _tool_of(function: _Function) -> BaseTool:
    """Return a function as a tool, for calls before, or without, `@tool`."""
    return Tool[..., Any](name=function.__name__, description=function.__doc__ or function.__name__, func=function)


def _named(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments by their names."""
    if not args or (len(args) == 1 and "self" in signature.parameters):
        return dict(kwargs)
    bound = signature.bind(*args, **kwargs)
    named = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            named |= named.pop(parameter.name, {})
    named.pop("self", None)
    return named


__all__ = ["copied", "settled"]
