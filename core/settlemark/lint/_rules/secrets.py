"""Rules on secrets: a tool's arguments are recorded, unless a settlement is told to leave them out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from settlemark.lint._looking import Looking, Remark
from settlemark.lint._source.sources import Source
from settlemark.lint._source.tools import last_name
from settlemark.lint._source.words import is_secret


def secrets(looking: Looking) -> Iterator[Remark]:
    """Yield the secrets that a ledger would keep."""
    everywhere = _everywhere(looking)
    for tool in looking.tools:
        if not tool.declared:
            continue
        own = _named(tool.source, tool.parts["redact"]) if "redact" in tool.parts else set[str]()
        redacted = None if own is None or everywhere is None or tool.partial else own | everywhere
        for name in tool.arguments or tool.fields:
            if not is_secret(name):
                continue
            if name in tool.fields:
                yield looking.remark(
                    "SM502",
                    tool,
                    f"the scope of {tool.name} names {name}: scopes are recorded as they are, in ledger and logs",
                    'name another argument, or a digest of this one: scope=lambda …: f"…:/{digest}"',
                    at="scope",
                )
            elif redacted is not None and not (redacted & {name, "*"}):
                yield looking.remark(
                    "SM501",
                    tool,
                    f"{tool.name} is given {name}, which looks like a secret, and no redact= names it: the ledger keeps"
                    " it",
                    f'redact="{name}"; or make it no argument: let a constructor have it',
                )


def _everywhere(looking: Looking) -> set[str] | None:
    """Return the fields that settlements here leave out; None when that cannot be determined."""
    found: set[str] = set()
    for source in looking.sources:
        for node in ast.walk(source.tree):
            if not (isinstance(node, ast.Call) and last_name(node.func) == "Settlement"):
                continue
            if any(each.arg is None for each in node.keywords):
                return None
            given = next((each.value for each in node.keywords if each.arg == "redact"), None)
            if given is None:
                continue
            named = _named(source, given)
            if named is None:
                return None
            found |= named
    return found


def _named(source: Source, given: ast.expr) -> set[str] | None:
    """Return the arguments that a `redact=` names; None when it cannot be read here."""
    value = source.bindings.value(given)
    found: set[str] = set()
    for path in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
        if not (isinstance(path, ast.Constant) and isinstance(path.value, str)):
            return None
        first, _, rest = path.value.partition(".")
        found.add((rest.partition(".")[0] or "*") if first == "*" else first)
    return found


__all__ = ["secrets"]
