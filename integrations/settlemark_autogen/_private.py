"""The names of AutoGen that this shim reads, overrides or is called by, each looked up in the installed release."""

from __future__ import annotations

from settlemark.agents import ReadNames

NAMES = ReadNames(
    "autogen-core",
    ("0.7.5", "0.7.5"),
    "its agents may call their tools and models past what settles them",
    {
        ("autogen_core", "MessageHandlerContext"): ("agent_id",),
        ("autogen_core.models", "ChatCompletionClient"): ("close", "create", "create_stream"),
        ("autogen_core.tools", "FunctionTool"): ("_func",),
        ("autogen_core.tools", "StaticStreamWorkbench"): ("call_tool_stream",),
        ("autogen_core.tools", "StaticWorkbench"): ("_tool_overrides", "_tools"),
        ("autogen_core.tools", "Workbench"): ("call_tool", "list_tools", "load_state", "save_state"),
    },
)

__all__ = ["NAMES"]
