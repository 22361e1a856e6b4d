"""Every line that an adapter executes while it acts: to die before one, or to fail there.

A crash does not wait for the end of a function. So the lines of a call, a release or an undo are counted in one run,
and another run is struck at the n-th of them.
"""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal, cast

from settlemark.observe import Acting, Event
from settlemark.testing import die
from settlemark_adapters import _adapter
from settlemark_adapters._adapter import Adapter

Act = Literal["call", "release", "undo"]

_KIT = str(Path(__file__).resolve().parent)
_BASE = str(Path(_adapter.__file__).resolve())
_PACKAGE = Path(_BASE).parent
_NOBODYS = ("abc", "builtins", "typing")


class FailedLine(Exception):
    """Raised by an adapter's line because the kit asked for it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment just before a line of an act, or just before a function of it returns; numbered from 1 within the act.

    >>> print(Moment("undo", 3, "files.py", 41, "line"))
    files.py:41, in its undo
    """

    act: Act
    number: int
    file: str
    line: int
    event: str

    @property
    def told(self) -> tuple[Act, int, str, int, str]:
        """The moment as plain values, for another process."""
        return self.act, self.number, self.file, self.line, self.event

    def __str__(self) -> str:
        end = ", at the end of a function" if self.event == "return" else ""
        return f"{Path(self.file).name}:{self.line}{end}, in its {self.act}"


def files_of(adapter: type) -> frozenset[str]:
    """Return the files whose lines are an adapter's own: those of its classes, and of their packages."""
    found: set[str] = set()
    for cls in inspect.getmro(adapter):
        if cls is Adapter or cls.__module__ in _NOBODYS:
            continue
        file = Path(inspect.getfile(cls)).resolve()
        found.add(str(file))
        if (file.parent / "__init__.py").exists():
            found.update(map(str, file.parent.rglob("*.py")))
        if _PACKAGE in file.parents:  # what adapters share is above them
            found.update(map(str, _PACKAGE.rglob("*.py")))
    return frozenset(file for file in found if file != _BASE and not file.startswith(_KIT))


class Lines:
    """An observer of a settlement that follows the lines of its acts, and strikes at one.

    Args:
        acts: in which acts.
        at: the moment's number within an act; None only tells them.
        strike: called there; what it raises the line raises. By default the process dies.
        tell: told of each moment.

    Attributes:
        files: whose lines; to be set when the adapter is there.
    """

    files: frozenset[str] = frozenset()

    def __init__(
        self,
        acts: tuple[Act, ...],
        *,
        at: int | None = None,
        strike: Callable[[], object] = die,
        tell: Callable[[Moment], object] | None = None,
    ) -> None:
        self._acts = acts
        self._at = at
        self._strike = strike
        self._tell = tell
        self._acting: str = ""
        self.passed: Counter[str] = Counter()

    def tell(self, _event: Event, /) -> None:
        """Ignore events: only acts are followed."""

    def around(self, acting: Acting, /) -> AbstractContextManager[None]:
        """Follow the lines of an act."""
        return self._following(acting.act)

    @contextmanager
    def _following(self, act: str) -> Generator[None]:
        if act not in self._acts:
            yield
            return
        self._acting, self.passed[act] = act, 0
        before = sys.gettrace()
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before)
            self._acting = ""

    def _enter(self, frame: FrameType, _event: str, _value: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        return self._pass if code.co_filename in self.files and code.co_name != "<module>" else None

    def _pass(self, frame: FrameType, event: str, _value: Any) -> Callable[..., Any] | None:
        act = self._acting
        if act and event in ("line", "return"):
            self.passed[act] += 1
            if self._tell is not None:
                self._tell(Moment(cast("Act", act), self.passed[act], frame.f_code.co_filename, frame.f_lineno, event))
            if self.passed[act] == self._at:
                self._strike()
        return self._pass


def may_fail(moments: list[Moment]) -> list[Moment]:
    """Return the moments at which a line may raise, and everything it holds is still released.

    Not in a `finally` or `except`, which are there for that; and not where a function ends, after all of them.
    """
    cleaning = {file: _cleaning(file) for file in {moment.file for moment in moments}}
    return [moment for moment in moments if moment.event == "line" and moment.line not in cleaning[moment.file]]


def _cleaning(file: str) -> set[int]:
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    spans: list[tuple[int, int | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Try | ast.TryStar):
            spans += [(part.lineno, part.end_lineno) for part in node.finalbody]
            spans += [(part.lineno, part.end_lineno) for part in node.handlers]
    return {line for first, last in spans for line in range(first, (last or first) + 1)}


def once_each(moments: list[Moment]) -> list[Moment]:
    """Return the first of the moments at each place."""
    first: dict[tuple[str, str, int, str], Moment] = {}
    for moment in moments:
        first.setdefault((moment.act, moment.file, moment.line, moment.event), moment)
    return list(first.values())


__all__ = ["Act", "FailedLine", "Lines", "Moment", "files_of", "may_fail", "once_each"]
