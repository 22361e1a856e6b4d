"""The files to lint: found by module or path, parsed and never run.

Notebooks and Markdown are read too: their code cells and Python blocks are one text.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from settlemark._edges.errors import UsageError
from settlemark.lint._source.bindings import Bindings

_IGNORE = re.compile(r"#\s*settlemark:\s*ignore(?P<file>-file)?(?:\[(?P<codes>[\w\s,-]*)\])?")
_BLOCK = re.compile(r"^(?P<fence>```+|~~~+)python[^\n]*\n(?P<code>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
_PYTHON_CELL = re.compile(r"%%(?:time|timeit|capture|writefile\b.*\.py\s*$)", re.MULTILINE)
_MAGIC = re.compile(r"^\s*[%!?]")
_SKIPPED = frozenset({"__pycache__", "node_modules", "build", "dist", "site-packages"})
_TOP_LEVEL_AWAIT = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_ALL = frozenset({""})


@dataclass(eq=False)
class Source:
    """One parsed file. `module` is its dotted name as far as its path tells."""

    path: str
    module: str
    tree: ast.Module
    text: str
    cells: tuple[tuple[int, int], ...] = ()
    ignored: dict[int, frozenset[str]] = field(default_factory=dict[int, frozenset[str]])

    @cached_property
    def bindings(self) -> Bindings:
        """The bindings of its names."""
        return Bindings(self.tree)

    def place(self, line: int) -> tuple[str, int]:
        """Return the file and line to show for a line of the parsed text; of a notebook, the cell and its line."""
        for start, number in reversed(self.cells):
            if line >= start:
                return f"{self.path}:cell {number}", line - start + 1
        return self.path, line

    def ignores(self, code: str, lines: Iterable[int]) -> bool:
        """Whether a comment on one of these lines, or one for the whole file (line 0), silences a rule."""
        return any(_silences(self.ignored[line], code) for line in (0, *lines) if line in self.ignored)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that is no Python."""

    path: str
    line: int
    why: str


def gather(targets: Iterable[str | Path]) -> list[Source | Unreadable]:
    """Return the files that modules and paths name, each once, in the order they are named.

    Raises:
        UsageError: there is no such module or path.
    """
    found: dict[Path, Source | Unreadable] = {}
    for target in targets:
        for path, module in _files(target):
            if path.resolve() not in found:
                found[path.resolve()] = _read(path, module)
    return list(found.values())


def _files(target: str | Path) -> Iterator[tuple[Path, str]]:
    text = str(target)
    path = Path(target)
    if path.exists() and (isinstance(target, Path) or "/" in text or "." in text or path.is_dir()):
        yield from _within(path, _module_of(path))
        return
    if isinstance(target, str) and all(part.isidentifier() for part in text.split(".")):
        parts = text.split(".")
        for entry in (".", *sys.path):
            place = Path(entry, *parts)
            if place.with_suffix(".py").is_file():
                yield place.with_suffix(".py"), text
                return
            if place.is_dir() and any(place.rglob("*.py")):
                yield from _within(place, text)
                return
    raise UsageError(f"there is no module or path {text!r} here: name yourapp.tools, or path/to/tools.py", target=text)


def _within(path: Path, module: str) -> Iterator[tuple[Path, str]]:
    if not path.is_dir():
        yield path, module
        return
    for each in sorted(path.rglob("*.py")):
        parts = each.relative_to(path).with_suffix("").parts
        if not any(part.startswith(".") or part in _SKIPPED for part in parts[:-1]):
            names = [part for part in parts if part != "__init__"]
            yield each, ".".join([module, *names] if module else names)


def _module_of(path: Path) -> str:
    """Return a file's or folder's dotted name, as far up as there are packages."""
    path = path.resolve()
    names = [] if path.stem == "__init__" else [path.stem]
    for folder in path.parents:
        if not (folder / "__init__.py").exists():
            break
        names.insert(0, folder.name)
    return ".".join(names)


def _read(path: Path, module: str) -> Source | Unreadable:
    shown = _shown(path)
    try:
        text, cells = _python_in(path, _decoded(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a dubious escape, for example: Python reports it when the file runs
            tree = compile(text, shown, "exec", _TOP_LEVEL_AWAIT, dont_inherit=True)
        assert isinstance(tree, ast.Module)
        source = Source(shown, module, tree, text, cells, _comments(text))
        _ = source.bindings  # too deep nesting raises here as well
    except SyntaxError as error:
        return Unreadable(shown, error.lineno or 1, f"{error.msg}")
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        return Unreadable(shown, 1, str(error))
    return source


def _decoded(path: Path) -> str:
    raw = path.read_bytes()
    encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0] if path.suffix == ".py" else "utf-8-sig"
    return raw.decode(encoding)


def _shown(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def _python_in(path: Path, raw: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    if path.suffix == ".ipynb":
        return _notebook(raw)
    if path.suffix in {".md", ".markdown"}:
        lines: list[str] = []
        for found in _BLOCK.finditer(raw):
            lines += [""] * (raw.count("\n", 0, found.start("code")) - len(lines))
            lines += found["code"].split("\n")
        return "\n".join(lines), ()
    return raw, ()


def _notebook(raw: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    lines: list[str] = []
    cells: list[tuple[int, int]] = []
    for number, cell in enumerate(json.loads(raw).get("cells", []), 1):
        if cell.get("cell_type") != "code":
            continue
        code = "".join(cell.get("source", []))
        cells.append((len(lines) + 1, number))
        if not code.lstrip().startswith("%%") or _PYTHON_CELL.match(code.lstrip()):
            lines += ["" if _MAGIC.match(line) else line for line in code.splitlines()]
    return "\n".join(lines) + "\n", tuple(cells)


def _comments(text: str) -> dict[int, frozenset[str]]:
    found: dict[int, frozenset[str]] = {}
    if not _IGNORE.search(text):
        return found
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return found
    for token in tokens:
        if token.type != tokenize.COMMENT or not (said := _IGNORE.search(token.string)):
            continue
        named = {code.strip().lower() for code in (said["codes"] or "").split(",")} - {""}
        line = 0 if said["file"] else token.start[0]
        found[line] = found.get(line, frozenset()) | (frozenset(named) if said["codes"] is not None else _ALL)
    return found


def _silences(codes: frozenset[str], code: str) -> bool:
    return "" in codes or code.lower() in codes


__all__ = ["Source", "Unreadable", "gather"]
