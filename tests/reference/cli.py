"""The page of the command line, made of the very parsers that read it."""

from __future__ import annotations

import importlib.metadata
from enum import Enum
from typing import Any

import typer
from tests.rooms.cli import FOUND, GROUP, STATUS, Exit, build, command_of


def commands() -> dict[str, Any]:
    """Return every command's parser by its name, those of other packages too."""
    group: Any = typer.main.get_command(build())
    found = dict(group.commands)
    for entry in importlib.metadata.entry_points(group=GROUP):
        found[entry.name] = typer.main.get_command(command_of(entry))
    return found


def _kind(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    if getattr(parameter, "is_flag", False) is True:
        return ""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "\\|".join(one.value for one in kind)
    return parameter.metavar or parameter.name.upper()


def _option(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    default = parameter.default
    has = default not in (None, False, ()) and parameter.show_default and not callable(default)
    shown = f" By default `{default.value if isinstance(default, Enum) else default}`." if has else ""
    said = (parameter.help or "").replace("|", "\\|").replace("\n", " ")
    kind = _kind(parameter)
    return f"| {names} | {f'`{kind}`' if kind else ''} | {said}{' Needed.' if parameter.required else ''}{shown} |"


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name.upper()).strip("[].")
    return name if parameter.required else f"[{name}]"


def _section(name: str, command: Any) -> list[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join(["settlemark", name, *(["[OPTIONS]"] if options else []), *map(_argument, arguments)])
    lines = [f"## {name}", "", "```text", usage, "```", "", (command.help or "").split("\f")[0].strip(), ""]
    told = [f"- `{_argument(one).strip('[]')}`: {one.help}" for one in arguments if one.help]
    lines += [*told, ""] if told else []
    if options:
        lines += ["| Option | Value | |", "| --- | --- | --- |", *map(_option, options), ""]
    if name in FOUND:
        lines += [f"Exit status {Exit.FOUND:d}: {FOUND[name]}.", ""]
    return lines


def pages() -> dict[str, str]:
    """Return the page, by its path below `docs/reference`."""
    lines = [
        "# The command line",
        "",
        "Made of the parsers themselves; `settlemark COMMAND --help` tells the same.",
        "",
    ]
    lines += ["| Exit status | What it says |", "| --- | --- |"]
    lines += [f"| {status:d} | {STATUS[status]} |" for status in Exit]
    lines.append("")
    for name, command in commands().items():
        lines += _section(name, command)
    return {"cli.md": "\n".join(lines)}
