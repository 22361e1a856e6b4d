"""Snapshot isolation does not validate who writes nothing: the read-only bypass."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tests.evidence._bench import Bench, Operation, Session
from tests.evidence._report import Findings, Table, Told, bars
from tests.evidence._strategies import STRATEGIES
from tests.evidence._tally import tally

SESSIONS = 300


def handed_over(*, writes: bool, older: bool) -> Callable[[Session], Coroutine[Any, Any, None]]:
    """The reporter writes the ticket again while the triager, who has read it, decides what others will act upon."""

    async def triager(operation: Operation) -> None:
        seen = await operation.look("ticket")
        await operation.at(3)
        if writes:
            await operation.put("priority", f"of {seen}")
        else:
            operation.note("handed over", ticket=seen)

    def reporter(text: str) -> Callable[[Operation], Coroutine[Any, Any, None]]:
        async def body(operation: Operation) -> None:
            if text == "down":
                await operation.at(2)
            await operation.put("ticket", text)

        return body

    async def session(session: Session) -> None:
        await session.operate("reporter", reporter("slow"), writes=["ticket"])
        await session.together(
            session.operate("reporter", reporter("down"), step=2, writes=["ticket"], begin=0 if older else 2),
            session.operate(
                "triager",
                triager,
                reads=["ticket"],
                writes=["priority"] if writes else [],
                only_reads=not writes,
                begin=1,
            ),
        )

    return session


BECAUSE = """
Snapshot is the engine's own: the operations that write have the guard against A1, those that only read have none, as
in the paper's runtime; each transaction of an engine has guards of its own.

A writer that began after the reader waits for it, whoever validates what: places in the order are held by reads too.
So the bypass needs a writer that began before, which a runtime without such places does not ask for.

The paper met this in 3 of 100 sessions of a model; here it is the schedule, in all of them.
"""


def run(runs: int, told: Told) -> Findings:
    """Play 300 sessions of each kind, or fewer in proportion to `runs` of 1000."""
    size = max(10, SESSIONS * runs // 1000)
    rows = []
    for writes, older in ((False, True), (False, False), (True, True)):
        for strategy in STRATEGIES:
            if strategy.name not in ("vanilla", "snapshot", "serializable", "all guards"):
                continue
            with Bench(strategy) as bench:
                judged = bench.play([handed_over(writes=writes, older=older)] * size, told)
            rows.append(
                {
                    "triager": "writes" if writes else "only reads",
                    "reporter began": "before" if older else "after",
                    "strategy": strategy.name,
                    **tally(judged, ("A1",)),
                }
            )
    table = Table(f"{size} sessions each", rows)
    return Findings(
        "bypass",
        "Read-only bypass: what is decided on a read that nobody validates",
        [table],
        BECAUSE,
        bars(table, ["A1"]),
    )


__all__ = ["run"]
