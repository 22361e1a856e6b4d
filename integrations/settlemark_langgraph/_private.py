"""The private names of LangGraph and LangChain that this shim reads, each looked up in the installed release.

Where one is gone, LangGraph does not tell which calls belong to a turn, or answers to whom, and what the shim promises
does not hold: then nodes and middleware refuse to be made, unless `unsettled=` says that this is known.
"""

from __future__ import annotations

from settlemark.agents import ReadNames

CALL = "__pregel_call"
CHECKPOINTER = "__pregel_checkpointer"
ERROR = "__error__"
INTERRUPT = "__interrupt__"
RESUME = "__resume__"
RESUME_MAP = "__pregel_resume_map"
RUNNER = "langgraph.pregel._runner"
SCRATCHPAD = "__pregel_scratchpad"

TESTED = ("1.2.4", "1.2.24")
"""The oldest and the newest release of LangGraph that the tests ran with."""

_KEYS = {
    "CONFIG_KEY_CALL": CALL,
    "CONFIG_KEY_CHECKPOINTER": CHECKPOINTER,
    "CONFIG_KEY_RESUME_MAP": RESUME_MAP,
    "CONFIG_KEY_SCRATCHPAD": SCRATCHPAD,
    "ERROR": ERROR,
    "INTERRUPT": INTERRUPT,
    "RESUME": RESUME,
}
_LOOP = (
    "checkpoint",
    "checkpoint_config",
    "checkpoint_ns",
    "checkpoint_pending_writes",
    "checkpointer",
    "config",
    "input",
    "status",
    "step",
    "tasks",
)
_NODE = (
    "_afunc", "_arun_one", "_combine_tool_outputs", "_execute_tool_async", "_execute_tool_sync", "_extract_state",
    "_func", "_normalize_tool_response", "_parse_input", "_run_one",
)  # fmt: skip # a list of names
_LOOPS = ("SyncPregelLoop", "AsyncPregelLoop")
_READ: dict[tuple[str, str], tuple[str, ...]] = {
    ("langgraph._internal._constants", ""): tuple(_KEYS),
    ("langgraph._internal._scratchpad", "PregelScratchpad"): ("get_null_resume", "interrupt_counter", "resume"),
    ("langgraph.pregel._loop", "PregelLoop"): _LOOP,
    **{("langgraph.pregel._loop", loop): ("_put_checkpoint_fut", "stack") for loop in _LOOPS},
    (RUNNER, "FuturesDict"): ("counter",),
    (RUNNER, "_call"): ("futures", "schedule_task", "task"),
    (RUNNER, "_acall"): ("futures", "schedule_task", "task"),
    ("langgraph.types", "PregelExecutableTask"): ("id", "input", "name", "path", "writes"),
    ("langgraph.prebuilt", "ToolNode"): _NODE,
    ("langchain_core.tools", "BaseTool"): ("_arun", "_to_args_and_kwargs"),
}


NAMES = ReadNames(
    "langgraph",
    TESTED,
    "which calls are one turn, and which answer is whose, cannot be told",
    _READ,
    _KEYS,
)
"""All of them."""

__all__ = ["CALL", "CHECKPOINTER", "ERROR", "INTERRUPT", "NAMES", "RESUME", "RESUME_MAP", "RUNNER", "SCRATCHPAD"]
