"""The page of settings: what `Settlement`, a transaction and a declaration can be told, and the environment."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from settlemark import Injected, Payloads, Settlement, effect

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, tuple[Callable[..., Any], str]] = {
    "Settlement": (Settlement, "`Settlement(url, …)`: all are chosen when it is made."),
    "Payloads": (Payloads, "`Settlement(url, payloads=Payloads(…))`."),
    "Injected": (Injected, "`Settlement(url, injected=Injected(…))`."),
    "A transaction": (Settlement.transaction, "`settlement.transaction(name, …)`."),
    "A declaration": (
        effect,
        "`@effect(kind, …)`; `settlement.declare(tool, kind, …)` takes the same for a function that is not yours.",
    ),
}
ENVIRONMENT = {
    "SETTLEMARK_URL": "the ledger's URL, where `Settlement()` or a command is given none; else `sqlite:///settlemark.db`",
    "COLUMNS": "the width of the tables that commands print into a file or a pipe",
}

_READ = re.compile(
    r"^(?:os\.(?:environ\.(?:get|setdefault|pop)\(|getenv\(|environ\[)'(\w+)'|'(\w+)' (?:not )?in os\.environ)"
)


def read_from_the_environment() -> Iterator[str]:
    """Yield the name of each variable that the packages read, found in their source."""
    for root in ("core", "adapters", "integrations"):
        for path in sorted((ROOT / root).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                text = ast.unparse(node) if isinstance(node, ast.Call | ast.Subscript | ast.Compare) else ""
                yield from filter(None, (name for names in _READ.findall(text) for name in names))


def arguments(function: Callable[..., Any]) -> dict[str, str]:
    """Return what the `Args:` block of a docstring says, by the names in it."""
    block = (inspect.getdoc(function) or "").split("\nArgs:\n")[1]
    block = re.split(r"\n(?=\S)", block)[0]
    found: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        begins = re.match(r"    ([\w, ]+): (.*)", line)
        if begins and not line.startswith("     "):
            name = begins[1]
            found[name] = begins[2]
        else:
            found[name] += f" {line.strip()}"
    return {name: text.strip() for name, text in found.items()}


def _default(function: Callable[..., Any], name: str) -> str:
    shown = inspect.signature(function).parameters.get(name)
    if shown is None or shown.default is inspect.Parameter.empty or callable(shown.default):
        return ""
    value = shown.default
    if isinstance(value, Enum):
        return f"`{value}`" if isinstance(value, str) else f"`{type(value).__name__}.{value.name}`"
    return f"`{value!r}`"


def pages() -> dict[str, str]:
    """Return the page, by its path below `docs/reference`."""
    lines = ["# Settings", ""]
    for title, (function, said) in SETTINGS.items():
        lines += [f"## {title}", "", said, "", "| Setting | Default | What it is |", "| --- | --- | --- |"]
        for name, text in arguments(function).items():
            told = text.replace("|", "\\|")
            lines.append(f"| `{name}` | {_default(function, name).replace('|', chr(92) + '|')} | {told} |")
        lines.append("")
    lines += ["## The environment", "", "| Variable | What it is |", "| --- | --- |"]
    lines += [f"| `{name}` | {text} |" for name, text in ENVIRONMENT.items()]
    return {"settings.md": "\n".join([*lines, ""])}
