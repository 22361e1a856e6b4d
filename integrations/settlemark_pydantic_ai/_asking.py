"""What is asked: whether an agent can ask a person at all, and which calls its toolsets have approved first.

Both are told before anything runs: not when a booking waits for an answer that nobody is asked, and not when what was
to leave last turns out to be a question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from pydantic_ai import (
    AbstractToolset,
    ApprovalRequired,
    ApprovalRequiredToolset,
    CombinedToolset,
    DeferredToolRequests,
    FunctionToolset,
    PrefixedToolset,
    RenamedToolset,
    RunContext,
    WrapperToolset,
)
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.toolsets import ToolsetTool

from settlemark import Declaration, EffectClass, Settlement, UsageError
from settlemark.agents import Declarations
from settlemark.hosting import host_of


def refuse_without_asking(settlement: Settlement, declarations: Declarations, agent: AbstractAgent[Any, Any]) -> None:
    """Return when no tool that an agent has by now needs a yes for which nobody could be asked.

    Raises:
        UsageError: one does; nothing was run.
    """
    if _asks(agent.output_type) or _is_answered(agent):
        return
    may_ask = host_of(settlement).may_ask
    gated = list[str]()
    for name, function in _functions(agent.toolsets):
        said = declarations.said_of(declarations.learn(name, function))
        if may_ask(said or Declaration(name, EffectClass.OPAQUE), by_function=False):
            gated.append(name)
    if gated:
        raise UsageError(
            f"{', '.join(sorted(gated))} needs a person's yes (approve=, or a policy), and this agent cannot ask for"
            " it: give it output_type=[…, DeferredToolRequests], or capabilities=[HandleDeferredToolCalls(…)]; nothing"
            " was run"
        )


def _asks(output: object) -> bool:
    found: Iterable[object] = cast("Iterable[object]", output) if isinstance(output, list | tuple) else (output,)
    return any(one is DeferredToolRequests or DeferredToolRequests in getattr(one, "__args__", ()) for one in found)


def _is_answered(agent: AbstractAgent[Any, Any]) -> bool:
    """Whether another capability may answer what is asked."""
    root: Any = getattr(agent, "root_capability", None)
    found = list[bool]()

    def look(capability: AbstractCapability[Any]) -> None:
        ours = type(capability).__module__.startswith("settlemark_pydantic_ai")
        asks = type(capability).handle_deferred_tool_calls is not AbstractCapability.handle_deferred_tool_calls
        found.append(asks and not ours)

    if root is not None:
        root.apply(look)
    return any(found)


def _functions(toolsets: Iterable[AbstractToolset[Any]]) -> list[tuple[str, Callable[..., Any]]]:
    found: list[tuple[str, Callable[..., Any]]] = []

    def look(toolset: AbstractToolset[Any]) -> None:
        if isinstance(toolset, FunctionToolset):
            found.extend((name, tool.function) for name, tool in toolset.tools.items())

    for toolset in toolsets:
        toolset.apply(look)
    return found


def question_of_toolsets(
    ctx: RunContext[Any], tool: ToolsetTool[Any], part: ToolCallPart, arguments: Mapping[str, Any]
) -> ApprovalRequired | None:
    """Return the exception by which a toolset (`.approval_required(…)`) will defer an unapproved call, or None."""
    toolset: object = None if ctx.tool_manager is None else ctx.tool_manager.toolset
    ctx = replace(ctx, tool_name=part.tool_name, tool_call_id=part.tool_call_id, tool_call_approved=False)
    with suppress(Exception):  # what its function raises is raised by the call itself
        while toolset is not None:
            found: Any = toolset
            if isinstance(toolset, ApprovalRequiredToolset):
                if found.approval_required_func(ctx, tool.tool_def, dict(arguments)):
                    return ApprovalRequired()
            elif isinstance(toolset, PrefixedToolset | RenamedToolset):
                prefix = getattr(found, "prefix", None)
                names: Mapping[str, str] = getattr(found, "name_map", {})
                name = tool.tool_def.name
                name = names.get(name, name) if prefix is None else name.removeprefix(f"{prefix}_")
                ctx, tool = replace(ctx, tool_name=name), replace(tool, tool_def=replace(tool.tool_def, name=name))
            if isinstance(toolset, CombinedToolset):
                inner: Any = tool
                toolset, tool = inner.source_toolset, replace(inner.source_tool, tool_def=tool.tool_def)
            else:
                toolset = found.wrapped if isinstance(toolset, WrapperToolset) else None
    return None


__all__ = ["question_of_toolsets", "refuse_without_asking"]
