"""The A2 twin: an agent plans a call, and the registry of tools changes before the call settles."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from tests.evidence._bench import UNGUARDED, Bench, Operation, Session, Strategy
from tests.evidence._report import Findings, Share, Table, Told, bars
from tests.evidence._tally import tally
from tests.evidence._tools import who

from settlemark import Revoked

WIDTHS = (2, 4, 8, 16)
STRATEGIES = (
    UNGUARDED,
    Strategy("checked", {"prevent": {"A2"}}),
    Strategy("pinned", {"prevent": {"A2"}, "tools": "pinned"}),
)
SCOPE = "cell:/{cell:path}"
Churn = Literal["revoked", "changed"]


def churned(width: int, planned: int, struck: int, how: Churn) -> Callable[[Session], Coroutine[Any, Any, None]]:
    """So many tools, of which the agent plans to call one, and one is revoked or changed before that settles."""

    async def session(session: Session) -> None:
        cells, settlement = session.bench.cells, session.bench.settlement
        names = [f"tool{n}_{session.name}" for n in range(width)]

        def tool(name: str, version: str) -> Any:
            async def act(cell: str) -> None:
                cells.write(cell, version, who(), tool=name, version=version)

            act.__name__ = name
            settlement.declare(name, "staged", scope=SCOPE, version=version)
            return act

        tools = [tool(name, "1") for name in names]

        async def body(operation: Operation) -> None:
            chosen = planned
            while True:
                try:
                    await operation.tx.call(tools[chosen], cell=session.cell("room"))
                    break
                except Revoked:
                    chosen = (chosen + 1) % width
            await operation.at(2)

        async def operator() -> None:
            await session.at(1)
            name = names[struck]
            if how == "revoked":
                settlement.revoke(name)
                cells.note("gone", session.known("operator"), tool=name, version="1")
            else:
                tools[struck] = tool(name, "2")
                cells.note("changed", session.known("operator"), tool=name, version="1")

        await session.together(session.operate("ada", body, writes=["room"]), operator())

    return session


BECAUSE = """
In the paper the planned tool always churns. Struck at random, one of w tools meets the plan in 1/w of the sessions.

A pinned call of a tool that was changed acts as it was planned, and the snapshot is what its record says was there:
no A2 by definition, while the counterparty's log shows the older version acting after the change. That is the one row
in which log and history differ. Pinning does not outlive revocation.
"""


def run(runs: int, told: Told) -> Findings:
    """Play so many plans in registries of each width: the planned tool is struck always, or any one of them."""
    rows = []
    for how in ("revoked", "changed"):
        for forced in (True, False):
            for width in WIDTHS:
                for strategy in STRATEGIES:
                    chance = random.Random(width)
                    drawn = [(chance.randrange(width), chance.randrange(width)) for _ in range(runs)]
                    with Bench(strategy) as bench:
                        judged = bench.play(
                            [churned(width, plan, plan if forced else struck, how) for plan, struck in drawn], told
                        )
                    acted = sum(
                        any(
                            line.get("tool") == f"tool{plan}_{each.name}" and line["version"] == "1"
                            for line in each.log
                            if line["do"] == "write"
                        )
                        for each, (plan, _) in zip(judged, drawn, strict=True)
                    )
                    rows.append({
                        "tool": how, "struck": "the planned one" if forced else "any", "width": str(width),
                        "strategy": strategy.name, **tally(judged, ("A2",)), "as planned": Share(acted, runs),
                    })  # fmt: skip # a table
    table = Table(f"{runs} plans each; the paper has 1000/1000 unguarded and 0/1000 guarded", rows)
    return Findings(
        "churn",
        "A2 twin: a tool that is revoked or changed behind the plan that counts on it",
        [table],
        BECAUSE,
        bars(table, ["A2"]),
    )


__all__ = ["run"]
