"""The private names of LangGraph and LangChain that this shim reads, each looked up in the installed release.

Where one is gone, LangGraph does not tell which calls belong to a turn, or answers to whom, and what the shim promises
does not hold: then nodes and middleware refuse to be made, unless `unsettled=` says that this is known.
"""

# What is LangGraph's own inside has no types: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import version
from typing import Any, Literal, get_args

from settlemark import UsageError

Unsettled = Literal["refuse", "warn", "allow"]
"""What to do where the shim cannot keep its promises: refuse, say so once and go on, or just go on."""

CALL = "__pregel_call"
CHECKPOINTER = "__pregel_checkpointer"
INTERRUPT = "__interrupt__"
RESUME = "__resume__"
RUNNER = "langgraph.pregel._runner"
SCRATCHPAD = "__pregel_scratchpad"

TESTED = ("1.2.4", "1.2.24")
"""The oldest and the newest release of LangGraph that the tests ran with."""

_KEYS = {
    "CONFIG_KEY_CALL": CALL,
    "CONFIG_KEY_CHECKPOINTER": CHECKPOINTER,
    "CONFIG_KEY_SCRATCHPAD": SCRATCHPAD,
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
)  # fmt: skip
_LOOPS = ("SyncPregelLoop", "AsyncPregelLoop")
_READ: dict[tuple[str, str], tuple[str, ...]] = {
    ("langgraph._internal._constants", ""): tuple(_KEYS),
    ("langgraph._internal._scratchpad", "PregelScratchpad"): ("get_null_resume", "interrupt_counter", "resume"),
    ("langgraph.pregel._loop", "PregelLoop"): _LOOP,
    **{("langgraph.pregel._loop", loop): ("_put_checkpoint_fut", "stack") for loop in _LOOPS},
    (RUNNER, "_call"): ("futures", "schedule_task", "task"),
    (RUNNER, "_acall"): ("futures", "schedule_task", "task"),
    ("langgraph.types", "PregelExecutableTask"): ("id", "input", "name", "path", "writes"),
    ("langgraph.prebuilt", "ToolNode"): _NODE,
    ("langchain_core.tools", "BaseTool"): ("_arun", "_to_args_and_kwargs"),
}


def read_names() -> list[tuple[str, str, str]]:
    """Return every private name that is read: the module, the class or function in it, and the name there.

    >>> ("langgraph.pregel._loop", "PregelLoop", "tasks") in read_names()
    True
    """
    return [(module, within, name) for (module, within), names in _READ.items() for name in names]


def absent_names(load: Callable[[str], Any] = import_module) -> list[str]:
    """Return the names that the installed releases do not have, or that mean something else there.

    >>> absent_names()
    []
    """
    return [".".join(filter(None, parts)) for parts in read_names() if not _is_there(load, *parts)]


def _is_there(load: Callable[[str], Any], module: str, within: str, name: str) -> bool:
    try:
        found = load(module)
        owner = getattr(found, within) if within else found
    except (ImportError, AttributeError):
        return False
    if not within:
        return bool(getattr(owner, name, None) == _KEYS[name])
    return name in _names_of(owner)


def _names_of(owner: Any) -> set[str]:
    """Return the names of a function's parameters; or of a class: what it has, declares, or sets on itself."""
    if not isinstance(owner, type):
        return set(inspect.signature(owner).parameters)
    found: set[str] = set()
    for kind in owner.__mro__:
        found.update(vars(kind), getattr(kind, "__annotations__", ()))
        functions: Iterable[Any] = filter(inspect.isfunction, vars(kind).values())
        for function in functions:
            found.update(function.__code__.co_names)
    return found


ABSENT = absent_names()


def cannot_keep(promise: str, unsettled: Unsettled, tell_once: Callable[[str, str], object]) -> None:
    """Say that a promise cannot be kept here, in the way that `unsettled=` asks for.

    Raises:
        UsageError: it asks to refuse.
    """
    if unsettled == "allow":
        return
    told = (
        f"{promise}; LangGraph {version('langgraph')} is installed, and settlemark was tested with {TESTED[0]} to"
        f" {TESTED[1]}: install one of these"
    )
    if unsettled == "warn":
        tell_once(promise, told)
        return
    raise UsageError(f'{told}, or pass unsettled="warn" to go on without; nothing was run')


def refuse_where_names_are_gone(unsettled: Unsettled, tell_once: Callable[[str, str], object]) -> None:
    """Return when the installed release has every private name that is read, or `unsettled=` allows to go on.

    Raises:
        UsageError: there is no such `unsettled=`, or one of the names is gone.
    """
    if unsettled not in get_args(Unsettled):
        raise UsageError(f"unsettled={unsettled!r} is none of {', '.join(get_args(Unsettled))}")
    if ABSENT:
        cannot_keep(
            f"this LangGraph or LangChain does not have {', '.join(ABSENT)}, so which calls are one turn, and which"
            " answer is whose, cannot be told",
            unsettled,
            tell_once,
        )


__all__ = [
    "CALL",
    "CHECKPOINTER",
    "INTERRUPT",
    "RESUME",
    "RUNNER",
    "SCRATCHPAD",
    "Unsettled",
    "absent_names",
    "cannot_keep",
    "read_names",
    "refuse_where_names_are_gone",
]
