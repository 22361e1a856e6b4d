"""The mutants of a file, each with a name that stays its own until the file changes."""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.work_item import MutationSpec, WorkItem
from tests.mutants._operators import OPERATORS


@dataclass(frozen=True)
class Mutant:
    """One change of one place. `id` is another when the file is another; `where` is the span that changes."""

    id: str
    file: str
    operator: str
    occurrence: int
    where: tuple[tuple[int, int], tuple[int, int]]

    def code(self, source: str) -> str | None:
        """Return the file with the change, or None: it is no other program, or none at all."""
        try:
            changed = mutate_code(source, plugins.get_operator(self.operator)(), self.occurrence)
        except AttributeError:  # cosmic-ray's own, where an exception is caught by a name with dots
            return None
        if changed is None or changed == source:
            return None
        try:
            same = _run_by(compile(changed, self.file, "exec")) == _run_by(compile(source, self.file, "exec"))
        except (SyntaxError, ValueError):
            return None
        return None if same else str(changed)

    def item(self) -> WorkItem:
        """Return it as cosmic-ray keeps it."""
        start, end = self.where
        spec = MutationSpec(
            module_path=Path(self.file),
            operator_name=self.operator,
            occurrence=self.occurrence,
            start_pos=start,
            end_pos=end,
        )
        return WorkItem.single(self.id, spec)


def _run_by(code: CodeType) -> tuple[Any, ...]:
    """Return what the interpreter runs of a program: a `return None` at the end of a function is there either way."""
    held = tuple(_run_by(each) if isinstance(each, CodeType) else (type(each), repr(each)) for each in code.co_consts)
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_name, code.co_flags, code.co_argcount, code.co_code, code.co_exceptiontable, names, held


def mutants_of(root: Path, file: str) -> list[Mutant]:
    """Return all mutants of a file, in the order of its lines."""
    source = (root / file).read_text()
    tree = get_ast(source)
    nodes, program = list(ast_nodes(tree)), ast.parse(source)
    idle, sums = _of_no_consequence(source, program), _between_operands(source, program)
    found: list[Mutant] = []
    for name in OPERATORS:
        operator: Any = plugins.get_operator(name)()
        spans = (span for node in nodes for span in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(spans):
            if start >= end or any(first <= start < last for first, last in idle):
                continue
            # What looks like an operator may be the `*` of arguments.
            if name.startswith("core/ReplaceBinary") and not any(first <= start < last for first, last in sums):
                continue
            text = f"{file}|{hashlib.sha256(source.encode()).hexdigest()}|{name}|{occurrence}"
            found.append(Mutant(hashlib.sha256(text.encode()).hexdigest()[:32], file, name, occurrence, (start, end)))
    return sorted(found, key=lambda each: (each.where, each.operator, each.occurrence))


Span = tuple[tuple[int, int], tuple[int, int]]


def _of_no_consequence(source: str, program: ast.Module) -> list[Span]:
    """Return the spans that no program runs: annotations, what only type checkers see, and `__all__`."""
    found: list[ast.AST] = []
    for node in ast.walk(program):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [node.returns] if node.returns is not None else []
            found += [each for each in node.decorator_list if "overload" in ast.unparse(each)]
        elif isinstance(node, ast.ClassDef):
            found += [each for each in node.decorator_list if "dataclass" in ast.unparse(each)]
        elif (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING") or (
            isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ):
            found.append(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "TypeVar", "ParamSpec"):
            found += node.args[:1]
    lines = source.splitlines()
    spans = [(_begin(lines, node), _end(lines, node)) for node in found]
    return spans + [(_begin(lines, node), _begin(lines, node.value)) for node in _frozen_again(program)]


def _frozen_again(program: ast.Module) -> Iterator[ast.keyword]:
    """Return where a class says `frozen=` as a class of its file that it is made of does: for type checkers."""
    frozen: set[str] = set()
    for node in program.body:
        if isinstance(node, ast.ClassDef):
            said = [each for each in node.keywords if each.arg == "frozen"]
            if any(isinstance(base, ast.Name) and base.id in frozen for base in node.bases):
                yield from said
            if said:
                frozen.add(node.name)


def _between_operands(source: str, program: ast.Module) -> list[Span]:
    lines = source.splitlines()
    sums = [node for node in ast.walk(program) if isinstance(node, ast.BinOp)]
    return [(_end(lines, node.left), _begin(lines, node.right)) for node in sums]


def _begin(lines: list[str], node: Any) -> tuple[int, int]:
    return node.lineno, _characters(lines[node.lineno - 1], node.col_offset)


def _end(lines: list[str], node: Any) -> tuple[int, int]:
    return node.end_lineno, _characters(lines[node.end_lineno - 1], node.end_col_offset)


def _characters(line: str, count: int) -> int:
    """Return an offset as cosmic-ray counts: in characters, where `ast` counts bytes."""
    return len(line.encode()[:count].decode())


def changed_lines(source: str, changed: str) -> tuple[str, str]:
    """Return what stood there and what stands there now, whole lines without their indent."""
    lines = difflib.ndiff(source.splitlines(), changed.splitlines())
    sides: dict[str, list[str]] = {"-": [], "+": []}
    for line in lines:
        if line[:1] in sides:
            sides[line[:1]].append(line[2:].strip())
    return "\n".join(sides["-"]), "\n".join(sides["+"])


def difference(file: str, source: str, changed: str) -> str:
    """Return how a file changed, for people."""
    lines = difflib.unified_diff(source.splitlines(), changed.splitlines(), file, file, lineterm="", n=1)
    return "\n".join(list(lines)[2:])


__all__ = ["Mutant", "changed_lines", "difference", "mutants_of"]
