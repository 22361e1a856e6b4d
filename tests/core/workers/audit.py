"""Judges what workers did, from the counterparty's own log: nothing here asks the engine what happened.

Only which transactions committed is the ledger's to say, and what it names as left over.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from settlemark._states import State


def audit(desk, settlement):
    """Return everything that is wrong, in words; empty when all is well."""
    wrong = []
    recorded = settlement.transactions()
    unfinished = [r.row.name for r in recorded if r.state not in (State.COMMITTED, State.ABORTED)]
    if unfinished:
        wrong.append(f"never ended: {unfinished}")
    if settlement.protocol.live:
        wrong.append(f"still holding: {[(t.name, t.state) for t in settlement.protocol.live.values()]}")
    in_words = named(settlement)
    committed = {(r.row.name, r.row.attempt) for r in recorded if r.state is State.COMMITTED}
    log = desk.log()
    done, undone = Counter(), Counter()
    for verb, _, key, _, _ in log:
        if verb in ("write", "letter", "plain letter"):
            done[key] += 1
        elif verb == "undo":
            undone[key] += 1
    for r in recorded:
        for effect in r.effects:
            key = effect.row.key
            wrong += _untrue(effect, done[key], undone[key])
            if key in in_words:
                continue
            stays, kept = done[key] - undone[key], (r.row.name, r.row.attempt) in committed
            if kept and effect.outcome == "confirmed" and stays != 1:
                wrong.append(f"{key} ({effect.row.tool}, {effect.outcome}) of a committed one happened {stays} times")
            elif not kept and stays != 0:
                wrong.append(f"{key} ({effect.row.tool}, {effect.outcome}, {effect.tag}) of an aborted one stays")
            elif effect.outcome in ("intended", "queued", "unknown"):
                wrong.append(f"{key} is {effect.outcome}, and nobody names it")
    known = {effect.row.key for r in recorded for effect in r.effects}
    wrong += [f"{key} acted and is not on record" for key in done if key not in known]
    wrong += [f"{key} acted {count} times" for key, count in done.items() if count > 1]
    values = Counter()
    for verb, cell, _, _, _ in log:
        values[cell] += {"write": 1, "undo": -1}.get(verb, 0)
    if {c: v for c, v in values.items() if v} != {c: v for c, v in desk.cells().items() if v}:
        wrong.append("the desk's cells are not what its log says")
    cycle = shortest_cycle(conflicts(log, committed))
    if cycle:
        wrong.append(f"no serial order: {cycle}")
    return wrong


def named(settlement):
    """Return the keys of what the ledger names as left over."""
    return {left.key for left in settlement.residue()}


def _untrue(effect, done, undone):
    """Return how the record of one effect contradicts the counterparty's log; also what is named is named rightly."""
    told = (
        f"{effect.row.key} ({effect.row.tool}, {effect.tag}) is {effect.outcome} on record, and happened {done} times"
    )
    match effect.outcome.value:
        case "confirmed":
            wrong = (done, undone) != (1, 0)
        case "undone":
            wrong = (done, undone) != (1, 1)
        case "failed" | "dropped":
            wrong = done != 0
        case "unknown":
            wrong = done > 1
        case _:
            wrong = True  # whoever ended it knew nothing, and said nothing
    return [f"{told}, undone {undone} times"] if wrong else []


def overlap(one, other):
    """Whether two cells are one, or one lies below the other."""
    first, second = one.split("/"), other.split("/")
    return all(a == b for a, b in zip(first, second, strict=False))


def conflicts(log, committed):
    """Return the conflict graph of committed attempts, from the order in which the desk did things."""
    edges = defaultdict(set)
    entries = [(v, c, (t, a)) for v, c, _, t, a in log if (t, a) in committed and v in ("read", "write")]
    by_cell = defaultdict(list)
    for verb, cell, who in entries:
        by_cell[cell].append((verb, who))
    for seen in by_cell.values():
        last_writer, readers = None, set()
        for verb, who in seen:
            if last_writer not in (None, who):
                edges[last_writer].add(who)
            if verb == "write":
                for reader in readers - {who}:
                    edges[reader].add(who)
                last_writer, readers = who, set()
            else:
                readers.add(who)
    return edges


def shortest_cycle(edges):
    """Return a shortest cycle of a directed graph, or None (breadth first from every node)."""
    best = None
    for start in list(edges):
        before, todo = {start: None}, [start]
        for node in todo:
            for following in edges.get(node, ()):
                if following == start:
                    path = [node]
                    while before[path[-1]] is not None:
                        path.append(before[path[-1]])
                    if best is None or len(path) < len(best):
                        best = path[::-1]
                    todo = []
                    break
                if following not in before:
                    before[following] = node
                    todo.append(following)
            else:
                continue
            break
        if best is not None and len(best) <= 2:
            return best
    return best


__all__ = ["audit", "conflicts", "named", "shortest_cycle"]
