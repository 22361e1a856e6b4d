"""Gates as LangGraph's interrupts: a question is raised in the task of its call, and its answer found there again.

LangGraph hands answers out by number: the n-th `interrupt` of a task gets the n-th answer, and whatever runs next gets
the last one given. So each question is asked under a number of its own, which is on record with it, and takes an answer
only from a run that was begun with one: neither a tool that is not run again, nor `invoke(None)` after an answer, lets
one question have the answer to another.
"""

# What is LangGraph's own inside has no types: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, cast

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import BaseTool
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt, interrupt
from pydantic import ValidationError

from settlemark import Gate
from settlemark.agents import not_taken
from settlemark.hosting import in_words
from settlemark_langgraph._gates.answers import as_answer
from settlemark_langgraph._private import RESUME_MAP, SCRATCHPAD
from settlemark_langgraph._supersteps.superstep import begun_with_an_answer
from settlemark_langgraph._tools.arguments import as_given

try:
    from langgraph.errors import is_invalid_resume
except ImportError:  # a release of LangGraph before answers had a schema

    def is_invalid_resume(error: BaseException) -> bool:  # noqa: ARG001 - as LangGraph calls it
        """Return False: nothing is such an error."""
        return False


OWN_QUESTION = "asked a question of its own"


class WrongAnswer(GraphInterrupt):
    """An answer is not of the schema that its question asked for: the question stands, and its turn is put aside.

    LangGraph fails the run without saving anything, so the question can be answered again.

    Attributes:
        error: LangGraph's own error, which the run fails with.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class NothingMore(list[Any]):
    """The questions of a task that has none any more, and is not through: LangGraph takes note of no others.

    >>> NothingMore(), bool(NothingMore())
    ([], True)
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        return True


def as_control(error: BaseException) -> BaseException:
    """Return what an error is to a turn: one that a wrong answer caused leaves its question open."""
    return WrongAnswer(error) if is_invalid_resume(error) else error


def as_raised(error: BaseException) -> BaseException:
    """Return what LangGraph is to see of an error."""
    return error.error if isinstance(error, WrongAnswer) else error


def ask(gate: Gate, config: RunnableConfig, *, beside: int | None = None) -> Any:
    """Return the answer to a gate's question; None where somebody elsewhere has answered it, and nobody here.

    Where its task may ask several at once, `beside` is its place among them: there it has an id of its own.

    Raises:
        GraphInterrupt: it has none yet.
    """
    pad = _scratchpad(config)
    if pad is None:
        return _within(config, gate)
    if beside is not None:
        return _beside(gate, config, pad, beside)
    given = len(pad.resume)
    is_new = gate.question is None or gate.error is not None
    gate.question = given if gate.question is None or is_new else min(gate.question, given)
    takes = not is_new and begun_with_an_answer(config)
    try:
        return _within(_numbered(config, itertools.repeat(gate.question).__next__, takes=takes), gate)
    except GraphInterrupt:
        if gate.answered:
            return None
        raise


def _within(config: RunnableConfig, gate: Gate) -> Any:
    with set_config_context(config) as context:
        return as_answer(context.run(interrupt, gate.shown()), gate.tool)


def _beside(gate: Gate, config: RunnableConfig, pad: Any, place: int) -> Any:
    """Return the answer that was given to a gate by its id; one without an id is that of the only question there is."""
    task = config.get("configurable", {}).get("checkpoint_ns", "")
    id_ = blake2b(f"settlemark/{place}/{task}".encode(), digest_size=16).hexdigest()
    is_new = gate.question is None or gate.error is not None
    gate.question = len(pad.resume) if gate.question is None else gate.question
    if not is_new and begun_with_an_answer(config):
        named = config.get("configurable", {}).get(RESUME_MAP) or {}
        found = named[id_] if id_ in named else pad.get_null_resume(True)
        if found is not None:
            return as_answer(found, gate.tool)
    if gate.answered:
        return None
    raise GraphInterrupt((Interrupt(value=gate.shown(), id=id_),))


def asked_at_once(errors: Iterable[BaseException]) -> GraphInterrupt:
    """Return the interrupt that shows all questions that the calls of one task ask, in their order, each once."""
    found = [one for error in errors if isinstance(error, GraphInterrupt) and error.args for one in error.args[0]]
    return GraphInterrupt(tuple({one.id: one for one in found}.values()))


def own_questions(config: RunnableConfig, known: int | None) -> tuple[RunnableConfig, int | None]:
    """Return the config in which a tool asks questions of its own, and the number of its first, by which it comes back.

    `known` is the number that it was suspended with, if it was.
    """
    pad = _scratchpad(config)
    if pad is None:
        return config, None
    number = len(pad.resume) if known is None else min(known, len(pad.resume))
    return _numbered(config, itertools.count(number).__next__, takes=True), number


def is_unasked(config: RunnableConfig) -> bool:
    """Whether a task has never been given an answer."""
    pad = _scratchpad(config)
    return pad is not None and not pad.resume


def _scratchpad(config: RunnableConfig) -> Any:
    pad = config.get("configurable", {}).get(SCRATCHPAD)
    return pad if isinstance(getattr(pad, "resume", None), list) else None


def _numbered(config: RunnableConfig, counter: Callable[[], int], *, takes: bool) -> RunnableConfig:
    """Return a config whose next interrupt has the counter's number; it `takes` a new answer, or none."""
    found = config.get("configurable", {})
    pad = found[SCRATCHPAD]
    view = replace(pad, interrupt_counter=counter, get_null_resume=pad.get_null_resume if takes else _no_answer)
    return {**config, "configurable": {**found, SCRATCHPAD: view}}


def _no_answer(consume: bool = False) -> None:  # noqa: ARG001 - as LangGraph calls it
    return None


def edited(
    tool: BaseTool, call: ToolCall, arguments: Mapping[str, Any], own: Mapping[str, Any]
) -> tuple[ToolCall, Mapping[str, Any] | None]:
    """Return a call with other arguments in place of the model's `own`, and these as the tool will get them.

    Raises:
        UsageError: the tool does not take them.
    """
    allowed, required = _names(tool)
    unknown, missing = sorted(arguments.keys() - allowed), sorted(required - arguments.keys())
    if unknown or missing:
        wrong = [f"it has no {name!r}" for name in unknown] + [f"it needs {name!r}" for name in missing]
        raise not_taken(tool.name, arguments, *wrong)
    injected = {name: value for name, value in call["args"].items() if name not in own or own[name] is not value}
    made = cast("ToolCall", {**call, "args": {**injected, **arguments}})
    try:
        return made, as_given(tool, made, own=arguments)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors()]
        raise not_taken(tool.name, arguments, *wrong) from error
    except Exception as error:
        raise not_taken(tool.name, arguments, in_words(error)) from error


def _names(tool: BaseTool) -> tuple[set[str], set[str]]:
    """Return the names that the model may give a tool's arguments, and those that it must give."""
    schema: object = tool.args_schema
    if isinstance(schema, dict):
        return set(schema.get("properties", {})), set(schema.get("required", ()))
    return set(tool.args), set()  # what is missing, the tool's model says


__all__ = [
    "OWN_QUESTION",
    "NothingMore",
    "WrongAnswer",
    "as_control",
    "as_raised",
    "ask",
    "asked_at_once",
    "edited",
    "is_unasked",
    "own_questions",
]
