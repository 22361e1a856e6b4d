"""Steps on the world, counted as they begin, and the faults that strike the chosen ones.

A step is one act on the world: a tool that is called or released, an undo. The commit of a transaction is one too, so
that a run can fail when everything has been done. Reads and probes are none.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, cast, get_args

from settlemark._acts.current import current_call
from settlemark._edges.errors import UsageError
from settlemark._model.declaration import Declaration, Handler
from settlemark.testing._child import die

Mode = Literal["before", "refused", "unsent", "after", "kill before", "kill after"]
Role = Literal["call", "release", "undo", "commit"]

MODES: tuple[Mode, ...] = get_args(Mode)
# A commit is no network call: it is refused, or its process dies.
_AT_COMMIT: tuple[Mode, ...] = ("before", "kill before")

Tool = Callable[..., Any]
_Mark = tuple[str, Role]


class InjectedFault(Exception):
    """The counterparty said no, because a test asked for that: nothing was done."""


class InjectedTimeout(InjectedFault, TimeoutError):
    """No answer came, because a test asked for that: the caller cannot know whether it was done."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: which step it strikes, and how.

    `before`: it fails once, and nothing was done. `refused`: it fails so for good, also when tried again. `unsent`: no
    answer came, and nothing was done. `after`: no answer came, and it was done. `kill before`, `kill after`: its
    process is killed.

    Raises:
        UsageError: there is no such step or mode.

    >>> print(Fault(3, "kill after"))
    kill after step 3
    """

    step: int
    mode: Mode

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"a fault strikes in these ways: {', '.join(MODES)}; not {self.mode!r}")
        if self.step < 1:
            raise UsageError(f"there is no step {self.step}: they are numbered from 1")

    @property
    def kills(self) -> bool:
        """Whether it ends the process."""
        return self.mode in ("kill before", "kill after")

    def __str__(self) -> str:
        return f"{self.mode} step {self.step}"


@dataclass(frozen=True, slots=True)
class Step:
    """One act on the world, numbered from 1 in the order they began.

    >>> print(Step(2, "reserve_room", "undo"))
    2. reserve_room (undo)
    """

    number: int
    tool: str
    role: Role

    @property
    def name(self) -> str:
        """Its tool, and its role unless it is a call."""
        return self.tool if self.role in ("call", "commit") else f"{self.tool} ({self.role})"

    def suffers(self, mode: Mode) -> bool:
        """Whether a fault can strike it in this way."""
        return self.role != "commit" or mode in _AT_COMMIT

    def __str__(self) -> str:
        return f"{self.number}. {self.name}"


class Steps:
    """Counts the steps that pass, and strikes them; see `FaultInjector` for the arguments.

    Laws: a step is counted once, by whichever of the functions put around it begins first.
    """

    def __init__(
        self,
        faults: tuple[Fault, ...],
        *,
        first: int,
        on_step: Callable[[Step], object] | None,
        on_strike: Callable[[Fault], object] | None,
        refusal: Callable[[str], Exception],
        lost: Callable[[str], Exception],
    ) -> None:
        self.begun: list[Step] = []
        self.struck: list[Fault] = []
        self._waiting = list(faults)
        self._first = first
        self._on_step = on_step
        self._on_strike = on_strike
        self._refusal = refusal
        self._lost = lost
        self._refused: set[tuple[str, Role]] = set()
        self._acting: set[_Mark] = set()
        self._lock = threading.Lock()

    # ---- wrappers around everything that acts

    def around(self, tool: str, role: Callable[[], Role], function: Tool) -> Tool:
        """Return a function with the same behaviour that counts as a step."""
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                acting = self._begin(tool, role())
                work = function(*args, **kwargs)
                return await (work if acting is None else acting.ending(work))

            return awaited

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            acting = self._begin(tool, role())
            if acting is None:
                return function(*args, **kwargs)
            result: Any = None
            try:
                result = function(*args, **kwargs)
            finally:
                if not inspect.iscoroutine(result):
                    acting.over()
            # A function may return a coroutine without being async itself: it has not acted yet.
            return acting.ending(result) if inspect.iscoroutine(result) else acting.answer(result)

        return called

    def handled(self, declaration: Declaration) -> Declaration:
        """Return the declaration with its undo and its release as steps."""
        return replace(
            declaration,
            undo=self._handler(declaration.tool, "undo", declaration.undo),
            release=self._handler(declaration.tool, "release", declaration.release),
        )

    def _handler(self, tool: str, role: Role, handler: Handler | None) -> Handler | None:
        return None if handler is None else Handler(self.around(tool, lambda: role, handler.function), handler.name)

    def commit(self, _footprint: object) -> str | None:
        """The pre-commit hook that makes the commit a step; a reason vetoes it."""
        step, mode, _ = self._count("commit", "commit", None)
        return f"step {step.number}, the commit, is refused" if mode == "before" else None

    # ---- one step

    def _begin(self, tool: str, role: Role) -> Acting | None:
        """Begin a step, and return the object that ends it; None if it is part of one already counted.

        Raises:
            Exception: the step was struck before it did anything.
        """
        call = current_call()
        # A wrapped tool may be called by a settlement that counts its calls too.
        mark: _Mark | None = None if call is None else (call.key, "undo" if role == "undo" else "call")
        with self._lock:
            if mark is not None and mark in self._acting:
                return None
        step, mode, refused = self._count(tool, role, mark)
        if refused or mode == "before":
            raise self._refusal(f"step {step.number}, {step.name}, fails: nothing was done")
        if mode == "unsent":
            raise self._lost(f"step {step.number}, {step.name}, has no answer: nothing was done")
        return Acting(self, step, mode, mark)

    def _count(self, tool: str, role: Role, mark: _Mark | None) -> tuple[Step, Mode | None, bool]:
        with self._lock:
            step = Step(self._first + len(self.begun), tool, role)
            self.begun.append(step)
            if self._on_step is not None:
                self._on_step(step)
            mode = self._strike(step)
            refused = (tool, role) in self._refused
            if mark is not None and not refused and mode not in ("before", "unsent"):
                self._acting.add(mark)
        return step, mode, refused

    def _strike(self, step: Step) -> Mode | None:
        fault = next((fault for fault in self._waiting if fault.step == step.number), None)
        if fault is None or not step.suffers(fault.mode):
            return None
        self._waiting.remove(fault)
        self.struck.append(fault)
        if self._on_strike is not None:
            self._on_strike(fault)
        if fault.mode == "kill before":
            die()
        if fault.mode == "refused":
            self._refused.add((step.tool, step.role))
        return fault.mode

    def over(self, mark: _Mark | None) -> None:
        """Record that a step no longer acts."""
        if mark is not None:
            with self._lock:
                self._acting.discard(mark)

    def strike_after(self, step: Step, mode: Mode | None) -> None:
        """Strike a step after it was done."""
        if mode == "kill after":
            die()
        if mode == "after":
            raise self._lost(f"step {step.number}, {step.name}, has no answer: it was done")


@dataclass(frozen=True, slots=True)
class Acting:
    """A step that has begun and was not struck yet."""

    steps: Steps
    step: Step
    mode: Mode | None
    mark: _Mark | None

    def over(self) -> None:
        """Record that it no longer acts."""
        self.steps.over(self.mark)

    def answer(self, result: Any) -> Any:
        """Return its result, unless it is struck now that it is done."""
        self.steps.strike_after(self.step, self.mode)
        return result

    async def ending(self, work: Any) -> Any:
        """The same for an awaited result."""
        try:
            result = await work
        finally:
            self.over()
        return self.answer(result)


def step_of(number: int, tool: str, role: str) -> Step:
    """Return the step that another process reported."""
    return Step(number, tool, cast("Role", role))
