"""What a protocol has to answer, found by looking at everybody: nothing is indexed, and every rule is said once more.

Where `naive` takes a whole history anew, these look at a protocol as it is, whatever has led there: holds, choices,
calls within calls, guards, lines and tools.
"""

from __future__ import annotations

from tests.rooms.protocol import Mode

from settlemark import State

UNSETTLED = (State.OPEN, State.SEALED)
AT_ONCE = (Mode.EAGER, Mode.FINAL)


def others(protocol, txn, scope):
    """Return every hold of another that overlaps a scope, the oldest's first."""
    found = [
        hold
        for other in protocol.live.values()
        if other is not txn
        for hold in other.holds.values()
        if hold.scope.overlaps(scope)
    ]
    return sorted(found, key=lambda hold: (hold.txn.position, hold.since))


def nearest(holds, txn):
    """Return whose of these holds stands nearest before a transaction, or None."""
    older = [hold.txn for hold in holds if hold.txn.position < txn.position]
    return max(older, key=lambda other: other.position, default=None)


def is_busy(hold):
    return hold.claims > 0 or (hold.held > 0 and hold.txn.state is State.RELEASING)


def is_active(hold):
    return is_busy(hold) or hold.readings > 0 or hold.held > 0 or hold.wants > 0


def are_branches(protocol, one, other):
    """Whether two are branches of one choice that nobody has made yet."""
    choice = protocol.by_id.get(one.group)
    return one.group == other.group and choice is not None and choice.role == "choice"


def branches_beside(protocol, txn):
    return [other for other in protocol.live.values() if other is not txn and are_branches(protocol, txn, other)]


def callers(protocol, txn):
    found = []
    while (txn := protocol.by_id.get(txn.parent)) is not None:
        found.append(txn)
    return found


def sees_what_is_not_settled(txn):
    done_for_good = any(call.admitted and call.mode is Mode.FINAL for call in txn.calls.values())
    return txn.guards.reads == "any" or (txn.guards.reads == "early" and not done_for_good)


def may_be_seen(hold):
    """Whether what was done at a claim stands there: nothing is on its way, and nobody takes it back."""
    txn = hold.txn
    on_its_way = [c for c in txn.calls.values() if c.hold is hold and c.mode in AT_ONCE and not c.returned]
    leaves = txn.state is State.RELEASING and hold.held
    return txn.state is not State.ABORTING and not leaves and not on_its_way


def unsettled(protocol, txn):
    """Return whom a transaction has seen before that had settled, if it is to end as that ends."""
    return protocol.by_id[next(iter(txn.preds))] if txn.preds and txn.guards.reads == "early" else None


def in_the_way(protocol, call):
    """Return whom a request waits for, or None."""
    txn, mode, beside = call.txn, call.mode, others(protocol, call.txn, call.scope)
    if mode is not Mode.READ:
        free = [hold for hold in beside if not are_branches(protocol, txn, hold.txn) or hold.txn.state not in UNSETTLED]
        older = nearest([hold for hold in free if mode is Mode.FINAL or is_active(hold)], txn)
        if older is not None:
            return older
    if mode is Mode.FINAL and (seen := unsettled(protocol, txn)) is not None:
        return seen
    through = mode is Mode.READ and sees_what_is_not_settled(txn)
    closed = [hold for hold in beside if is_busy(hold) and not (through and may_be_seen(hold))]
    if mode is not Mode.READ and not closed:
        closed = [hold for hold in beside if hold.readings]
    return closed[0].txn if closed else ahead_in_line(txn, call, beside)


def ahead_in_line(txn, call, beside):
    line = [hold for hold in beside if hold.lined and not hold.txn.parked]
    tied = txn.parent or txn.group or txn.role
    if txn.reading or tied:
        return None
    if call.mode is not Mode.READ:
        return nearest([hold for hold in line if hold.txn.begins_again], txn)
    stands = txn.queues and txn.guards.current and call.scope not in txn.reads
    return nearest(line, txn) if stands else None


def before_it_begins_again(protocol, txn):
    """Return whom one that lost a race waits for before it begins again, or None."""
    for hold in txn.holds.values() if txn.begins_again else ():
        free = [other for other in others(protocol, txn, hold.scope) if not other.txn.parked]
        if hold.lined and (older := nearest(free, txn)) is not None:
            return older
    return None


def before_it_commits(protocol, txn):
    """Return whom a sealed transaction waits for, or None; and `"caller"` where one in whose call it runs has come."""
    first = [branch for branch in branches_beside(protocol, txn) if branch.holds or txn.holds]
    first += [seen] if (seen := unsettled(protocol, txn)) is not None else []
    if first or not txn.wrote:
        return first[0] if first else None
    above = [hold.scope for caller in callers(protocol, txn) for hold in caller.holds.values()]
    if any(hold.scope.overlaps(scope) for hold in txn.holds.values() for scope in above):
        return "caller"
    return next(filter(None, (in_the_way_of_a_hold(protocol, txn, hold) for hold in txn.holds.values())), None)


def in_the_way_of_a_hold(protocol, txn, hold):
    """Return whom the commit of a transaction that wrote waits for on one of its scopes, or None."""
    beside = others(protocol, txn, hold.scope)
    passes = txn.guards.reads == "any" and not (hold.claims or hold.held)
    passed = {number for number, scopes in txn.preds.items() if passes and hold.scope in scopes}
    older = nearest([other for other in beside if other.txn.id not in passed], txn) if txn.guards.current else None
    undone = [o.txn for o in beside if is_busy(o) and (o.txn.state is State.ABORTING or not txn.guards.current)]
    return older or next(iter(undone if hold.held else ()), None)


def frontier(protocol, scope):
    held = [hold.txn.position[0] for hold in others(protocol, None, scope)]
    return min(held, default=protocol.next_epoch)


__all__ = ["before_it_begins_again", "before_it_commits", "frontier", "in_the_way"]
