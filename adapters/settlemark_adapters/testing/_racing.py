"""Races: two transactions on one resource end as one after the other would."""

from __future__ import annotations

import asyncio
import copy
import inspect
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from settlemark import EffectClass, Settlement
from settlemark_adapters._adapter import Adapter
from settlemark_adapters.testing._bench import (
    WAIT_SECONDS,
    Bench,
    Stopped,
    fresh_name,
    made,
    tool_of,
)
from settlemark_adapters.testing._likeness import common, fits
from settlemark_adapters.testing._report import Failed, NotApplicable
from settlemark_adapters.testing._study import Trial, shown
from settlemark_adapters.testing._subject import Example

_MOST_PARTNERS = 1
_PAUSE_SECONDS = 0.001
_MEND = (
    "let both calls name a scope in common, keep nothing in the adapter between two calls, and let an undo take back"
    " its own work alone"
)

_DONE, _UNDONE = "done", "undone"
Ends = tuple[tuple[str, ...], Any]
"""How each call ended (`done`, `undone` or `failed with …`), and the counterparty's state then."""


def two_transactions(trial: Trial) -> str:
    """Two transactions on one resource end as one after the other would, and as one alone when the first is undone."""
    trial.needs_effect()
    if not trial.is_sampled:
        raise NotApplicable("two meet in the first example alone, unless points=None asks for all")
    partners = [trial.example, *_partners(trial)]
    tried = [_Pair(trial, partner).judge() for partner in partners]
    return f"as one after the other, with {', '.join(tried)}"


def _partners(trial: Trial) -> list[Example]:
    """Return calls of other tools on the same resource; those first whose heldness differs."""
    found: dict[str, tuple[bool, Example]] = {}
    for example in trial.study.subject.examples:
        known = trial.study.declaration(example)
        if known.tool == trial.declaration.tool or known.kind is EffectClass.READ or known.tool in found:
            continue
        if trial.study.meet(trial.example, example):
            found[known.tool] = (known.held == trial.held, example)
    # By heldness alone: examples themselves have no order.
    return [example for _, example in sorted(found.values(), key=lambda pair: pair[0])][:_MOST_PARTNERS]


@dataclass
class _Pair:
    """The example, and the call that meets it."""

    trial: Trial
    partner: Example
    orders: dict[tuple[int, ...], list[Ends]] = field(default_factory=dict[tuple[int, ...], list[Ends]])

    def judge(self) -> str:
        """Play the pair in each way; return how it is called.

        Raises:
            Failed: an end is that of no order.
        """
        name = "itself" if self.partner is self.trial.example else shown(self.partner)
        for way, play in _WAYS.items():
            end = self._played(play)
            if not any(self._is_as(end, order) for order in self._orders(end[0])):
                told = ", ".join(end[0])
                raise Failed(
                    f"with {name}, where {way}, the end is that of no order of the two (they ended: {told})", _MEND
                )
        return name

    def _orders(self, ends: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the serial orders that explain calls which ended so.

        An undone or refused call may have left nothing; one without a clean undo stays.
        """
        stays = not self.trial.held and not self.trial.declaration.leaves_nothing
        done = [n for n, end in enumerate(ends) if end == _DONE or (end == _UNDONE and stays)]
        yield from itertools.permutations(done)
        if _UNDONE not in ends:
            yield from itertools.permutations(range(len(ends)))

    def _is_as(self, end: Ends, order: tuple[int, ...]) -> bool:
        one = self._in_order(order, 0)
        if not _same(one[0], end[0]):
            return False
        if one[1] == end[1]:
            return True
        other = self._in_order(order, 1)
        return _same(one[0], other[0]) and fits(common(one[1], other[1]), end[1])

    def _in_order(self, order: tuple[int, ...], number: int) -> Ends:
        """Return the end of a serial order: of the first play, or of a second."""
        played = self.orders.setdefault(order, [])
        while len(played) <= number:
            played.append(self._played(lambda table: table.serial(order)))
        return played[number]

    def _played(self, play: Callable[[_Table], tuple[str, ...]]) -> Ends:
        with self.trial.worlds() as worlds, ExitStack() as stack:
            bench = worlds.fresh()
            if self.partner is not self.trial.example and self.partner.before is not None:
                self.partner.before(bench.place)
            settlement, _ = stack.enter_context(bench.opened())
            ends = play(_Table(bench, settlement, (self.trial.example, self.partner), stack))
            return ends, bench.look()


def _same(order: tuple[str, ...], found: tuple[str, ...]) -> bool:
    """Whether two calls ended as those of an order did: of one that is not done only the world tells."""
    return all(
        (one == _DONE) == (other == _DONE) or _UNDONE in (one, other) for one, other in zip(order, found, strict=True)
    )


@dataclass
class _Table:
    """Two calls, each with an adapter of its own, as in two processes."""

    bench: Bench
    settlement: Settlement
    examples: tuple[Example, Example]
    stack: ExitStack
    adapters: list[Adapter] = field(default_factory=list[Adapter])

    def both(self) -> None:
        """Make both adapters, before either acts."""
        for _ in self.examples:
            self.adapters.append(self._adapter())

    def _adapter(self) -> Adapter:
        return self.stack.enter_context(made(self.bench.subject, self.settlement, self.bench.place))

    def serial(self, order: tuple[int, ...]) -> tuple[str, ...]:
        """Make the calls one after the other, each with a new adapter; one that is left out counts as undone."""
        ends = [_UNDONE, _UNDONE]
        for number in order:
            ends[number] = self.run(number, f"{fresh_name()}-{'ab'[number]}")
        return tuple(ends)

    def run(self, number: int, name: str, inside: Callable[[], object] | None = None) -> str:
        """Make one call in a transaction of its own, and return how it ended."""
        example = self.examples[number]
        tool = tool_of(self.adapters[number] if self.adapters else self._adapter(), example.tool)
        arguments = copy.deepcopy(dict(example.arguments))

        def work(tx: Any) -> None:
            tx.call(tool, **arguments)
            if inside is not None:
                inside()

        async def work_async(tx: Any) -> None:
            await tx.call(tool, **arguments)
            if inside is not None:
                inside()

        try:
            if inspect.iscoroutinefunction(tool):
                asyncio.run(self.settlement.run(name, work_async, on_failure="abort"))
            else:
                self.settlement.run(name, work, on_failure="abort")
        except Stopped:
            return _UNDONE
        except Exception as error:
            return f"failed with {type(error).__name__}"
        return _DONE


def _meet(*, abort: bool) -> Callable[[_Table], tuple[str, ...]]:
    """Return a function that makes the first call, lets the second come to where it waits, and ends the first."""

    def play(table: _Table) -> tuple[str, ...]:
        table.both()
        second = fresh_name()
        rival: list[Future[str]] = []

        def inside() -> None:
            if not rival:  # a transaction that lost a race comes here again
                rival.append(_begun(lambda: table.run(1, second)))
                _until_waiting(table.settlement, second, rival[0])
            if abort:
                raise Stopped

        first = table.run(0, fresh_name(), inside)
        if not rival:
            rival.append(_begun(lambda: table.run(1, second)))
        return first, rival[0].result(WAIT_SECONDS * 3)

    return play


def _race(table: _Table) -> tuple[str, ...]:
    table.both()
    both = threading.Barrier(2)

    def run(number: int) -> str:
        both.wait(WAIT_SECONDS)
        return table.run(number, fresh_name())

    running = [_begun(lambda: run(0)), _begun(lambda: run(1))]
    return tuple(future.result(WAIT_SECONDS * 3) for future in running)


def _begun(work: Callable[[], str]) -> Future[str]:
    future: Future[str] = Future()

    def act() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    # Not an executor: a thread that never returns must not delay the end of the process.
    threading.Thread(target=act, daemon=True).start()
    return future


def _until_waiting(settlement: Settlement, name: str, rival: Future[str]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not rival.done() and time.monotonic() < until:
        if any(waiter == name for waiter, _, _ in settlement.waiting()):
            return
        threading.Event().wait(_PAUSE_SECONDS)


_WAYS: dict[str, Callable[[_Table], tuple[str, ...]]] = {
    "the first commits while the second waits": _meet(abort=False),
    "the first is undone while the second waits": _meet(abort=True),
    "both go on at once": _race,
}

__all__ = ["two_transactions"]
