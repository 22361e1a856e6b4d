"""A supervisor takes plans back while others act upon them: what that does to them, and what it costs."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tests.evidence._bench import UNGUARDED, Bench, Operation, Session, Strategy
from tests.evidence._judge import Judged
from tests.evidence._report import Findings, Share, Table, Told, bars
from tests.evidence._tally import tally

SESSIONS = 200
RETRACTED = (0, 31, 89)
"""How many plans of 200 the paper's three supervisors took back."""
STRATEGIES = (
    UNGUARDED,
    Strategy("early reads", {"prevent": {"A1", "A3"}, "reads": "early"}),
    Strategy("settled reads", {"prevent": {"A1", "A3"}}),
)
ALL = Strategy("all guards")


class Retracted(Exception):
    """The supervisor does not want this plan."""


class NoPlan(Exception):
    """There is none, for now."""


def supervised(*, retracts: bool) -> Callable[[Session], Coroutine[Any, Any, None]]:
    """A planner writes a plan; an executor acts upon it and mails it; then the supervisor says whether it stands."""

    async def session(session: Session) -> None:
        def planner(version: int) -> Callable[[Operation], Coroutine[Any, Any, None]]:
            async def body(operation: Operation) -> None:
                await operation.write("plan", version)
                await operation.at(2 * version)  # the supervisor thinks
                if retracts and version == 1:
                    session.told["retracted"] = True
                    raise Retracted

            return body

        async def plans() -> None:
            try:
                await session.operate("planner", planner(1), writes=[] if retracts else ["plan"])
            except Retracted:
                await session.operate("planner", planner(2), step=2, writes=["plan"])

        async def executor(operation: Operation) -> None:
            plan = await operation.look("plan")
            if plan is None:
                raise NoPlan
            await operation.write("result", f"of plan {plan}")
            await operation.send("customer", f"plan {plan}")

        async def executes() -> None:
            step, begin = 1, 1.0
            while "ended" not in session.told:
                try:
                    await session.operate("executor", executor, step=step, writes=["result"], begin=begin)
                    session.told["ended"] = session.now()
                except NoPlan:  # it asks again, a moment later
                    session.expected.discard((f"{session.known('executor')}/{step}", session.cell("result")))
                    step, begin = step + 1, session.now() + 1

        await session.together(plans(), executes())

    return session


async def rewound(session: Session, *, both: bool) -> None:
    """The plan and what was made of it have committed when the supervisor goes back over it."""

    async def plans(operation: Operation) -> None:
        await operation.write("plan", 1)

    async def executes(operation: Operation) -> None:
        plan = await operation.look("plan")
        await operation.write("result", f"of plan {plan}")
        await operation.send("customer", f"plan {plan}")

    await session.operate("planner", plans)
    await session.operate("executor", executes)
    names = [f"{session.known(agent)}/1" for agent in ("planner", "executor")[: 1 + both]]
    done = await session.bench.settlement.arewind(names, by="supervisor", dry_run=False)
    session.told["undone"], session.told["stays"] = len(done.undo), len(done.residue)


BECAUSE = """
Which plans a supervisor takes back is the paper's count of its models' verdicts (0, 31 and 89 of 200): the rate is an
input. Unguarded, every one leaves an executor that acted upon it, in the paper as here.

The paper's executors of retracted plans are gone (80 % liveness over the three). Here they begin again on the revised
plan: the share that ended at its first attempt is that 80 %, and all end. With early reads the price is the work done
twice; with settled reads it is waiting, also where nothing is taken back.

Mail about a plan that was taken back left unguarded in all of them, and never under a guard: nothing that is held
leaves before everything has settled that it was grounded on.

What has committed is final for the engine: going back over a plan that has committed undoes what is named, tells what
cannot be undone, and what others made of it stays until they are named, too: that is A3 once more, in the history and
in the log, and named by an operator rather than prevented.
"""


def run(runs: int, told: Told) -> Findings:
    """Play 200 sessions for each of the paper's supervisors, or fewer in proportion to `runs` of 1000."""
    size = max(10, SESSIONS * runs // 1000)
    tables = [_while_open(size, told), _when_over(size, told)]
    return Findings(
        "supervision",
        "Supervised retraction: A3, and the price of its prevention",
        tables,
        BECAUSE,
        bars(tables[0], ["A3", "first attempt", "mailed in vain"]),
    )


def _while_open(size: int, told: Told) -> Table:
    rows = []
    for count in RETRACTED:
        verdicts = [n < round(count * size / SESSIONS) for n in range(size)]
        random.Random(5).shuffle(verdicts)
        for strategy in STRATEGIES:
            with Bench(strategy) as bench:
                judged = bench.play([supervised(retracts=verdict) for verdict in verdicts], told)
            rows.append(
                {
                    "taken back": str(sum(verdicts)),
                    "strategy": strategy.name,
                    **tally(judged, ("A3", "A3x")),
                    "first attempt": Share(sum(map(_at_first, judged)), size),
                    "mailed in vain": Share(sum(map(_mailed_in_vain, judged)), size),
                    "executors ended at": sum(each.told["ended"] for each in judged) / size,
                }
            )
    return Table(f"{size} sessions each, the plan taken back while it is open; moments are virtual", rows)


def _when_over(size: int, told: Told) -> Table:
    rows = []
    for both in (False, True):

        async def story(session: Session, both: bool = both) -> None:
            await rewound(session, both=both)

        with Bench(ALL) as bench:
            judged = bench.play([story] * size, told)
        rows.append(
            {
                "gone back over": "the plan and its execution" if both else "the plan",
                "A3": tally(judged, ("A3",))["A3"],
                "A3 in the log": Share(sum("A3" in each.logged and not _gone(each) for each in judged), size),
                "undone": sum(each.told["undone"] for each in judged),
                "told to stay": sum(each.told["stays"] for each in judged),
            }
        )
    return Table(f"{size} sessions each, the plan taken back when all has committed, with `Settlement.rewind`", rows)


def _at_first(judged: Judged) -> bool:
    """Whether what the executor made at its first attempt stands, upon a plan that stands."""
    last = _lines(judged, "executor", "write")[-1]
    return last["by"].endswith("/1#1") and "A3" not in judged.logged


def _gone(judged: Judged) -> bool:
    return bool(_lines(judged, "executor", "undo"))


def _mailed_in_vain(judged: Judged) -> bool:
    return "retracted" in judged.told and any(line["text"] == "plan 1" for line in _lines(judged, "executor", "send"))


def _lines(judged: Judged, agent: str, what: str) -> Sequence[dict[str, Any]]:
    return [line for line in judged.log if line["do"] == what and f".{agent}/" in line["by"]]


__all__ = ["run"]
