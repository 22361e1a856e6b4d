"""Whether a stale read mattered: what the agent decides on the value that stood in the end, beside what it decided.

Advisory. It says which firings a policy acts upon (`min_materiality=`), and never which ones the detector reports.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tests.evidence._bench import UNGUARDED, Bench, Operation, Session
from tests.evidence._judge import Judged
from tests.evidence._report import Findings, Share, Table, Told, bars
from tests.evidence._tally import tally

from settlemark import Level

FIRINGS = 200
THRESHOLDS = (0.0, 0.25, 0.65, 0.95, 1.1)
WORDS = ("slow", "flaky", "late", "down", "lost", "leak")
TICKETS = ("login", "billing", "export", "search")
PAPER = {
    ("triager", "p_op"): "75.0 % [68.4, 80.8]",
    ("reviewer", "p_op"): "100 % [91.8, 100]",
    ("engineer", "p_op"): "54.5 % [36.4, 71.9]",
    ("editor", "p_op"): "0 % [0, 3.6]",
}


def priority(_: str, value: str | None) -> str:
    """A triager's decision: one of three, by what the ticket says."""
    return "P2" if value in (None, "slow", "late") else "P1" if value in ("flaky", "down") else "P0"


def review(_: str, value: str | None) -> str:
    """An assessor's: it is about nothing but what was read."""
    return f"review of {value}"


def resolution(task: str, value: str | None) -> str:
    """A consumer's: on half of the tickets it goes by what was read, on the others the ticket tells it all."""
    return f"{task} by {value}" if task in TICKETS[::2] else f"{task} by itself"


def article(task: str, _: str | None) -> str:
    """A producer's: it writes what it was asked for, whatever is there."""
    return f"about {task}"


ROLES: Mapping[str, Callable[[str, str | None], str]] = {
    "triager": priority,
    "reviewer": review,
    "engineer": resolution,
    "editor": article,
}


class Policy:
    """Which operations are undone when what they read is stale: those of roles that it matters for.

    Args:
        known: for each role, how often a stale read changed its decision. Of a role without any, each is taken to.
        min_materiality: from which share on it matters.
    """

    def __init__(self, known: Mapping[str, Share], *, min_materiality: float) -> None:
        self._known = known
        self._from = min_materiality

    def acts_for(self, role: str) -> bool:
        """Whether a stale operation of this role is undone."""
        return role not in self._known or self._known[role].value >= self._from

    def prevented(self, role: str) -> Level | set[str]:
        """What is prevented for operations of a role under this policy."""
        return {"A1"} if self.acts_for(role) else Level.L0


def stale_by(
    role: str, chance: random.Random, policy: Policy | None = None
) -> Callable[[Session], Coroutine[Any, Any, None]]:
    """An agent of this role reads a value, which another changes before what was decided on it has committed."""
    first, then = chance.sample(WORDS, 2) if role == "triager" else (None, chance.choice(WORDS))
    task = chance.choice(TICKETS)

    def other(value: str, moment: float) -> Callable[[Operation], Coroutine[Any, Any, None]]:
        async def body(operation: Operation) -> None:
            await operation.at(moment)
            await operation.put("x", value)

        return body

    async def agent(operation: Operation) -> None:
        seen = await operation.look("x")
        operation.note("decided", role=role, task=task, seen=seen, decision=ROLES[role](task, seen))
        await operation.at(3)
        await operation.put("y", ROLES[role](task, seen))

    async def session(session: Session) -> None:
        prevent = None if policy is None else policy.prevented(role)
        session.told["role"] = role
        if first is not None:
            await session.operate("other", other(first, 0), writes=["x"])
        await session.together(
            session.operate("other", other(then, 2), step=2, writes=["x"]),
            session.operate("agent", agent, writes=["y"], begin=1, prevent=prevent),
        )

    return session


def changes(judged: Judged) -> bool:
    """Whether the last decision in the log would be another one on the value that stands at the end of the log."""
    decided = [line for line in judged.log if line["do"] == "decided"][-1]
    standing = [line["value"] for line in judged.log if line["do"] == "write" and line["cell"].endswith("/x")][-1]
    return ROLES[decided["role"]](decided["task"], standing) != decided["decision"]


BECAUSE = """
Decisions are functions that are evaluated again on the value that stood in the end, where the paper asks its models
again and has a judge for free text. A figure of a role is one of its function: that a reviewer's is 100 % and an
editor's 0 % lies in what they are, the two between lie in the draw.

The paper's triager is a controlled task with values on both sides of a boundary (75 %); the other three read a cell
before it was written, as here.

With min_materiality= at 0 every stale operation is undone. Above a role's share its operations stand: the detector
goes on to report them, and the counterparty's log has them.
"""


def run(runs: int, told: Told) -> Findings:
    """Let each role meet 200 stale reads, or fewer in proportion to `runs` of 1000; then act upon what matters."""
    size = max(20, FIRINGS * runs // 1000)
    known: dict[str, Share] = {}
    rows = []
    for role in ROLES:
        chance = random.Random(13)
        with Bench(UNGUARDED) as bench:
            judged = bench.play([stale_by(role, chance) for _ in range(size)], told)
        fired = [each for each in judged if each.has("A1")]
        known[role] = Share(sum(map(changes, fired)), len(fired))
        rows.append({"role": role, **tally(judged, ("A1",)), "p_op": known[role], "paper": PAPER[role, "p_op"]})
    policies = [_under(known, threshold, size, told) for threshold in THRESHOLDS]
    return Findings(
        "materiality",
        "Materiality: how often a stale read changes what is decided, and a policy that acts upon that alone",
        [
            Table(f"{size} stale reads of each role, unguarded; advisory", rows),
            Table("the policy; what the detector reports is not its business", policies),
        ],
        BECAUSE,
        bars(Table("", rows), ["p_op"]),
    )


def _under(known: Mapping[str, Share], threshold: float, size: int, told: Told) -> dict[str, Any]:
    policy = Policy(known, min_materiality=threshold)
    chance = random.Random(17)
    roles = [role for role in ROLES for _ in range(size)]
    with Bench(UNGUARDED) as bench:
        judged = bench.play([stale_by(role, chance, policy) for role in roles], told)
    return {
        "min_materiality": f"{threshold}",
        **tally(judged, ("A1",)),
        "decisions that would be others": Share(sum(map(changes, judged)), len(judged)),
        "acts for": ", ".join(role for role in ROLES if policy.acts_for(role)) or "nobody",
    }


__all__ = ["run"]
