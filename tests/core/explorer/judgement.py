"""What is wrong at the end of an explored run, judged from the world's own log and who committed."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from tests.core.explorer.cells import (
    CELLS,
    FINAL,
    GROUPS,
    READS,
    REFUSED,
    SIBLING,
    UNWRITTEN,
    Blocks,
    Value,
    added,
    touches,
    writes,
)
from tests.rooms.replica import image

from settlemark import Outcome, State
from settlemark.hosting import Disposition

if TYPE_CHECKING:
    from tests.core.explorer.interleaving import Run
    from tests.rooms.model import Guards

_A1 = "A1: a stale generation committed"
_CYCLE = "conflict cycle"
_NOT_SERIAL = "the world differs from the serial order of what committed"
_OUT_OF_ORDER = "own effects on one scope out of issuance order"
_SAW_UNDONE = "a committed read saw a write that was undone"
_SPLIT = "what was split off settled although what had been read had changed"
_LIMBO = (Outcome.INTENDED, Outcome.QUEUED)


def judge(run: Run) -> set[str]:
    """Return the names of what is wrong at an end, from the world's log and who committed."""
    wrong: set[str] = set()
    committed = set(run.order)
    aborted_after = {n for n in committed if _left_nothing(run, n)}
    committed -= aborted_after
    _judge_releases(run, committed, wrong)
    _judge_last(run, wrong)
    edges: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for cell in range(3):
        writes = [value for value in run.world.log[cell] if value[:2] in committed and not _is_orphan(run, value)]
        _judge_writes(run, writes, edges, wrong)
        _judge_reads(run, cell, writes, committed, edges, wrong)
        _judge_value(run, cell, committed, wrong)
        _judge_parts(run, cell, committed, wrong)
    if _has_cycle(edges):
        wrong.add(_CYCLE)
    if any(e.outcome in _LIMBO for attempt in run.attempts for e in attempt.effects.values()):
        wrong.add("an effect was forgotten")
    if run.protocol.live:
        wrong.add("a transaction never finished")
    if run.protocol.board.index.root.children and not run.protocol.board.versions.logged:
        wrong.add("holds were left behind")
    if run.plan.budget is not None and run.spent() != (len(run.world.sequence) - len(run.world.undone), 0):
        wrong.add("a budget tells something else than the world")
    _judge_record(run, wrong)
    _judge_replicas(run, wrong)
    _judge_history(run, wrong)
    return wrong - _excused(run.plan.guards)


def _judge_history(run: Run, wrong: set[str]) -> None:
    """Hold the run's history, by all detectors, to what the guards promise."""
    guards = run.plan.guards
    promised = {"A1": guards.current, "A3": guards.reads != "any", "A6": guards.ordered, "A2": guards.tools != "any"}
    wrong.update(f"the history has {anomaly}" for anomaly in run.anomalies() if promised[anomaly])


def _excused(guards: Guards) -> set[str]:
    """Return what is nobody's fault where a guard is off."""
    excused: set[str] = set()
    if not guards.current:
        excused |= {_A1, _CYCLE, _NOT_SERIAL, _SPLIT}
    if guards.reads == "any":
        excused |= {_SAW_UNDONE, _CYCLE, _NOT_SERIAL}
    if not guards.ordered:
        excused |= {_OUT_OF_ORDER}
    return excused


def _judge_record(run: Run, wrong: set[str]) -> None:
    """Compare what the ledger has on record with what became of every attempt."""
    recorded = {(r.row.name, r.row.attempt): r for r in run.ledgers[0].read(lambda book: book.transactions())}
    for attempt in run.attempts:
        found = recorded.get((attempt.name, attempt.number))
        told = {e.row.key: (e.outcome, e.tag) for e in found.effects} if found is not None else {}
        became = {e.key: (e.outcome, e.tag) for e in attempt.effects.values()}
        state = attempt.live.state if found is None else found.state
        if told != became or state is not attempt.live.state:
            wrong.add("the record differs from what happened")


def _judge_replicas(run: Run, wrong: set[str]) -> None:
    """Compare what the workers on a shared store have in the end, and what one has who joins then."""
    states = [image(replica) for replica in run.replicas]
    if any(state != states[0] for state in states):
        wrong.add("the replicas differ")
    if run.workers and image(run.workers[0].newcomer().protocol) != states[0]:
        wrong.add("a newcomer begins with another state")


def _left_nothing(run: Run, who: tuple[int, int]) -> bool:
    """Whether a decided transaction was undone after all, before anything of it had left."""
    return run.deciders[who].state is State.ABORTED


def _judge_releases(run: Run, committed: set[tuple[int, int]], wrong: set[str]) -> None:
    counts = Counter(run.world.released)
    for value, count in counts.items():
        if value[:2] not in committed and not any(op[0] in REFUSED for op in run.tasks[value[0]].program):
            wrong.add("an aborted attempt released a held effect")
        if count > 1:
            wrong.add("a held effect was released twice")
        task = run.tasks[value[0]]
        if task.plans and value[:2] in committed and value[2] >= len(task.program):
            wrong.add("what the last plan did not ask for left")
    for task in run.tasks:
        if not task.committed:
            continue
        for step, kind, _ in touches(task.program):
            if kind in "sic" and not task.laps and not task.partial and counts[task.number, task.committed, step] != 1:
                wrong.add("a committed held effect was not released once")
    for log in run.world.log:
        if any(count > 1 for count in Counter(log).values()):
            wrong.add("an effect happened twice")


def _judge_last(run: Run, wrong: set[str]) -> None:
    """Hold what cannot be undone to having left when all else had succeeded that need not leave behind it."""
    acts: dict[tuple[int, int], list[int]] = defaultdict(list)
    for value in run.world.sequence:
        acts[value[:2]].append(value[2])
    for attempt in run.attempts:
        number, lap = run.number_of(attempt.name)
        ended = acts[number, attempt.number + 10 * lap]
        failed = (
            e
            for e in attempt.effects.values()
            if e.outcome is Outcome.FAILED and e.disposition is not Disposition.SKIPPED
        )
        ended += [effect.arguments["step"] for effect in failed]
        issued = _issued(run, number)
        finals = [step for step in ended if issued.get(step, READS)[0] in FINAL]
        for step in finals:
            may_follow = {n for final in finals if final >= step for n in _tied(issued, final)}
            behind = (n for n in ended[ended.index(step) + 1 :] if issued[n][0] not in FINAL)
            if not may_follow.issuperset(behind):
                wrong.add("what cannot be undone left before what could still fail")


def _is_orphan(run: Run, value: Value) -> bool:
    """Whether a write was taken back because the plan that its transaction committed on does not ask for it."""
    return bool(run.tasks[value[0]].plans) and value in run.world.undone


def _issued(run: Run, number: int) -> dict[int, str]:
    """Return the operations of a task, and of its second thread, by their places."""
    plan = run.plan
    late = plan.turns.get(number) or plan.siblings.get(number) or ()
    task = run.tasks[number]
    plans = {n: op for program in (*task.plans, task.operations) for n, op in enumerate(program)}
    return {**plans, **{SIBLING + n: op for n, op in enumerate(late)}}


def _tied(issued: dict[int, str], first: int) -> set[int]:
    """Return the operations that were issued behind one and overlap it, or what does."""
    found, cells = {first}, set(CELLS[issued[first][1]])
    for step, op in issued.items():
        if step > first and len(op) > 1 and cells.intersection(CELLS[op[1]]):
            found.add(step)
            cells.update(CELLS[op[1]])
    return found


def _kind(run: Run, value: Value) -> tuple[str, str]:
    """Return what an act was: its operation, or its group, and its scope."""
    kind, name = _issued(run, value[0])[value[2]]
    return GROUPS.get(kind, kind), name


def _commute(run: Run, one: Value, other: Value) -> bool:
    kind = _kind(run, one)
    return kind[0] in GROUPS.values() and kind == _kind(run, other)


def _judge_writes(run: Run, writes: list[Value], edges: dict[Any, set[Any]], wrong: set[str]) -> None:
    for earlier, later in itertools.combinations(writes, 2):
        if earlier[:2] != later[:2]:
            if _commute(run, earlier, later):
                continue
            edges[earlier[:2]].add(later[:2])
        elif earlier[2] > later[2]:
            wrong.add(_OUT_OF_ORDER)


def _judge_reads(
    run: Run, cell: int, writes: list[Value], committed: set[Any], edges: dict[Any, set[Any]], wrong: set[str]
) -> None:
    for task in run.tasks:
        me = (task.number, task.committed + 10 * task.laps)
        if not task.committed or me not in committed:
            continue
        for at, found in task.reads:
            seen = [value for where, value in found if where == cell]
            if any(value[:2] != me for value in seen):
                _judge_read(run, me, seen, writes, edges, wrong)
                _judge_staleness(run, cell, at, me, seen, wrong)


def _judge_read(
    run: Run, me: Any, seen: list[Value], writes: list[Value], edges: dict[Any, set[Any]], wrong: set[str]
) -> None:
    """Judge a read of a cell: of the value that was written there, and what had been added to it since."""
    value, *rest = seen
    place = -1
    for each in seen:
        if each == UNWRITTEN or each[:2] == me:
            continue
        if each not in writes:
            if run.tasks[each[0]].operations[each[2]][0] != "o":
                wrong.add(_SAW_UNDONE)
            return
        edges[each[:2]].add(me)
    if value != UNWRITTEN and value in writes:
        place = writes.index(value)
    for later in writes[place + 1 :]:
        if later[:2] != me and later not in rest:
            edges[me].add(later[:2])


def _judge_staleness(run: Run, cell: int, at: int, me: Any, seen: list[Value], wrong: set[str]) -> None:
    for other in run.order[at : run.order.index(me)]:
        wrote = writes(run.tasks[other[0]].program, cell)
        if other != me and wrote and not _left_nothing(run, other) and (*other, wrote[-1]) not in seen:
            wrong.add(_A1)


def _judge_parts(run: Run, cell: int, committed: set[Any], wrong: set[str]) -> None:
    """What was split off depends on what the whole had read, as it was when that committed."""
    for task in run.tasks:
        whole = (task.number, task.committed)
        ours = {whole, *((part.number, part.committed) for part in task.parts)} if task.end else set[tuple[int, int]]()
        if not any(at == cell for _, seen in task.reads for at, _ in seen):
            continue
        for part in (each for each in ours & committed if each != whole):
            between = run.order[run.order.index(whole) + 1 : run.order.index(part)]
            if any(who in committed - ours and writes(run.tasks[who[0]].program, cell) for who in between):
                wrong.add(_SPLIT)


def _judge_value(run: Run, cell: int, committed: set[Any], wrong: set[str]) -> None:
    expected, blocks = UNWRITTEN, Blocks()
    for who in run.order:
        if who not in committed:
            continue
        program = run.tasks[who[0]].program
        steps = [step for step in writes(program, cell) if program[step][0] not in REFUSED]
        if run.tasks[who[0]].partial:
            steps = [n for n in steps if (*who, n) in run.world.log[cell]]
        steps += [value[2] for value in run.world.log[cell] if value[:2] == who and value[2] >= SIBLING]
        for step in steps:
            kind = _issued(run, who[0]).get(step, READS)[0]
            if kind in GROUPS:
                blocks = added(blocks, (*who, step), GROUPS[kind])
            else:
                expected, blocks = (*who, step), ()
    actual = run.world.values[cell]
    kept = actual != UNWRITTEN and actual[:2] not in committed and actual[2] < SIBLING
    if kept and run.tasks[actual[0]].operations[actual[2]][0] == "o":
        return  # an opaque effect of an aborted attempt stays, and is named
    if (actual, run.world.blocks[cell]) != (expected, blocks):
        wrong.add(_NOT_SERIAL)


def _has_cycle(edges: dict[Any, set[Any]]) -> bool:
    for start in list(edges):
        seen: set[Any] = set()
        todo = list(edges[start])
        while todo:
            node = todo.pop()
            if node == start:
                return True
            if node not in seen:
                seen.add(node)
                todo.extend(edges.get(node, ()))
    return False
