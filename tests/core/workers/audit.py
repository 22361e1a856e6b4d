"""Judges what workers did, from the counterparty's own log: nothing here asks the engine what happened.

Only which transactions committed is the ledger's to say, and what it names as left over.
"""

from __future__ import annotations

from collections import Counter

from settlemark import State
from settlemark.history import Access, serializability
from settlemark.hosting import host_of

_ACCESSES = ("read", "write")


def audit(desk, settlement):
    """Return everything that is wrong, in words; empty when all is well."""
    wrong = []
    recorded = settlement.transactions()
    unfinished = [r.row.name for r in recorded if r.state not in (State.COMMITTED, State.ABORTED)]
    if unfinished:
        wrong.append(f"never ended: {unfinished}")
    if host_of(settlement).protocol.live:
        wrong.append(f"still holding: {[(t.name, t.state) for t in host_of(settlement).protocol.live.values()]}")
    in_words = named(settlement)
    committed = committed_of(settlement)
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
    wrong += dirty(log, committed)
    order = serial(log, committed)
    if not order.serializable:
        wrong.append(f"no serial order: {order.cycles[0]}")
    return wrong


def committed_of(settlement):
    """Return which attempts committed."""
    return {(r.row.name, r.row.attempt) for r in settlement.transactions() if r.state is State.COMMITTED}


def dirty(log, committed):
    """Return which committed attempts met, on a cell, a write of another that was there then and was undone later."""
    undone = {key for verb, _, key, _, _ in log if verb == "undo"}
    there, wrong = {}, []  # by cell: whose writes that are to be undone stand there, by key
    for verb, cell, key, name, attempt in log:
        on_it = there.setdefault(cell, {})
        if verb == "undo":
            on_it.pop(key, None)
        elif verb in _ACCESSES and (name, attempt) in committed:
            wrong += [
                f"dirty {verb}: {name}#{attempt} met {other} on {cell}, which was undone later"
                for other, whose in on_it.items()
                if whose != (name, attempt)
            ]
        if verb == "write" and key in undone:
            on_it[key] = name, attempt
    return wrong


def named(settlement):
    """Return the keys of what the ledger names as left over."""
    return {left.key for left in settlement.residue()}


def stories(desk, settlement, finding):
    """Return all that the record and the desk's log have of the transactions that a finding names, a line each.

    A storm does not come twice: what a finding needs to be understood has to be told with it.
    """
    for r in settlement.transactions():
        if any(effect.row.key in finding for effect in r.effects) or r.row.name in finding:
            yield f"  {r.row.name}#{r.row.attempt} is {r.state} ({r.because}) at {r.epoch}"
            yield from (f"    {effect}" for effect in r.effects)
            yield from (f"    {entry}" for entry in desk.log() if entry[3] == r.row.name)


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


def serial(log, committed):
    """Whether the committed attempts did things as if one had run after the other, in the order the desk saw."""
    return serializability(
        (Access((name, attempt), verb, f"desk:/{cell}") for verb, cell, _, name, attempt in log if verb in _ACCESSES),
        committed,
    )


__all__ = ["audit", "committed_of", "dirty", "named", "serial", "stories"]
