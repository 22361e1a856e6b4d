"""Which tests reach a line, and what they cost: from one run of a room's tests without a mutant, which is kept."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutants._mutating import Mutant
from tests.mutants._rooms import ROOTS, Room

_ENOUGH = 25
"""How many tests that reach a line are enough: only with fewer of them those about it are asked, too."""


@dataclass(frozen=True)
class Aim:
    """The quick tests of a room without a mutant.

    Attributes:
        tests: of each its `seconds` of the processor, the `lines` that it reaches in each file, and whether it
            `failed`: then it is set aside, for it notices nothing.
    """

    tests: Mapping[str, Mapping[str, Any]]

    @property
    def aside(self) -> list[str]:
        """The tests that fail without a mutant."""
        return [test for test, told in self.tests.items() if told["failed"]]

    @property
    def blind(self) -> list[str]:
        """The tests that reach no line here: they read the program, or have another process run it."""
        return [test for test, told in self.tests.items() if not told["lines"] and not told["failed"]]

    @property
    def is_idle(self) -> bool:
        """Whether there are tests, and none reaches a line: what they need is not on this machine."""
        return bool(self.tests) and not any(told["lines"] for told in self.tests.values())

    def at(self, mutant: Mutant, source: str, seconds: float) -> list[str]:
        """Return the tests that should notice a mutant, no more of them than take so many seconds of the processor.

        Those that reach the mutant's own lines come first, then those that reach the statements around it, from the
        inside out, until there are enough; among equals the quickest. So a line that is run only when its module is
        imported is tried, too, by the tests of what stands about it.
        """
        passed = {test: told["lines"] for test, told in self.tests.items() if not told["failed"]}
        reached = {test: set(lines.get(mutant.file, ())) for test, lines in passed.items()}
        chosen: dict[str, None] = {}
        for lines in _around(ast.parse(source), mutant):
            near = [test for test, its in reached.items() if test not in chosen and not its.isdisjoint(lines)]
            for test in sorted(near, key=lambda test: self.tests[test]["seconds"]):
                seconds -= self.tests[test]["seconds"]
                if seconds < 0:
                    return list(chosen)
                chosen[test] = None
            if len(chosen) >= _ENOUGH:
                break
        return list(chosen)


def _around(program: ast.Module, mutant: Mutant) -> Iterator[set[int]]:
    """Yield a mutant's lines, those of all statements that it stands in, from the inside out, and those of the file."""
    first, last = mutant.where[0][0], mutant.where[1][0]
    yield set(range(first, last + 1))
    spans = {(1, max(last, program.body[-1].end_lineno or last))}
    for node in ast.walk(program):
        if isinstance(node, ast.stmt):
            begin = min(each.lineno for each in (node, *getattr(node, "decorator_list", ())))
            if begin <= first and last <= (node.end_lineno or begin):
                spans.add((begin, node.end_lineno or begin))
    for begin, end in sorted(spans, key=lambda span: span[1] - span[0]):
        yield set(range(begin, end + 1))


def aimed(root: Path, room: Room, kept: Path, run: Callable[[list[str]], Mapping[str, Any]]) -> Aim:
    """Return a room's tests as they run without a mutant.

    Args:
        root: the checkout.
        room: the room.
        kept: the file that keeps them: a test file is run again when it has changed or failed, all when anything else
            has changed.
        run: runs test files, and returns what it recorded of each test.
    """
    common = _digest(root, (*room.files(root), *_shared_files(root)))
    files = {file: _digest(root, [file]) for file in _test_files(root, room)}
    known = json.loads(kept.read_text()) if kept.exists() else {}
    if known.get("common") != common:
        known = {"files": {}, "tests": {}}
    failed = {test.partition("::")[0] for test in Aim(known["tests"]).aside}
    waiting = [file for file, digest in files.items() if known["files"].get(file) != digest or file in failed]
    tests = {
        test: told
        for test, told in known["tests"].items()
        if (file := test.partition("::")[0]) in files and file not in waiting
    }
    if waiting:
        tests |= run(waiting)
        kept.write_text(json.dumps({"common": common, "files": files, "tests": tests}))
    return Aim(tests)


def _test_files(root: Path, room: Room) -> list[str]:
    found: dict[str, None] = {}
    for test in room.tests:
        inside = sorted((root / test).rglob("test_*.py")) if (root / test).is_dir() else [root / test]
        found |= dict.fromkeys(path.relative_to(root).as_posix() for path in inside)
    return list(found)


def _shared_files(root: Path) -> Iterator[str]:
    """Yield what any test of a room may depend on: the program, and what tests share."""
    yield "pyproject.toml"
    yield "conftest.py"
    for folder in (*ROOTS, "tests"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            test = folder == "tests" and (path.name.startswith("test_") or name.startswith("tests/mutants/"))
            if path.is_file() and path.suffix != ".pyc" and not test:
                yield name


def _digest(root: Path, files: Iterable[str]) -> str:
    found = hashlib.sha256()
    for file in files:
        if (root / file).exists():
            found.update(f"{file}\0".encode() + hashlib.sha256((root / file).read_bytes()).digest())
    return found.hexdigest()


__all__ = ["Aim", "aimed"]
