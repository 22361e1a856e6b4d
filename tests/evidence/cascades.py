"""The A3 twin: a chain of agents, each of which has read what the one before it wrote, and whose root is taken back."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

from tests.evidence._bench import UNGUARDED, Bench, Operation, Session, Strategy
from tests.evidence._report import Findings, Table, Told, bars
from tests.evidence._tally import tally

DEPTHS = (2, 3, 5)
STRATEGIES = (
    UNGUARDED,
    Strategy("A1 alone", {"prevent": {"A1"}}),
    Strategy("early reads", {"prevent": {"A1", "A3"}, "reads": "early"}),
    Strategy("settled reads", {"prevent": {"A1", "A3"}}),
)
END = 100.0
"""The moment at which the root ends: all that can happen before has happened."""


class Retracted(Exception):
    """Whoever had planned it takes it back."""


def chain(depth: int, *, retracts: bool) -> Callable[[Session], Coroutine[Any, Any, None]]:
    """A root, and behind it agents up to this depth."""

    async def session(session: Session) -> None:
        # Which cell was written in which attempt: who begins again waits for the one before it to have begun again.
        written: defaultdict[tuple[int, int], asyncio.Event] = defaultdict(asyncio.Event)

        async def root(operation: Operation) -> None:
            await operation.write("c0", "plan")
            written[0, 1].set()
            await operation.at(END)
            if retracts:
                raise Retracted

        def link(n: int) -> Callable[[Operation], Coroutine[Any, Any, None]]:
            async def body(operation: Operation) -> None:
                await written[n - 1, operation.tx.attempt if n > 1 else 1].wait()
                seen = await operation.look(f"c{n - 1}")
                await operation.write(f"c{n}", f"upon {seen}")
                written[n, operation.tx.attempt].set()

            return body

        async def first() -> None:
            try:
                await session.operate("root", root, writes=[] if retracts else ["c0"])
            except Retracted:
                session.told["retracted"] = True

        links = [session.operate(f"agent{n}", link(n), writes=[f"c{n}"]) for n in range(1, depth)]
        await session.together(first(), *links)

    return session


BECAUSE = """
The paper commits the root and then takes it back. Here what has committed is final, so the root is taken back while
it is open, which is when others can have seen it.

An agent of early reads that is undone begins again at once, on what is there then, so a cascade is a delay and no
loss: every chain is complete. With settled reads nobody sees the root's work before it has ended: there is nothing to
cascade, and the price is the wait.

By a coin the unguarded share is that of the roots which were taken back: forcing all of them, as the paper does,
measures the detector and not a risk.
"""


def run(runs: int, told: Told) -> Findings:
    """Play so many chains of each depth, with the root taken back in all of them, and by the toss of a coin."""
    rows = []
    for forced in (True, False):
        for depth in DEPTHS:
            for strategy in STRATEGIES:
                chance = random.Random(depth)
                tosses = [forced or chance.random() < 0.5 for _ in range(runs)]
                with Bench(strategy) as bench:
                    judged = bench.play([chain(depth, retracts=retracts) for retracts in tosses], told)
                rows.append(
                    {
                        "root taken back": "always" if forced else "by a coin",
                        "depth": str(depth),
                        "strategy": strategy.name,
                        "retracted": sum("retracted" in each.told for each in judged),
                        **tally(judged, ("A3", "A3x")),
                    }
                )
    table = Table(
        f"{runs} chains each; the paper has 1000/1000 unguarded, 0/1000 guarded, and 1000, 2000 and 4000 cascades", rows
    )
    return Findings(
        "cascades",
        "A3 twin: what is built on work that is taken back",
        [table],
        BECAUSE,
        bars(table, ["A3"]),
    )


__all__ = ["run"]
