"""The input of every rule: all tools of all files, what their functions do, and how to report a finding."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from settlemark.lint._findings import RULES, Finding
from settlemark.lint._source.bindings import Definition
from settlemark.lint._source.facts import Facts
from settlemark.lint._source.reading import read, read_tool
from settlemark.lint._source.sources import Source
from settlemark.lint._source.tools import Handler, Tool


@dataclass(frozen=True, slots=True)
class Remark:
    """A finding before `ignore` comments are applied."""

    code: str
    tool: str
    source: Source
    line: int
    what: str
    mend: str
    lines: tuple[int, ...] = ()
    about: Tool | None = None

    @property
    def ignored(self) -> bool:
        """Whether a comment silences it."""
        return self.source.ignores(self.code, (self.line, *self.lines))

    def finding(self) -> Finding:
        """Return the remark as a finding."""
        rule = RULES[self.code]
        file, line = self.source.place(self.line)
        return Finding(rule.code, rule.name, rule.severity, self.tool, file, line, self.what, self.mend)


@dataclass
class Looking:
    """Everything a rule may examine."""

    sources: Sequence[Source]
    tools: Sequence[Tool]
    _facts: dict[int, Facts] = field(default_factory=dict[int, Facts])

    def facts(self, tool: Tool) -> Facts:
        """Return what a tool's function does."""
        if id(tool) not in self._facts:
            self._facts[id(tool)] = read_tool(tool)
        return self._facts[id(tool)]

    def handler_facts(self, tool: Tool, handler: Handler) -> Facts:
        """Return what a handler does; empty for one that was not found."""
        if handler.function is None:
            return Facts(uncertain=True, empty=False)
        injected = ["self"] if handler.bound else []
        return read(handler.function, tool.source.bindings, injected=injected)

    @cached_property
    def names(self) -> dict[str, tuple[Source, Definition]]:
        """Return all functions by name, those of a module's top level first."""
        found: dict[str, tuple[Source, Definition]] = {}
        for source in self.sources:
            for each in (*source.tree.body, *source.bindings.functions):
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.setdefault(each.name, (source, each))
        return found

    def remark(self, code: str, tool: Tool, what: str, mend: str, *, at: str | int = "") -> Remark:
        """Return a remark on a tool; `at` is the part, or the line, concerned."""
        line = at if isinstance(at, int) else tool.line_of(at)
        return Remark(code, tool.name, tool.source, line, what, mend, tuple(tool.lines), tool)


def template_of(arguments: Iterable[str], kind: str, *, paths: Iterable[str] = ()) -> str:
    """Return the text of a scope template.

    >>> template_of(["hotel", "date"], "room"), template_of(["path"], "file", paths=["path"])
    ('room:/{hotel}/{date}', 'file:/{path:path}')
    """
    several = set(paths)
    return f"{kind}:/" + "/".join(f"{{{name}:path}}" if name in several else f"{{{name}}}" for name in arguments)


__all__ = ["Looking", "Remark", "template_of"]
