"""The names of Pydantic AI that this shim reads, overrides or is called by, each looked up in the installed release."""

from __future__ import annotations

from settlemark.agents import ReadNames

NAMES = ReadNames(
    "pydantic-ai-slim",
    ("2.68.0", "2.68.0"),
    "calls may run past what settles them, and which of them are one turn cannot be told",
    {
        ("pydantic_ai.capabilities", "AbstractCapability"): (
            "before_model_request", "for_agent", "for_run", "get_ordering", "get_wrapper_model", "get_wrapper_toolset",
            "handle_deferred_tool_calls", "wrap_node_run", "wrap_run", "wrap_tool_execute", "wrap_tool_validate",
        ),
        ("pydantic_ai.tool_manager", "ToolManager"): (
            "get_parallel_execution_mode", "get_tool_def", "is_sequential", "tools", "toolset",
        ),
        ("pydantic_ai", "RunContext"): (
            "agent", "messages", "run_id", "tool_call_approved", "tool_call_id", "tool_call_metadata", "tool_manager",
            "tool_name",
        ),
        ("pydantic_ai", "ApprovalRequiredToolset"): ("approval_required_func",),
        ("pydantic_ai", "WrapperToolset"): ("call_tool", "for_run", "for_run_step", "get_tools", "visit_and_replace"),
        ("pydantic_ai.messages", "ModelResponse"): ("metadata", "run_id", "tool_calls"),
        ("pydantic_ai.toolsets.function", "FunctionToolsetTool"): ("call_func", "is_async"),
    },
)  # fmt: skip # a list of names

__all__ = ["NAMES"]
