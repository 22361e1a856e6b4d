"""One engine under one strategy, with its agents in virtual time, and a counterparty that logs what reached it."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from tests.evidence._cells import shared_cells
from tests.evidence._clock import play
from tests.evidence._judge import Judged, judge
from tests.evidence._tools import tools_of

from settlemark import Injected, Level, Payloads, Settlement, WaitTimeout
from settlemark.history import read

TRIES = 10**6  # nobody gives up because others were faster
DAY = 86_400.0  # of virtual time: who waits for so long waits for good


@dataclass(frozen=True)
class Strategy:
    """What an engine is told, and what its agents do beside that.

    Attributes:
        options: keywords of `Settlement`.
        locks: agents lock what they read before they read it, and wait for a lock, or drop the operation.
        bypass: operations that write nothing are not validated: snapshot isolation.
        one_by_one: a call is issued when the one before it has returned.
        by_value: before it commits, an agent compares what it has read with what is there.
        at_once: who lost a race stands in no line.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    locks: Literal["wait", "drop"] | None = None
    bypass: bool = False
    one_by_one: bool = False
    by_value: bool = False
    at_once: bool = False


UNGUARDED = Strategy("vanilla", {"prevent": Level.L0})


class Bench:
    """An engine, its counterparty, and the sessions that are played on both."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self._folder = tempfile.TemporaryDirectory(prefix="settlemark-evidence-")
        self.history = Path(self._folder.name) / "history.jsonl"
        self.cells = shared_cells()
        self.cells.clear()
        self.settlement = Settlement(
            "memory:",
            history=self.history,
            payloads=Payloads(retain=10**7),
            wait=DAY,
            injected=Injected(monotonic=_virtual_seconds),
            **strategy.options,
        )
        self.tools = tools_of(self.cells)
        self.sessions: list[Session] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.settlement.close()
        self._folder.cleanup()

    def play(
        self, sessions: Iterable[Callable[[Session], Coroutine[Any, Any, None]]], told: Callable[[], object]
    ) -> list[Judged]:
        """Play sessions one after the other, and judge each by the engine's history and by the counterparty's log."""

        async def all_of_them() -> None:
            for number, story in enumerate(sessions, len(self.sessions)):
                session = Session(self, f"s{number}", asyncio.get_running_loop().time())
                self.sessions.append(session)
                await story(session)
                told()

        play(all_of_them())
        self.settlement.close()  # the history is whole
        return judge(self.sessions, read(self.history), self.cells.log(), self.settlement.transactions())


@dataclass
class Session:
    """What agents do together, from one moment on: cells and names are the session's own."""

    bench: Bench
    name: str
    start: float
    expected: set[tuple[str, str]] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    tries: Counter[str] = field(default_factory=Counter)
    told: dict[str, Any] = field(default_factory=dict)

    async def at(self, moment: float) -> None:
        """Wait for a moment of the session; one that is past is now."""
        await asyncio.sleep(max(0.0, self.start + moment - asyncio.get_running_loop().time()))

    def now(self) -> float:
        """The session's moment."""
        return asyncio.get_running_loop().time() - self.start

    def cell(self, name: str) -> str:
        """The session's own cell of that name."""
        return f"{self.name}/{name}"

    def known(self, agent: str) -> str:
        """An agent's name: the run of what it does."""
        return f"{self.name}.{agent}"

    async def operate(
        self,
        agent: str,
        body: Callable[[Operation], Coroutine[Any, Any, None]],
        *,
        step: int = 1,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        begin: float = 0,
        only_reads: bool = False,
        before_commit: Any = (),
        prevent: Level | Iterable[str] | None = None,
    ) -> None:
        """Let an agent do one operation at its moment: again when it lost a race, not at all when it is dropped.

        Args:
            agent: who.
            body: does it.
            step: which of the agent's operations.
            reads: the cells to lock, under a strategy that locks.
            writes: the cells that have to hold a write of it in the end.
            begin: when.
            only_reads: it writes nothing: under snapshot isolation nobody validates it.
            before_commit: as for `Settlement.run`.
            prevent: what is prevented for this operation, where it is not what the strategy says.
        """
        bench, name = self.bench, f"{self.known(agent)}/{step}"
        reads, writes = list(reads), list(writes)
        self.expected |= {(name, self.cell(cell)) for cell in writes}
        await self.at(begin)

        async def whole(tx: Any) -> None:
            self.tries[name] += 1
            operation = Operation(self, tx)
            for cell in reads if bench.strategy.locks else ():
                await tx.call(bench.tools.lock, cell=self.cell(cell))
            await body(operation)

        if prevent is None and only_reads and bench.strategy.bypass:
            prevent = Level.L0
        try:
            wait = 0 if bench.strategy.locks == "drop" else None
            await bench.settlement.run(
                name,
                whole,
                wait=wait,
                before_commit=before_commit,
                prevent=prevent,
                tries=TRIES,
                wait_for="nobody" if bench.strategy.at_once else "scopes",
            )
        except WaitTimeout:
            self.dropped.add(name)

    async def together(self, *operations: Coroutine[Any, Any, None]) -> None:
        """Let agents act beside each other, to their ends."""
        await asyncio.gather(*operations)


@dataclass
class Operation:
    """One attempt of an agent's operation: what its script uses."""

    session: Session
    tx: Any

    async def at(self, moment: float) -> None:
        """See `Session.at`."""
        await self.session.at(moment)

    async def look(self, cell: str) -> Any:
        """Read a cell."""
        return await self.tx.call(self.session.bench.tools.look, cell=self.session.cell(cell))

    async def put(self, cell: str, value: Any) -> None:
        """Write a cell when the operation commits."""
        await self.tx.call(self.session.bench.tools.put, cell=self.session.cell(cell), value=value)

    async def write(self, cell: str, value: Any) -> None:
        """Write a cell at once; an abort takes it back."""
        await self.tx.call(self.session.bench.tools.write, cell=self.session.cell(cell), value=value)

    async def send(self, to: str, text: str) -> None:
        """Send a message that cannot be called back."""
        await self.tx.call(self.session.bench.tools.send, to=self.session.cell(to), text=text)

    def note(self, what: str, **more: Any) -> None:
        """Have the counterparty log what is no effect of a tool's, as a hand-over to another agent."""
        self.session.bench.cells.note(what, f"{self.tx.name}#{self.tx.attempt}", **more)

    async def turn(self, latencies: Mapping[str, float]) -> None:
        """Issue a write to each cell, in this order, each of which takes its time."""
        with self.tx.turn() as turn:
            calls = [
                turn.plan(self.session.bench.tools.write, cell=self.session.cell(cell), value=n, latency=late, place=n)
                for n, (cell, late) in enumerate(latencies.items())
            ]
            if self.session.bench.strategy.one_by_one:
                for call in calls:
                    await call.arun()
            else:
                await asyncio.gather(*(call.arun() for call in calls))


def _virtual_seconds() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:  # beginning and end are outside of time
        return 0.0


__all__ = ["DAY", "UNGUARDED", "Bench", "Operation", "Session", "Strategy"]
