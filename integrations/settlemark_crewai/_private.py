"""The names of CrewAI that this shim reads, overrides or is called by, each looked up in the installed release."""

from __future__ import annotations

from settlemark.agents import ReadNames

NATIVE, WRITTEN = "_execute_native_tool_calls", "_execute_text_tool_with_events"
TESTED = ("1.15.30", "1.15.30")

NAMES = ReadNames(
    "crewai",
    TESTED,
    "calls may run past what settles them, and which of them are one turn cannot be told",
    {
        ("crewai", "Crew"): ("akickoff", "copy", "kickoff", "kickoff_async"),
        ("crewai", "Task"): ("aexecute_sync", "execute_async", "execute_sync"),
        ("crewai.agents.agent_executor", "AgentExecutor"): (
            "agent", "before_llm_call_hooks", "iterations", "messages", "original_tools", "state", "task", "tools",
        ),
        ("crewai.hooks", "InterceptionPoint"): ("POST_TOOL_CALL", "PRE_MODEL_CALL", "PRE_STEP", "PRE_TOOL_CALL"),
        ("crewai.hooks.tool_hooks", "ToolCallHookContext"): ("agent", "tool", "tool_input", "tool_name", "tool_result"),
        ("crewai.tools", "BaseTool"): ("_run", "_arun", "args_schema"),
        ("crewai.tools.structured_tool", "CrewStructuredTool"): ("_original_tool",),
    },
)  # fmt: skip # a list of names
"""Without one of these nothing settles."""

STEPS = ReadNames(
    "crewai",
    TESTED,
    "the steps of a plan (planning_config) have no turns: each of their calls would settle by itself",
    {("crewai.agents.step_executor", "StepExecutor"): (NATIVE, WRITTEN)},
)
"""Without one of these no planned step has turns."""

__all__ = ["NAMES", "NATIVE", "STEPS", "WRITTEN"]
