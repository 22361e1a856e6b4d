"""Drafts declarations for undeclared tools: each a guess with its reasons, until a person has decided it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from settlemark._edges.errors import UsageError
from settlemark.lint._guesses import Guess, guesses, quoted
from settlemark.lint._looking import Looking
from settlemark.lint._source.discovery import discover
from settlemark.lint._source.sources import Unreadable, gather
from settlemark.lint._source.tools import last_name

_WIDTH = 79  # so narrow that every formatter setting leaves it alone
_NAMED = 20
_SIMPLE = re.compile(r"[\w .-]*\w")
_DECLARE = "declare_tools"
_NAME = re.compile(r"\W+")
_INNER = re.compile(r"(\w+=[\w.]+)\((.*)\)")

_HEAD = '''"""Declarations of tools, proposed by `settlemark adopt`.

Each is a guess until a person has decided it: read it and its reasons, correct it, and delete the
`undecided` line above it. Importing this module raises as long as one of these lines is left.
None has a probe or sends a key yet: `settlemark lint` says what that costs, and what else to mend.
Another `settlemark adopt` adds the tools that are new, and changes nothing that stands here.
"""

from __future__ import annotations

import settlemark
from settlemark.lint import undecided
'''


@dataclass(frozen=True, slots=True)
class Adopted:
    """The result of adopting.

    Attributes:
        text: the module of declarations, to be written to a file.
        guesses: the tools that are new in it.
        kept: the tools that were in it before: their text is unchanged.
        gone: of these, the ones that the code base no longer has.
        unreadable: files that are no Python, with the reason.
    """

    text: str
    guesses: tuple[Guess, ...]
    kept: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


def adopt(*targets: str | Path, existing: str | None = None) -> Adopted:
    """Return declarations for the undeclared tools of modules and files; nothing is run.

    Laws: the text of `existing` stays as it is, decided or not; adopting again changes nothing. The result compiles, is
    formatted as by ruff, and raises at import while a tool is undecided.

    Args:
        targets: dotted names of modules and packages, paths of files and folders.
        existing: the text of an earlier `adopt`, perhaps edited since.

    Raises:
        UsageError: there is no such module or path; or `existing` is not what `adopt` writes.
    """
    found = gather(targets)
    sources = [each for each in found if not isinstance(each, Unreadable)]
    looking = Looking(sources, discover(sources))
    undeclared = [tool for tool in looking.tools if not tool.declared]
    once = {tool.name: tool for tool in reversed(undeclared)}
    undeclared = [tool for tool in undeclared if once[tool.name] is tool]
    known = [] if existing is None else _tools_in(existing)
    every = guesses(looking, undeclared)
    new = [each for each in every if each.tool not in known]
    there = {tool.name for tool in looking.tools}
    return Adopted(
        text=_fresh(new) if existing is None else _merged(existing, new),
        guesses=tuple(new),
        kept=tuple(known),
        gone=tuple(name for name in known if name not in there),
        unreadable=tuple(f"{each.path}:{each.line}: {each.why}" for each in found if isinstance(each, Unreadable)),
    )


# ---- writing


def _fresh(new: Sequence[Guess]) -> str:
    names = _function_names(new, taken=())
    blocks = [_block(each, names[each.tool]) for each in new]
    rest = "\n\n".join([*blocks, _declare_all([names[each.tool] for each in new])])
    return f"{_HEAD}\n{rest}" if blocks else f"{_HEAD}\n\n{rest}"


def _declare_all(functions: Iterable[str]) -> str:
    calls = [f"    {name}(settlement)\n" for name in functions]
    told = '"""Tell a settlement what the tools do to the world."""'
    head = f"def {_DECLARE}(settlement: settlemark.Settlement) -> None:\n    {told}\n"
    return head + "".join(calls)


def _block(found: Guess, function: str) -> str:
    place = f"{found.file}:{found.at}"
    tool = found.tool if _SIMPLE.fullmatch(found.tool) else "a tool"
    lines = [f"# {tool}, {place}"]
    lines += [f"#   {' '.join(reason.split())}" for reason in (f"{found.kind}: {found.reasons[0]}", *found.reasons[1:])]
    marks = _call("", "undecided", [quoted(found.tool), quoted(place)])
    lines += marks if len(marks) == 1 else _call("", "undecided", [quoted(found.tool)])
    lines += ["", "", f"def {function}(settlement: settlemark.Settlement) -> None:", f'    """Declare {tool}."""']
    if found.handler is not None:
        module, name = found.handler
        lines += [*_import(module, name), ""]
    parts = [part.replace("undo=inverse(", "undo=settlemark.inverse(") for part in found.parts]
    lines += _exploded("    ", "settlement.declare", parts, behind="")
    return "\n".join(lines) + "\n"


def _import(module: str, name: str) -> list[str]:
    line = f"    from {module} import {name}"
    return [line] if len(line) <= _WIDTH else [f"    from {module} import (", f"        {name},", "    )"]


def _call(indent: str, called: str, parts: Sequence[str], *, behind: str = "") -> list[str]:
    line = f"{indent}{called}({', '.join(parts)}){behind}"
    return [line] if len(line) <= _WIDTH else _exploded(indent, called, parts, behind=behind)


def _exploded(indent: str, called: str, parts: Sequence[str], *, behind: str) -> list[str]:
    # A trailing comma makes a formatter keep the call's lines, at any width.
    lines: list[str] = []
    for part in parts:
        inner = _INNER.fullmatch(part)
        if inner is not None and len(part) > _WIDTH - len(indent) - len("    ,"):
            lines += _exploded(f"{indent}    ", inner[1], inner[2].split(", "), behind=",")
        else:
            lines.append(f"{indent}    {part},")
    return [f"{indent}{called}(", *lines, f"{indent}){behind}"]


def _function_names(new: Sequence[Guess], taken: Iterable[str]) -> dict[str, str]:
    used = {_DECLARE, *taken}
    found: dict[str, str] = {}
    for each in new:
        plain = _NAME.sub("_", each.tool).lower()[:_NAMED].strip("_") or "tool"
        name = base = f"declare_{plain}"
        number = 2
        while name in used:
            name, number = f"{base}_{number}", number + 1
        used.add(name)
        found[each.tool] = name
    return found


# ---- merging


def _tools_in(existing: str) -> list[str]:
    tree = _parsed(existing)
    found = [
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and last_name(node.func) == "declare"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ]
    return list(dict.fromkeys(found))


def _parsed(existing: str) -> ast.Module:
    try:
        tree = ast.parse(existing)
    except SyntaxError as error:
        raise UsageError(f"line {error.lineno} of it is no Python: {error.msg}; mend it first") from error
    if _declaring(tree) is None:
        raise UsageError(f"it has no function {_DECLARE}(settlement), so `settlemark adopt` did not write it")
    return tree


def _declaring(tree: ast.Module) -> ast.FunctionDef | None:
    return next((each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == _DECLARE), None)


def _merged(existing: str, new: Sequence[Guess]) -> str:
    if not new:
        return existing
    tree = _parsed(existing)
    declaring = _declaring(tree)
    assert declaring is not None
    taken = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
    names = _function_names(new, taken)
    lines = existing.splitlines(keepends=True)
    start = min([declaring.lineno, *(d.lineno for d in declaring.decorator_list)]) - 1
    end = declaring.end_lineno or declaring.lineno
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1  # a comment above a function belongs to it
    blocks = "".join(f"{_block(each, names[each.tool])}\n\n" for each in new)
    calls = "".join(f"    {names[each.tool]}(settlement)\n" for each in new)
    last = lines[end - 1] if lines[end - 1].endswith("\n") else f"{lines[end - 1]}\n"
    head = _with_mark(tree, lines[:start])
    return "".join([*head, blocks, *lines[start : end - 1], last, calls, *lines[end:]])


def _with_mark(tree: ast.Module, lines: list[str]) -> list[str]:
    """Return the lines with the import of `undecided`, which is removed with the last mark."""
    imports = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    if any(alias.name == "undecided" for each in imports for alias in each.names):
        return lines
    behind = max((each.end_lineno or 0 for each in imports), default=0)
    return [*lines[:behind], "from settlemark.lint import undecided\n", *lines[behind:]]


__all__ = ["Adopted", "adopt"]
