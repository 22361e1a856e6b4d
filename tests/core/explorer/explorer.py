"""Every interleaving of small transaction programs, run by the real protocol, driver and ledger.

A program is a string of operations: `r` read, `e` reversible, `o` opaque, `s` staged, `i`
irreversible, `u` a reversible whose answer is lost, `j` an irreversible that is refused for good,
`b` a reversible that fails the first time, `l` a live read, `v` a read that is valid for a second,
`n` a reversible inside of which an independent transaction runs, `a` a reversible and `c` a staged that commute
with each other, `m` a reversible that commutes with its like; each on `x`, `y`, their parent `p`,
a wildcard `w` that overlaps x, or `z`; `f` fails. `"rx sx"` reads x and stages a write to it.

At its end a program may wait for a person: `k` parks it whole, `g` splits it at its gates, and the
answer is yes (`K`, `G`: no). `|` stands between the branches of a choice: `"ex | ey"`. `/` stands between
the plans of one that is put aside, at its end or cut off before any of its operations, and come back to:
`"ex sy / ex"` is asked for a write less by the second.

The explorer replays schedules on fresh engines and prunes by what `freeze` calls equal, so it needs
no copy of a running generator. What it checks is judged from the world's own log, not the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.core.explorer.interleaving import Run
from tests.core.explorer.judgement import judge
from tests.core.explorer.plan import POINT, Plan, Programs, Store, ViolatedError, parse
from tests.rooms.acts import Verdict
from tests.rooms.attempt import OnFailure
from tests.rooms.model import ALL_ON, Guards
from tests.rooms.runtime import PARTS, Parts

from settlemark.hosting import Protocol


@dataclass(slots=True)
class Exploration:
    """What exploring one set of programs found.

    Attributes:
        states: how many different states were reached.
        finals: how many of them were ends.
        violations: for each kind, the schedule (which task moved) that shows it.
        attempts: the most attempts any transaction needed.
        anomalies: which of the four the history of an end had.
        ends: what became of every task (committed in which attempt, failed, gave up), who committed in
            which order, what the cells hold, and what commuting effects have added to them.
    """

    states: int = 0
    finals: int = 0
    gave_up: int = 0
    attempts: int = 0
    anomalies: set[str] = field(default_factory=set[str])
    violations: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    ends: set[tuple[Any, ...]] = field(default_factory=set[tuple[Any, ...]])


def explore(  # noqa: PLR0913 - each is one more thing that may happen at any moment
    *programs: str | tuple[str, ...],
    protocol: Callable[[], Protocol] = Protocol,
    parts: Parts = PARTS,
    declared: Iterable[int] = (),
    loops: dict[int, int] | None = None,
    tries: int = 2,
    siblings: dict[int, str] | None = None,
    on_failure: OnFailure = "abort",
    durable: bool = False,
    cancelled: Iterable[int] = (),
    halted: Iterable[int] = (),
    stopped: Iterable[int] = (),
    aborted: Iterable[int] = (),
    inside: dict[int, str] | None = None,
    holds: dict[str, tuple[int, ...]] | None = None,
    outside: str = "",
    advanced: str = "",
    verdict: Verdict = "retry",
    chosen: int = 0,
    guards: Guards = ALL_ON,
    turns: dict[int, str] | None = None,
    revoked: str = "",
    queues: bool = True,
    budget: int | None = None,
    limit: int = 200_000,
    first_violation: bool = False,
    store: Store | None = None,
    shuffled: int | None = None,
) -> Exploration:
    """Explore every interleaving of these programs and judge every end.

    Args:
        programs: one text (or tuple of operations) a transaction, in the order in which they begin.
        protocol: makes the protocol under test, or a mutant of it.
        parts: the services of the driver under test, or a mutant among them.
        declared: the numbers of those that declare their footprint when they begin.
        loops: how often a transaction begins anew after its end, by number.
        tries: attempts before a transaction gives up.
        siblings: operations that a second thread of a transaction does at any time, by number.
        on_failure: what a failed call does.
        durable: let others move between each write to the ledger and its answer, and between each
            act and its return.
        cancelled: the numbers of those whose run somebody cancels at any time.
        halted: the numbers of those whose run somebody halts at any time, and resumes later.
        stopped: the numbers of those whose agent somebody halts at any time, and resumes later.
        aborted: the numbers of those that somebody else aborts at any time.
        inside: the program of the independent transaction inside the `n` of another, by number.
        holds: for a scope, the numbers of those that work under a hold on it.
        outside: scopes whose tag changes, and `t` for a second that passes, each at any time.
        advanced: scopes that somebody advances, at any time, past every position given by then.
        verdict: what is said, with `on_failure="ask"`.
        chosen: which branch of a choice is wanted; the next one that did not fail is taken.
        guards: what keeps the transactions from each other.
        turns: operations that a second thread of a transaction does at any time, by number; with its own they are one
            turn, issued behind them.
        revoked: operations whose tool is revoked at any time.
        queues: whether they stand in line where a race was lost, as `Settlement.run` has it.
        budget: how much they may spend together, in memory: each write spends 1.
        limit: the most states to visit.
        first_violation: stop at the first.
        store: makes the ledgers of several workers on a store, to whom the transactions are dealt out;
            then a worker may also keep up with the others, and maintain what they aborted, at any time.
        shuffled: the seed of a random order in which states are visited, so that `limit` takes a sample.

    >>> found = explore("ex", "rx sy")
    >>> found.violations, found.finals > 0
    ({}, True)
    """
    plan = Plan(
        programs=tuple(parse(p) if isinstance(p, str) else tuple(p) for p in programs),
        protocol=protocol,
        parts=parts,
        declared=frozenset(declared),
        loops=loops or {},
        tries=tries,
        siblings={number: parse(text) for number, text in (siblings or {}).items()},
        on_failure=on_failure,
        durable=durable,
        cancelled=frozenset(cancelled),
        halted=frozenset(halted),
        stopped=frozenset(stopped),
        aborted=frozenset(aborted),
        store=store,
        inside={number: parse(text) for number, text in (inside or {}).items()},
        holds=holds or {},
        outside=parse(outside),
        advanced=parse(advanced),
        verdict=verdict,
        chosen=chosen,
        guards=guards,
        turns={number: parse(text) for number, text in (turns or {}).items()},
        revoked=parse(revoked),
        queues=queues,
        budget=budget,
    )
    result = Exploration()
    seen: set[Any] = set()
    branches: list[list[int]] = [[]]
    chance = None if shuffled is None else Random(shuffled)
    while branches and result.states < limit:
        schedule = branches.pop(-1 if chance is None else chance.randrange(len(branches)))
        run = Run(plan)
        try:
            for number in schedule:
                run.move(number)
            while True:
                run.check_floors()
                run.check_budget()
                signature = run.signature()
                if signature in seen:
                    break
                seen.add(signature)
                result.states += 1
                choices = run.ready()
                if not choices:
                    _judge(run, result, schedule)
                    break
                if chance is not None:
                    chance.shuffle(choices)
                branches.extend([*schedule, number] for number in choices[1:])
                schedule = [*schedule, choices[0]]
                run.move(choices[0])
        except ViolatedError as violated:
            result.violations.setdefault(str(violated), schedule)
        if first_violation and result.violations:
            break
    return result


def _judge(run: Run, result: Exploration, schedule: list[int]) -> None:
    result.finals += 1
    if not all(task.done or (task.maintains and task.request is POINT) for task in run.tasks):
        result.violations.setdefault("deadlock", schedule)
        return
    result.gave_up += any(task.gave_up for task in run.tasks)
    result.attempts = max([result.attempts, *(t.attempt.number for t in run.tasks if t.attempt is not None)])
    result.anomalies |= run.anomalies()
    for name in judge(run):
        result.violations.setdefault(name, schedule)
    outcome = tuple((task.committed, task.failed, task.gave_up) for task in run.tasks if not task.maintains)
    result.ends.add((outcome, tuple(run.order), tuple(run.world.values), tuple(run.world.blocks)))


__all__ = ["Exploration", "Programs", "explore", "parse"]
