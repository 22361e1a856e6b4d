"""The fate of each call of a response: it runs its tool, waits for a person, or is answered elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, cast

from pydantic_ai import ApprovalRequired, CallDeferred, RunContext
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolApproved, ToolDenied
from pydantic_ai.toolsets import ToolsetTool

from settlemark import Declaration, EffectClass
from settlemark_pydantic_ai._asking import question_of_toolsets

SKIP = "skip"
"""The framework's marker for a call that was answered before."""

_UNGATED = (EffectClass.READ, EffectClass.STAGED)


class Fate(Enum):
    """The fate of a call."""

    COMES = auto()  # to its tool
    WAITS = auto()  # for somebody outside; the framework has deferred it
    DENIED = auto()
    ANSWERED = auto()  # by somebody outside, whose answer is its result
    ABSENT = auto()  # answered by the framework, or earlier


@dataclass(slots=True, eq=False)
class Checked:
    """A call whose arguments the framework has validated.

    Attributes:
        part: as it is to run; with a person's arguments, if given.
        arguments: as its tool will get them, or None: it cannot take them.
        approved: a person, or something acting for one, has said yes.
        deferral: it is to wait, because of its arguments.
        over: it has its answer.
        failed: what kept it from its tool, and ends the run, in words.
    """

    part: ToolCallPart
    arguments: Mapping[str, Any] | None = None
    approved: bool = False
    deferral: Exception | None = None
    over: bool = False
    failed: str | None = None


@dataclass(slots=True, eq=False)
class Place:
    """One call of a response, in its place.

    Attributes:
        part: as the model issued it.
        tool: None if there is none of this name, or it is not settled.
        fate: its fate.
        checked: the framework's validation of its arguments, once done.
        outcome: of a waiting call, why; of a denied or answered one, the answer.
        segment: calls with the same number run concurrently.
        question: by what its toolset defers it before its tool runs.
        refused: why the framework runs nothing of it, or None.
        come: it has reached its tool.
    """

    part: ToolCallPart
    tool: ToolsetTool[Any] | None
    fate: Fate
    checked: Checked | None
    outcome: Any = None
    segment: int = 0
    question: Exception | None = None
    refused: str | None = None
    come: bool = False

    @property
    def name(self) -> str:
        """The tool's name, as the model calls it."""
        return self.part.tool_name

    @property
    def awaited(self) -> bool:
        """Whether it has still to reach its tool."""
        return self.fate is Fate.COMES and not self.come

    @property
    def edited(self) -> Mapping[str, Any] | None:
        """A person's arguments in place of the model's, if any."""
        if self.checked is None or not self.checked.approved:
            return None
        given = self.checked.part.args_as_dict()
        return None if given == self.part.args_as_dict() else given

    @property
    def given(self) -> Mapping[str, Any] | None:
        """The model's arguments as the tool would get them, if known."""
        if self.checked is not None and self.edited is None:
            return self.checked.arguments
        return None if self.tool is None else taken(self.tool, self.part)

    def declared(self, found: Declaration) -> Declaration:
        """Return its tool's declaration, with a gate if somebody is asked first."""
        if self.tool is not None and self.tool.tool_def.kind == "external" and found.kind is not EffectClass.READ:
            # It happens elsewhere: nothing of it can be held back here, or undone.
            found = Declaration(found.tool, EffectClass.OPAQUE, found.scope)
        waits = self.fate in (Fate.WAITS, Fate.DENIED, Fate.ANSWERED)
        is_asked = waits or self.edited is not None or self.question is not None
        return replace(found, approve=True) if is_asked and found.kind not in _UNGATED else found


def places_of(
    ctx: RunContext[Any],
    parts: Sequence[ToolCallPart],
    tools: Mapping[str, ToolsetTool[Any]],
    checked: Mapping[str, Checked],
    results: Mapping[str, Any] | None,
    unasked: Collection[str],
) -> list[Place]:
    """Return the places of a response's calls, without those of output tools, as far as known.

    Args:
        ctx: of the run.
        parts: all calls of the response.
        tools: the settled ones, by the names that the model knows.
        checked: the validated calls.
        results: the framework's results for deferred calls; None without deferred calls.
        unasked: ids of calls that are approved in these results although nobody was asked about them.
    """
    manager, segment, found = ctx.tool_manager, 0, list[Place]()
    one_by_one = manager is not None and manager.get_parallel_execution_mode() == "sequential"
    for part in parts:
        definition = None if manager is None else manager.get_tool_def(part.tool_name)
        if definition is not None and definition.kind == "output":
            segment += 1  # calls issued before it may have to end before it begins
            continue
        tool, known = tools.get(part.tool_name), checked.get(part.tool_call_id)
        fate, outcome = _fate(part, tool, known, results)
        place = Place(part, tool, fate, known, outcome)
        if results is None and fate is Fate.ABSENT:
            place.refused = _refused(place, is_known=definition is not None)
        approved = results is not None and part.tool_call_id not in unasked
        if tool is not None and fate is Fate.COMES and not approved:
            place.question = question_of_toolsets(ctx, tool, part, place.given or {})
        alone = one_by_one or (manager is not None and manager.is_sequential(part))
        segment += alone
        place.segment = segment
        segment += alone
        found.append(place)
    return found


def _fate(
    part: ToolCallPart, tool: ToolsetTool[Any] | None, checked: Checked | None, results: Mapping[str, Any] | None
) -> tuple[Fate, Any]:
    """Return a call's fate, and the reason of one that does not reach its tool."""
    if tool is None:
        return Fate.ABSENT, None
    fate, outcome = _by_kind(tool) if results is None else _by_result(results.get(part.tool_call_id, SKIP))
    if fate is Fate.COMES and checked is not None and checked.deferral is not None:
        return Fate.WAITS, checked.deferral
    if fate is Fate.COMES:
        arguments = checked.arguments if checked is not None else taken(tool, part)
        is_over = arguments is None or (checked is not None and checked.over)
        return (Fate.ABSENT if is_over else Fate.COMES), None
    return fate, outcome


def _refused(place: Place, *, is_known: bool) -> str | None:
    """Return why the framework turns a call down before its tool, or None: it is over, or none of ours."""
    if not is_known:
        return "there is no such tool"
    if place.checked is not None and place.checked.failed is not None:
        return place.checked.failed
    arguments = None if place.tool is None else place.given
    is_taken = place.tool is None or arguments is not None or (place.checked is not None and place.checked.deferral)
    return None if is_taken else "its tool does not take its arguments"


def _by_kind(tool: ToolsetTool[Any]) -> tuple[Fate, Any]:
    """Return a call's fate by the kind of its tool."""
    waits = {"external": CallDeferred, "unapproved": ApprovalRequired}.get(tool.tool_def.kind)
    return (Fate.COMES, None) if waits is None else (Fate.WAITS, waits())


def _by_result(given: object) -> tuple[Fate, Any]:
    """Return a deferred call's fate by its result."""
    if given == SKIP:
        return Fate.ABSENT, None
    if isinstance(given, ToolApproved):
        return Fate.COMES, None
    if isinstance(given, ToolDenied):
        return Fate.DENIED, given
    return (Fate.WAITS if isinstance(given, ApprovalRequired | CallDeferred) else Fate.ANSWERED), given


async def prepared(ctx: RunContext[Any]) -> RunContext[Any]:
    """Return a run's context with its tools, which it has none of before a step, and where none of its calls runs."""
    manager = ctx.tool_manager
    if manager is None or manager.tools is not None:
        return ctx
    return replace(ctx, tool_manager=await manager.for_run_step(ctx))


def taken(tool: ToolsetTool[Any], part: ToolCallPart) -> Mapping[str, Any] | None:
    """Return the arguments of a call as its tool takes them, or None: it does not."""
    try:
        if isinstance(part.args, str):
            return cast("Mapping[str, Any]", tool.args_validator.validate_json(part.args or "{}"))
        return cast("Mapping[str, Any]", tool.args_validator.validate_python(part.args or {}))
    except Exception:  # the framework tells the model
        return None


__all__ = ["SKIP", "Checked", "Fate", "Place", "places_of", "prepared", "taken"]
