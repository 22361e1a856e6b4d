"""The pages of the public doors: the code says which there are, and mkdocstrings makes each of its docstrings."""

from __future__ import annotations

import importlib
import pkgutil

GROUPS = {
    "settlemark": "Core",
    "settlemark_adapters": "Ready-made tools",
    "settlemark_langgraph": "LangGraph",
    "settlemark_crewai": "CrewAI",
    "settlemark_autogen": "AutoGen",
    "settlemark_pydantic_ai": "Pydantic AI",
}


def doors() -> list[str]:
    """Return the modules that are public: each package, and what stands in it under a name without a line in front."""
    found: list[str] = []
    for package in GROUPS:
        inside = pkgutil.iter_modules(importlib.import_module(package).__path__)
        found += [package, *sorted(f"{package}.{one.name}" for one in inside if not one.name.startswith("_"))]
    return found


def first_line(module: str) -> str:
    """Return what a module is for."""
    text = (importlib.import_module(module).__doc__ or "").strip()
    return text.splitlines()[0] if text else ""


def pages() -> dict[str, str]:
    """Return the pages, by their path below `docs/reference`."""
    made = {f"api/{door}.md": f"# {door}\n\n::: {door}\n" for door in doors()}
    lines = ["# The public modules", "", "All else begins with a line, `_`, and may change in any release."]
    for package, title in GROUPS.items():
        lines += ["", f"## {title}", "", "| Module | What it is for |", "| --- | --- |"]
        lines += [
            f"| [`{door}`](api/{door}.md) | {first_line(door).replace('|', chr(92) + '|')} |"
            for door in doors()
            if door.split(".")[0] == package
        ]
    return {"api.md": "\n".join([*lines, ""]), **made}
