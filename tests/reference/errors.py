"""The page of errors: the tree as Python has it, and of each class its cause and what to do."""

from __future__ import annotations

import importlib
import inspect

from tests.reference.api import GROUPS, doors
from tests.reference.fences import fenced
from tests.rooms.payloads import unreadable

from settlemark import SettlemarkError

OURS = tuple(GROUPS)
HEAD = (
    "A tool's own exception is never wrapped: it reaches the caller as the tool raised it. Each class of settlemark's",
    "own says what happened, and its `remedy` says what to do next; an error's message is nearer to the case.",
    "Attributes are data to act on.",
)


def classes() -> list[type[SettlemarkError]]:
    """Return every class of error, a parent before its children, whichever package it is of."""
    for door in doors():
        importlib.import_module(door)
    found: list[type[SettlemarkError]] = []

    def walk(cls: type[SettlemarkError]) -> None:
        if cls in found or cls.__module__.split(".")[0] not in OURS:
            return  # one that a test has made
        found.append(cls)
        for child in sorted(cls.__subclasses__(), key=lambda one: (one.__module__.split(".")[0], one.__name__)):
            walk(child)

    walk(SettlemarkError)
    return found


def _depth(cls: type) -> int:
    return len([one for one in cls.__mro__ if issubclass(one, SettlemarkError)]) - 1


def _section(cls: type[SettlemarkError]) -> list[str]:
    where = next((door for door in doors() if getattr(importlib.import_module(door), cls.__name__, None) is cls), None)
    parent = cls.__mro__[1].__name__
    kept = f"in `{where}`" if where else "caught by its parent's name"
    under = f"; a `{parent}`" if issubclass(cls.__mro__[1], SettlemarkError) else ""
    cause = inspect.getdoc(cls) or ""
    return [
        f"## {cls.__name__}",
        "",
        f"*{kept}{under}*",
        "",
        fenced(cause).strip(),
        "",
        f"**What to do.** {cls.remedy}",
        "",
    ]


def pages() -> dict[str, str]:
    """Return the page, by its path below `docs/reference`."""
    lines = ["# Errors", "", *HEAD, ""]
    lines += [f"{'  ' * _depth(cls)}- [`{cls.__name__}`](#{cls.__name__.lower()})" for cls in classes()]
    lines.append("")
    for cls in classes():
        lines += _section(cls)
    lines += [
        "## Payloads that cannot be read",
        "",
        "They raise nothing: each stands where the payload stood, and says why.",
        "",
    ]
    lines += ["| Class | What happened | What to do |", "| --- | --- | --- |"]
    for name in unreadable.__all__:
        cls = getattr(unreadable, name)
        if isinstance(cls, type):
            lines.append(f"| `{name}` | {(cls.__doc__ or '').splitlines()[0]} | {cls.remedy} |")
    return {"errors.md": "\n".join([*lines, ""])}
