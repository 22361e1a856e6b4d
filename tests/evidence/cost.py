"""What prevention costs: words that a model has to make again, against the share of attempts that are aborted."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from scipy.stats import linregress, t
from tests.evidence._bench import UNGUARDED, Bench, Operation, Session, Strategy
from tests.evidence._judge import Judged
from tests.evidence._report import Findings, Table, Told
from tests.evidence._tally import tally

SERIALIZABLE = Strategy("serializable", {"prevent": {"A1"}})
AT_ONCE = Strategy("serializable, at once", SERIALIZABLE.options, at_once=True)
LOCKING = Strategy("pessimistic, wait", UNGUARDED.options, locks="wait")
SESSIONS = 12
OPERATIONS = 3
GRID = [(fan_in, 1) for fan_in in (2, 4, 8, 16)] + [(8, cells) for cells in (2, 4, 8, 16, 32)]
"""How many agents on how many cells: the paper's two ways to vary contention."""
Point = tuple[int, float, float]
"""A session: on how many cells, aborted attempts an operation, words over unguarded."""
TASK, ANSWER = 60, 80
"""Words of a task, and about as many of an answer."""


def contended(chance: random.Random, fan_in: int, cells: int) -> Callable[[Session], Coroutine[Any, Any, None]]:
    """Agents each do a few operations: read one of the cells, have a model think, write it."""
    plans = [
        [
            (f"c{chance.randrange(cells)}", chance.uniform(0.5, 1.5), chance.randint(ANSWER // 2, ANSWER * 3 // 2))
            for _ in range(OPERATIONS)
        ]
        for _ in range(fan_in)
    ]

    async def session(session: Session) -> None:
        async def agent(number: int) -> None:
            moment = chance.uniform(0, 1)
            for step, (cell, thinks, words) in enumerate(plans[number], 1):

                async def body(
                    operation: Operation, cell: str = cell, thinks: float = thinks, words: int = words
                ) -> None:
                    begun = operation.session.now()
                    seen = await operation.look(cell)
                    prompt = " ".join(["word"] * TASK + ["changed"] * (8 if operation.tx.attempt > 1 else 0))
                    answer = " ".join(["word"] * words)
                    operation.note("model", prompt=len(prompt.split()), answer=len(answer.split()))
                    await operation.at(begun + thinks)
                    await operation.put(cell, f"{operation.tx.name} upon {str(seen)[:8]}")

                await session.operate(f"agent{number}", body, step=step, reads=[cell], writes=[cell], begin=moment)
                moment = 0

        await session.together(*(agent(n) for n in range(fan_in)))

    return session


def words_of(judged: Judged) -> int:
    """How many words the model was given and made, by the counterparty's log."""
    return sum(line["prompt"] + line["answer"] for line in _generations(judged))


def _generations(judged: Judged) -> list[dict[str, Any]]:
    return [line for line in judged.log if line["do"] == "model"]


BECAUSE = """
Both figures are counted: attempts by the scripts, words by the counterparty to which each generation was told. A
retry's prompt says what has changed, so it is a little longer, and the slope lies above 100 %.

The paper's slope is 108 % [104, 112] over 0.09 to 0.93 aborts an operation, on a model's tokens. Prompts and answers
are others here, the line is the same: one generation for each abort, nothing without any.

An agent that lost a race stands in line behind those before it, so that each loses one at most or little more, however
many they are: aborts an operation stay below the paper's, and what scatters about the line is how long the answers
happened to be that were made again. Told to begin at once (`wait_for="nobody"`) it loses again to every commit of an
older one before its own: on one cell aborts grow with the agents, far beyond 1. The paper's operations are tried twice
at most. Where one generation is too dear, lock first: see the last row of each four.

Who waits for a lock makes no word again. What that costs is time, and a session's time here is virtual.
"""


def run(runs: int, told: Told) -> Findings:
    """Play 12 sessions of each kind of contention, or fewer in proportion to `runs` of 1000, and pair them by draws."""
    size = max(2, SESSIONS * runs // 1000)
    rows: list[dict[str, Any]] = []
    points: dict[str, list[Point]] = {SERIALIZABLE.name: [], AT_ONCE.name: []}
    for fan_in, cells in GRID:
        played: dict[str, list[Judged]] = {}
        for strategy in (UNGUARDED, SERIALIZABLE, AT_ONCE, LOCKING):
            chance = random.Random(fan_in * 100 + cells)
            with Bench(strategy) as bench:
                played[strategy.name] = bench.play([contended(chance, fan_in, cells) for _ in range(size)], told)
        free = played[UNGUARDED.name]
        operations = fan_in * OPERATIONS
        for name, those in points.items():
            those += [
                (cells, (each.tries - operations) / operations, words_of(each) / words_of(base) - 1)
                for base, each in zip(free, played[name], strict=True)
            ]
        rows += [
            {
                "agents": str(fan_in),
                "cells": str(cells),
                "strategy": name,
                **tally(judged, ("A1",)),
                "aborted attempts an operation": (sum(j.tries for j in judged) / size - operations) / operations,
                "generations an attempt": sum(len(_generations(j)) for j in judged) / sum(j.tries for j in judged),
                "words over unguarded": sum(map(words_of, judged)) / sum(map(words_of, free)) - 1,
            }
            for name, judged in played.items()
        ]
    return Findings(
        "cost",
        "Words made again against aborted attempts, under the guard against A1",
        [Table(f"{size} sessions each, paired by their draws", rows), _fitted(points)],
        BECAUSE,
        lambda axes: _draw(axes, [point for those in points.values() for point in those]),
    )


def _fitted(points: Mapping[str, list[Point]]) -> Table:
    rows: list[dict[str, Any]] = []
    for name, those in points.items():
        rates, line = [rate for _, rate, _ in those], _line(those)
        wide = float(t.ppf(0.975, len(those) - 2))
        rows.append({
            "strategy": name, "sessions": str(len(those)), "intercept": float(line.intercept),
            "± intercept": wide * float(line.intercept_stderr), "slope": float(line.slope),
            "± slope": wide * float(line.stderr), "r²": float(line.rvalue) ** 2,
            "abort rates": f"{min(rates):.2f} to {max(rates):.2f}",
        })  # fmt: skip # a table
    return Table("fitted lines; the paper has +0.1 % [-2, 2] and 108 % [104, 112]", rows)


def _line(points: list[Point]) -> Any:
    return linregress([rate for _, rate, _ in points], [overhead for _, _, overhead in points])


def _draw(axes: Any, points: list[Point]) -> None:
    for cells in dict.fromkeys(cells for cells, _, _ in points):
        those = [(rate, overhead) for each, rate, overhead in points if each == cells]
        label = f"{cells} cells" if cells > 1 else "one cell"
        axes.plot(*zip(*those, strict=True), "o", label=label, markersize=4)
    line, far = _line(points), max(rate for _, rate, _ in points)
    axes.plot([0, far], [line.intercept, line.intercept + line.slope * far], "k-", linewidth=1, label="fitted")
    axes.set_xlabel("aborted attempts an operation")
    axes.set_ylabel("words over unguarded")
    axes.legend(fontsize=8)


__all__ = ["run"]
