"""What a tool is called with: the model's arguments as the tool parses them, its defaults included.

Scopes are filled from these and handlers get them; the ledger keeps what the model wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self, cast
from weakref import WeakKeyDictionary

from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel

from settlemark.hosting import json_text

_PLAIN = (str, bool, int, float)


class Names(NamedTuple):
    """The names of a tool's arguments: all of its schema, and those that a model may give."""

    all: frozenset[str]
    models: frozenset[str]


_NAMES: WeakKeyDictionary[type[BaseModel], Names] = WeakKeyDictionary()
"""By the schema of a tool: LangChain makes a model of each tool to tell which a model may give."""


def apart(call: Any, names: Iterable[str]) -> Any:
    """Return a call whose arguments of these names are equal to the given one's, and nobody else's.

    What LangGraph injects beside them stays as it is.

    >>> made = {"name": "book", "args": {"rooms": ["a"]}}
    >>> apart(made, ["rooms"]) == made, apart(made, ["rooms"])["args"]["rooms"] is made["args"]["rooms"]
    (True, False)
    """
    given = call["args"]
    own = {name: json_text.snapshot(given[name]) for name in names if name in given}
    return {**call, "args": {**given, **own}}


def is_plain(value: Any) -> bool:
    """Whether nobody can change a value that he was given.

    >>> is_plain("Ada"), is_plain(["Ada"])
    (True, False)
    """
    return value is None or type(value) in _PLAIN


class BadCall(BaseTool):
    """Stands for a tool that cannot take its arguments: it fails as that tool would, and runs nothing."""

    error: Any

    @classmethod
    def of(cls, tool: BaseTool, error: Exception) -> Self:
        """Return the tool that fails with this error, and handles and reports it as the real one does."""
        return cls(
            name=tool.name,
            description=tool.description,
            error=error,
            callbacks=tool.callbacks,
            tags=tool.tags,
            metadata=tool.metadata,
            handle_tool_error=tool.handle_tool_error,
            handle_validation_error=tool.handle_validation_error,
        )

    def _run(self, /, *_: Any, **__: Any) -> Any:
        raise self.error

    async def _arun(self, /, *_: Any, **__: Any) -> Any:
        raise self.error


def as_given(tool: BaseTool, call: ToolCall, *, own: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what the tool makes of a call into which its injected arguments were put, without these.

    `own` are the model's. None when the tool parses nothing.

    Raises:
        Exception: whatever the tool raises when it cannot take them.
    """
    # A copy: parsing puts the call's id into what it is given.
    positional, parsed = tool._to_args_and_kwargs(dict(call["args"]), call["id"])  # noqa: SLF001 - no other way to ask
    names = _names(tool)
    if names is None or positional:
        return None
    hidden = names.all - names.models
    injected = {name for name, value in call["args"].items() if name not in own or own[name] is not value}
    return {name: value for name, value in parsed.items() if name not in hidden and name not in injected}


def arguments_of(tool: BaseTool, call: ToolCall, own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a call's arguments without what LangGraph injected: the model's `own`, unless a wrapper rewrote them.

    A wrapper may give the call other arguments behind the place where the model's were read; those are what will run.

    >>> from langchain_core.tools import tool
    >>> @tool
    ... def book(hotel: str, nights: int = 1) -> str:
    ...     "Book a room."
    ...     return hotel
    >>> arguments_of(book, ToolCall(name="book", args={"hotel": "Bee"}, id="1"), {"hotel": "Ada"})
    {'hotel': 'Bee'}
    """
    names = _names(tool)
    known, hidden = (tool.args, frozenset[str]()) if names is None else (names.models, names.all - names.models)
    asked = {name: value for name, value in own.items() if name not in hidden}
    given = _without_runtime(call["args"])
    found = {name: value for name, value in given.items() if name in known or name in asked}
    is_own = found.keys() == asked.keys() and all(found[name] is value for name, value in asked.items())
    return own if is_own else found


def models_part(tool: BaseTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a model may give; the rest was injected."""
    names = _names(tool)
    known = tool.args if names is None else names.models
    return {name: value for name, value in _without_runtime(arguments).items() if name in known}


def _without_runtime(arguments: Mapping[str, Any]) -> dict[str, Any]:
    # LangGraph injects it by a parameter's name as well: nothing of the tool's schema tells that it is no argument.
    return {name: value for name, value in arguments.items() if not isinstance(value, ToolRuntime)}


def before_injection(tool: BaseTool | None, call: ToolCall) -> Mapping[str, Any] | None:
    """Return what the tool will make of the model's arguments, or None when they cannot be parsed yet or ever.

    >>> from langchain_core.tools import tool
    >>> @tool
    ... def book(hotel: str, nights: int = 1) -> str:
    ...     "Book a room."
    ...     return hotel
    >>> before_injection(book, ToolCall(name="book", args={"hotel": "Ada"}, id="1"))
    {'hotel': 'Ada', 'nights': 1}
    """
    if tool is None:
        return None
    try:
        names = _names(tool)
        if names is None:
            return None
        if names.all <= names.models:
            return as_given(tool, call, own=call["args"])
        # What is injected is not there yet: the rest is parsed alone.
        partial = cast("type[BaseModel]", tool.tool_call_schema)
        parsed = partial.model_validate(call["args"])
    except Exception:
        return None  # it is said when the call is made
    return {
        name: getattr(parsed, name)
        for name, field in partial.model_fields.items()
        if name in parsed.model_fields_set or not field.is_required()
    }


def is_async_only(tool: BaseTool) -> bool:
    """Whether a tool has a coroutine and no function that a synchronous call could run."""
    return getattr(tool, "coroutine", None) is not None and getattr(tool, "func", None) is None


def runs_in_a_thread(tool: BaseTool) -> bool:
    """Whether LangChain runs a tool in a thread when it is awaited: it has no coroutine of its own."""
    if isinstance(tool, StructuredTool | Tool):
        return tool.coroutine is None
    return type(tool)._arun is BaseTool._arun  # noqa: SLF001 - what a tool overrides, as LangChain documents


def _names(tool: BaseTool) -> Names | None:
    """Return the names of a tool's arguments; None where it has no schema that is a class."""
    schema: object = tool.args_schema
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return None
    found = _NAMES.get(schema)
    if found is None:
        models = cast("type[BaseModel]", tool.tool_call_schema).model_fields
        found = _NAMES[schema] = Names(frozenset(schema.model_fields), frozenset(models))
    return found
