"""Plays one example: on a fresh counterparty, with a settlement over it, and reads both afterwards."""

from __future__ import annotations

import asyncio
import copy
import inspect
import itertools
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from settlemark import Declaration, DeclarationError, EffectClass, Outcome, Queued, Retries, Settlement, State
from settlemark.hosting import declaration_of
from settlemark.ledger import RecordedTransaction
from settlemark.observe import Observer
from settlemark_adapters._adapter import Adapter
from settlemark_adapters.testing._report import Failed
from settlemark_adapters.testing._subject import Example, Subject

Tool = Callable[..., Any]
Call = tuple[Tool, Mapping[str, Any]]
MEMORY = "memory:"
WAIT_SECONDS = 10.0
UNDO_FAILED = "its undo failed"
"""The beginning of an effect's note whose undo raised each time."""

_numbers = itertools.count(1)


def fresh_name() -> str:
    """Return a name that no transaction had before, so that its keys are new to a counterparty."""
    return f"kit-{next(_numbers)}"


class Stopped(Exception):
    """Raised inside a transaction to undo it."""


def tool_of(adapter: Adapter, name: str) -> Tool:
    """Return one of an adapter's tools by its name, with the adapter's prefix or without.

    Raises:
        Failed: there is none.
    """
    found = {getattr(tool, "__name__", ""): tool for tool in adapter.tools()}
    try:
        return found[name] if name in found else adapter.tool(name)
    except (DeclarationError, AttributeError):
        names = ", ".join(found) or "none"
        raise Failed(
            f"an example calls {name!r}, and there is no such tool: there are {names}", "name one of the tools"
        ) from None


def known_of(tool: Tool) -> Declaration:
    """Return a tool's declaration.

    Raises:
        Failed: it has none.
    """
    found = declaration_of(tool)
    if found is None:
        name = getattr(tool, "__name__", tool)
        raise Failed(f"{name} has no declaration", "put @operation above its method, or @effect on the function")
    return found


@contextmanager
def made(subject: Subject, settlement: Settlement | None, place: Any) -> Generator[Adapter]:
    """Make the adapter, and close it at the end if it can be closed."""
    adapter = subject.make(settlement, place)
    try:
        yield adapter
    finally:
        close = getattr(adapter, "close", None)
        if callable(close) and not inspect.iscoroutinefunction(close):
            close()


def transact(
    settlement: Settlement,
    calls: Sequence[Call],
    *,
    name: str,
    inside: Callable[[list[Any]], object] | None = None,
    abort: bool = False,
) -> list[Any]:
    """Make calls in one transaction and return their results; those of held ones exist after its commit.

    `inside` is called with the results before the end; with `abort` the transaction is undone.
    """
    if any(inspect.iscoroutinefunction(tool) for tool, _ in calls):
        return asyncio.run(_transact_async(settlement, calls, name=name, inside=inside, abort=abort))
    results: list[Any] = []
    with suppress(Stopped), settlement.transaction(name) as tx:
        results += [tx.call(tool, **copy.deepcopy(dict(arguments))) for tool, arguments in calls]
        _look_inside(results, inside, abort=abort)
    return [_result(result) for result in results]


async def _transact_async(
    settlement: Settlement,
    calls: Sequence[Call],
    *,
    name: str,
    inside: Callable[[list[Any]], object] | None,
    abort: bool,
) -> list[Any]:
    results: list[Any] = []
    with suppress(Stopped):
        async with settlement.transaction(name) as tx:
            for tool, arguments in calls:
                results.append(await tx.call(tool, **copy.deepcopy(dict(arguments))))
            _look_inside(results, inside, abort=abort)
    return [_result(result) for result in results]


def _look_inside(results: list[Any], inside: Callable[[list[Any]], object] | None, *, abort: bool) -> None:
    if inside is not None:
        inside(results)
    if abort:
        raise Stopped


def _result(result: Any) -> Any:
    if not isinstance(result, Queued):
        return result
    return result.result() if result.outcome == Outcome.CONFIRMED else None


@dataclass(frozen=True, slots=True)
class Account:
    """The outcome of a transaction, according to a settlement.

    Attributes:
        ended: `committed`, `undone` (also when it is not on record at all), or `named`.
        told: the named residue, in words.
    """

    ended: str
    told: str = ""


def account(settlement: Settlement, name: str) -> Account:
    """Return the outcome of a transaction: `named`, if an operator is told of residue, takes precedence."""
    named = [f"{left.tool}: {left.note}" for left in settlement.residue() if left.transaction == name]
    named += [f"{doubt.tool}: {doubt.why}" for doubt in settlement.in_doubt() if doubt.transaction == name]
    if named:
        return Account("named", "; ".join(named))
    attempts = [recorded for recorded in settlement.transactions() if recorded.row.name == name]
    return Account("committed" if any(map(_happened, attempts)) else "undone")


def _happened(recorded: RecordedTransaction) -> bool:
    return recorded.state is State.COMMITTED and any(e.outcome is Outcome.CONFIRMED for e in recorded.effects)


class Bench:
    """One example on one counterparty.

    Attributes:
        subject, example, place: what is played, and where.
        nothing: the counterparty's state before any call.
    """

    def __init__(self, subject: Subject, example: Example, place: Any, folder: Path) -> None:
        self.subject = subject
        self.example = example
        self.place = place
        self._folder = folder
        if example.before is not None:
            example.before(place)
        self.nothing = self.look()

    def look(self) -> Any:
        """Return the counterparty's present state."""
        return copy.deepcopy(self.subject.look(self.place))

    @property
    def is_new(self) -> bool:
        """Whether the counterparty shows that nothing has happened."""
        return bool(self.look() == self.nothing)

    def file(self) -> str:
        """Return the URL of a new ledger in a file."""
        empty, new = self._folder / "empty.db", self._folder / f"{fresh_name()}.db"
        if not empty.exists():
            Settlement(f"sqlite:///{empty}").close()
        shutil.copy(empty, new)  # creating its tables takes longer than most of what is played on it
        return f"sqlite:///{new}"

    @contextmanager
    def opened(
        self,
        url: str = MEMORY,
        *,
        make: Callable[..., Settlement] = Settlement,
        observe: Observer | None = None,
        **options: Any,
    ) -> Generator[tuple[Settlement, Adapter]]:
        """Open a settlement, and make the adapter for it."""
        options = {"retries": Retries(first=0, most=0), "wait": WAIT_SECONDS, **options}
        with (
            make(url, observe=observe, **options) as settlement,
            made(self.subject, settlement, self.place) as adapter,
        ):
            yield settlement, adapter

    def call(self, adapter: Adapter) -> Call:
        """Return the example's call of an adapter's tool."""
        return tool_of(adapter, self.example.tool), self.example.arguments

    def play(
        self,
        settlement: Settlement,
        adapter: Adapter,
        *,
        name: str,
        inside: Callable[[list[Any]], object] | None = None,
        abort: bool = False,
    ) -> Any:
        """Play the example in a transaction, and return its result."""
        return transact(settlement, [self.call(adapter)], name=name, inside=inside, abort=abort)[0]

    def played(self, **options: Any) -> Any:
        """Play the example in a settlement of its own, and return its result."""
        with self.opened() as (settlement, adapter):
            return self.play(settlement, adapter, name=fresh_name(), **options)


class Worlds:
    """Counterparties for one example: the last one as long as nothing has happened there, else a fresh one.

    Args:
        shared: a place that its own `reset()` makes new: then there is no other.
    """

    def __init__(self, subject: Subject, example: Example, folder: Path, shared: Any = None) -> None:
        self._subject = subject
        self._example = example
        self._folder = folder
        self._shared = shared
        self._bench: Bench | None = None
        self._stack = ExitStack()

    def fresh(self) -> Bench:
        """Return a counterparty in its initial state."""
        if self._bench is not None and self._bench.is_new:
            return self._bench
        self._stack.close()
        self._bench = None
        if self._shared is None:
            place = self._stack.enter_context(self._subject.world())
        else:
            place = self._shared
            place.reset()
        self._bench = Bench(self._subject, self._example, place, self._folder)
        return self._bench

    def close(self) -> None:
        """End the last one."""
        self._bench = None
        self._stack.close()


UNDOABLE = frozenset({EffectClass.REVERSIBLE, EffectClass.IDEMPOTENT})

__all__ = [
    "MEMORY",
    "UNDOABLE",
    "UNDO_FAILED",
    "WAIT_SECONDS",
    "Account",
    "Bench",
    "Call",
    "Stopped",
    "Tool",
    "Worlds",
    "account",
    "fresh_name",
    "known_of",
    "made",
    "tool_of",
    "transact",
]
