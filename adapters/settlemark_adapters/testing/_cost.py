"""The cost of a declaration: the lines that are written for one tool alone."""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from settlemark_adapters._adapter import Adapter, Operation

_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Cost:
    """The lines of one tool's declaration, without blank lines, comments and docstrings.

    Attributes:
        tool: its name.
        decorator: lines of `@operation(…)`.
        handlers: lines of the handlers that no other tool of the adapter uses, by name.
    """

    tool: str
    decorator: int
    handlers: dict[str, int]

    @property
    def lines(self) -> int:
        """The total."""
        return self.decorator + sum(self.handlers.values())

    def __str__(self) -> str:
        own = "".join(f", {name} {count}" for name, count in self.handlers.items())
        return f"{self.lines:3}  {self.tool} (decorator {self.decorator}{own})"


def declaration_cost(adapter: type[Adapter]) -> list[Cost]:
    """Return what the declaration of each tool of an adapter costs: its decorator, and the handlers it alone has.

    The method itself is the tool: it would be there without a declaration, too. A handler is a function that is named
    in the decorator; one that several tools name is written once for all of them, and counts for none.

    >>> class Notes(Adapter):
    ...     pass
    >>> declaration_cost(Notes)
    []
    """
    members = {name: member for base in reversed(adapter.__mro__) for name, member in vars(base).items()}
    operations: list[Operation[Any, Any]] = [member for member in members.values() if isinstance(member, Operation)]
    shared = Counter(name for operation in operations for name in set(dict(_handlers(operation))))
    return [
        Cost(
            operation.tool,
            _decorator(operation),
            {name: _lines(function) for name, function in _handlers(operation) if shared[name] == 1},
        )
        for operation in operations
    ]


def _handlers(operation: Operation[Any, Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions that a decorator names, each once."""
    seen: set[str] = set()
    for part in operation.parts.values():
        if inspect.isfunction(part) and part.__qualname__ not in seen:
            seen.add(part.__qualname__)
            yield part.__name__, part


def _decorator(operation: Operation[Any, Any]) -> int:
    source, node = _parsed(operation.method)
    spans = [(each.lineno, each.end_lineno or each.lineno) for each in node.decorator_list]
    return sum(first <= line <= last for line in _code_lines(source) for first, last in spans)


def _lines(function: Callable[..., Any]) -> int:
    if function.__name__ == "<lambda>":
        return 0  # it is inside the decorator
    source, node = _parsed(function)
    told: set[int] = set()
    if ast.get_docstring(node) is not None:
        told.update(range(node.body[0].lineno, (node.body[0].end_lineno or node.body[0].lineno) + 1))
    return len(_code_lines(source) - told)


def _parsed(function: Callable[..., Any]) -> tuple[str, _Function]:
    source = textwrap.dedent(inspect.getsource(function))
    return source, next(node for node in ast.walk(ast.parse(source)) if isinstance(node, _Function))


def _code_lines(source: str) -> set[int]:
    """Return the lines on which there is more than a comment."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    return found


__all__ = ["Cost", "declaration_cost"]
