"""How long the way of a call is: what of ours is entered for it, in which files, and what its store commits."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from tests.rooms.sql import wire

import settlemark

CORE = Path(settlemark.__file__).parent


class Hop(NamedTuple):
    """A function that was entered: its file, below the root that it was found under, and its name in there."""

    file: str
    function: str


class Way:
    """The hops of one call, as often as each was made, in the order of their first.

    A generator that is gone on with is not entered again, and what a comprehension does is its function's: Python
    versions differ in whether that has a frame.
    """

    def __init__(self, roots: tuple[Path, ...] = (CORE,)) -> None:
        self.hops: Counter[Hop] = Counter()
        self._roots = {f"{root.resolve()}/": root.name for root in roots}

    @property
    def entries(self) -> int:
        """How often a function was entered."""
        return self.hops.total()

    @property
    def files(self) -> int:
        """In how many files."""
        return len({hop.file for hop in self.hops})

    def __str__(self) -> str:
        lines = [f"{self.entries} entries of {len(self.hops)} functions in {self.files} files"]
        lines += [f"{count:5} {hop.file}: {hop.function}" for hop, count in self.hops.items()]
        return "\n".join(lines)

    def see(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Count a frame; a profile function."""
        code = frame.f_code
        if event != "call" or code.co_name in _PARTS or not _begins(frame):
            return
        for root, name in self._roots.items():
            if code.co_filename.startswith(root):
                self.hops[Hop(f"{name}/{code.co_filename.removeprefix(root)}", code.co_qualname)] += 1


_PARTS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")
_LAZY = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_AT_START = 0
"""What the instruction RESUME is given where a function begins; behind a `yield` or an `await` it is another number."""


def _begins(frame: FrameType) -> bool:
    """Whether a function is entered, and not only gone on with."""
    code = frame.f_code
    return not code.co_flags & _LAZY or code.co_code[frame.f_lasti + 1] & 3 == _AT_START


def shortest(act: Callable[[], object], *, roots: tuple[Path, ...] = (CORE,), times: int = 5) -> Way:
    """Return the shortest way of several calls: what a thread or the collector does in between is in the others."""
    return min((_seen(act, Way(roots)) for _ in range(times)), key=lambda way: way.entries)


def _seen(act: Callable[[], object], way: Way) -> Way:
    before = sys.getprofile()
    threading.setprofile(way.see)
    sys.setprofile(way.see)
    try:
        act()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return way


def lines(act: Callable[[], object], *, roots: tuple[Path, ...] = (CORE,), times: int = 4) -> Counter[str]:
    """Return how often each line of ours is come to at least in each of several calls, each round of a loop counted.

    What is done for each of many rows shows here, and in no count of functions. A wait that looks again is in one call
    and not in the next.
    """
    found = tuple(f"{root.resolve()}/" for root in roots)
    return functools.reduce(operator.and_, (_lines(act, found) for _ in range(times)))


def _lines(act: Callable[[], object], roots: tuple[str, ...]) -> Counter[str]:
    come_to: Counter[str] = Counter()

    def see(frame: FrameType, event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(roots):
            return None
        if event == "line":
            come_to[f"{file}:{frame.f_lineno}"] += 1
        return see

    before = sys.gettrace()
    threading.settrace(see)
    sys.settrace(see)
    try:
        act()
    finally:
        sys.settrace(before)
        threading.settrace(None)
    return come_to


class Commits(list[bool]):
    """The transactions that stores have committed, one after the other: True for each that waited for the disk."""

    @property
    def durable(self) -> int:
        """How many waited for the disk."""
        return self.count(True)


@contextmanager
def committing() -> Generator[Commits]:
    """Count what stores commit meanwhile, whoever writes; who only reads commits nothing."""
    commits = Commits()
    with ExitStack() as patched:
        for kind in (wire.SqliteWire, wire.PostgresWire):
            patched.callback(_listen(kind, commits))
        yield commits


def _listen(kind: type[wire.Wire], commits: Commits) -> Callable[[], None]:
    """Have the commits of a kind of store noted, and return what ends that."""
    begin, commit = kind.begin, kind.commit
    begun: dict[wire.Wire, bool] = {}

    def noted_begin(self: wire.Wire, *, durable: bool) -> None:
        begun[self] = durable
        begin(self, durable=durable)

    def noted_commit(self: wire.Wire) -> None:
        commit(self)
        if self in begun:
            commits.append(begun.pop(self))

    def end() -> None:
        kind.begin, kind.commit = begin, commit  # type: ignore[method-assign]

    kind.begin, kind.commit = noted_begin, noted_commit  # type: ignore[assignment, method-assign]
    return end
