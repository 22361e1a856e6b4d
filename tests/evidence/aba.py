"""A value that was changed and came back: who compares values takes it for unchanged."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

from tests.evidence._bench import UNGUARDED, Bench, Operation, Session, Strategy
from tests.evidence._report import Findings, Share, Table, Told, bars
from tests.evidence._tally import tally

from settlemark import Vetoed

SCHEDULES = 300
STRATEGIES = (
    UNGUARDED,
    Strategy("by value", UNGUARDED.options, by_value=True),
    Strategy("by version", {"prevent": {"A1"}}),
)


def schedule(moments: tuple[int, int, int, int], places: list[int]) -> Callable[[Session], Coroutine[Any, Any, None]]:
    """A reader reads and commits, one writes another value, one writes the first again: each at its moment.

    All have begun before that, in the order of their places.
    """
    reads, commits, there, back = moments

    def write(value: str, moment: float) -> Callable[[Operation], Coroutine[Any, Any, None]]:
        async def body(operation: Operation) -> None:
            await operation.at(moment)
            await operation.put("x", value)

        return body

    async def session(session: Session) -> None:
        cells, by_value = session.bench.cells, session.bench.strategy.by_value
        seen: dict[str, Any] = {}

        async def reader(operation: Operation) -> None:
            await operation.at(reads)
            seen["x"] = await operation.look("x")
            await operation.at(commits)
            await operation.put("y", f"upon {seen['x']}")

        async def unchanged(footprint: Any) -> bool:
            return cells.read(session.cell("x"), session.known("validator")) == seen["x"]

        async def reads_and_writes() -> None:
            # A veto ends an operation; whoever validates by hand begins the next one by hand.
            step, left = 1, True
            while left:
                options: dict[str, Any] = {"before_commit": unchanged} if by_value else {}
                try:
                    await session.operate("reader", reader, step=step, writes=["y"], begin=places[0], **options)
                    left = False
                except Vetoed:
                    session.expected.discard((f"{session.known('reader')}/{step}", session.cell("y")))
                    session.told["vetoes"] = step
                    step += 1

        await session.operate("setup", write("v0", 0), writes=["x"])
        await session.together(
            reads_and_writes(),
            session.operate("cyd", write("v1", there), writes=["x"], begin=places[1]),
            session.operate("dan", write("v0", back), writes=["x"], begin=places[2]),
        )

    return session


BECAUSE = """
A value that went and came back was stale meanwhile, so it counts (the definition asks for any write between).
Comparing values lets exactly these pass: 20 of 300 schedules in a published check, whose schedules have more steps;
of the six ways to interleave two steps with two writes it is one.
"""


def run(runs: int, told: Told) -> Findings:
    """Play 300 schedules that are drawn at random, or fewer in proportion to `runs` of 1000."""
    size = max(30, SCHEDULES * runs // 1000)
    chance = random.Random(3)
    drawn = []
    for _ in range(size):
        one, two = (sorted(pair) for pair in _halves(chance.sample(range(3, 7), 4)))
        drawn.append(((*one, *two), chance.sample(range(3), 3)))
    between = [sum(reads < moment < commits for moment in late) for (reads, commits, *late), _ in drawn]
    rows = []
    for strategy in STRATEGIES:
        with Bench(strategy) as bench:
            judged = bench.play([schedule(*each) for each in drawn], told)
        admitted = sum(each.has("A1") for each, count in zip(judged, between, strict=True) if count == 2)
        rows.append(
            {
                "validation": strategy.name,
                **tally(judged, ("A1",)),
                "changed and back": Share(admitted, between.count(2)),
                "changed": Share(
                    sum(each.has("A1") for each, count in zip(judged, between, strict=True) if count == 1),
                    between.count(1),
                ),
                "vetoes": sum(each.told.get("vetoes", 0) for each in judged),
            }
        )
    table = Table(f"{size} schedules drawn at random", rows)
    return Findings(
        "aba",
        "ABA: validation by value and by version",
        [table],
        BECAUSE,
        bars(table, ["A1", "changed and back", "changed"]),
    )


def _halves(four: list[int]) -> tuple[list[int], list[int]]:
    return four[:2], four[2:]


__all__ = ["run"]
