"""Reads of what is not settled yet: what a reader saw, of whom, and how the two end together.

A reader that saw another's work stands behind it. It commits when that has committed, and is undone first when that is
undone; what it saw executed does not make it out of date when it settles, and what came behind its read does. Direct
predecessors are known, and a cascade follows them. Source: the anomaly paper's causal discipline (section 5), with
output commit (Strom and Yemini 1985, section 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from settlemark._model.scope import Scope
from settlemark._protocol.holdings import AT_ONCE, Hold, Txn
from settlemark._protocol.index import ScopeIndex
from settlemark._protocol.states import State


def is_open_to(hold: Hold) -> bool:
    """Whether a claim may be read through now: nothing is on its way there, and what is there is no undo's."""
    txn = hold.txn
    if txn.state is State.ABORTING or (txn.state is State.RELEASING and hold.held):
        return False
    return not any(call.hold is hold and not call.returned and call.mode in AT_ONCE for call in txn.calls.values())


def depend(txn: Txn, scope: Scope, others: Iterable[Hold], *, first: bool) -> list[Hold]:
    """Note that a transaction has read what these claims have put there, and return those that have put something.

    Read again, a scope counts as it was read `first`; who is seen only now was not seen then.
    """
    seen: list[Hold] = []
    for other in others:
        rival = other.txn
        if rival is txn or not other.last_act:
            continue
        seen.append(other)
        txn.preds.setdefault(rival.id, {}).setdefault(scope, rival.acts if first else 0)
        rival.dependents.add(txn.id)
    return seen


def dependents(known: Mapping[int, Txn], txn: Txn) -> Iterator[Txn]:
    """Return the unfinished ones that end as this one ends, the oldest first."""
    found = [known[number] for number in txn.dependents if number in known]
    yield from sorted((each for each in found if each.guards.reads == "early"), key=lambda each: each.position)


def readers_of(known: Mapping[int, Txn], index: ScopeIndex, txn: Txn, written: list[Hold]) -> list[tuple[Txn, Scope]]:
    """Return the reads that have seen all a transaction wrote, and that nothing else has made out of date."""
    found: list[tuple[Txn, Scope]] = []
    for number in txn.dependents:
        reader = known[number]
        for scope, acts in reader.preds[txn.id].items():
            if scope not in reader.reads or index.version(index.match(scope)) > reader.reads[scope]:
                continue
            if all(h.last_act <= acts and not h.held for h in written if h.scope.overlaps(scope)):
                found.append((reader, scope))
    return found


def part(known: Mapping[int, Txn], txn: Txn) -> list[Txn]:
    """Untie a finished transaction from those it saw, and from those that saw it; return the former."""
    for number in txn.dependents:
        if number in known:
            known[number].preds.pop(txn.id, None)
    ahead = [known[number] for number in txn.preds if number in known]
    for pred in ahead:
        pred.dependents.discard(txn.id)
    txn.preds, txn.dependents = {}, set()
    return ahead


__all__ = ["depend", "dependents", "is_open_to", "part", "readers_of"]
