"""Ties between transactions that no frontier shows: nested calls and branches, and readers of unsettled work.

*Entangled*: a transaction that runs inside another's call, independent of it, has to end before that call returns. The
branches of a choice end together, when one is chosen. A tied transaction may wait for others, but not for those it is
tied to, nor for anybody who waits for them: such a wait would never end, so it is refused at once.

*Early reads*: a reader of another's unsettled work stands behind the author. The reader commits after the author has
committed, and is undone before the author is undone. The work it saw executed does not make it stale when it settles; a
later write does. Direct predecessors are stored, and a cascade follows them. Source: the anomaly paper's causal
discipline (section 5), with output commit (Strom and Yemini 1985, section 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

from settlemark._edges.errors import Entangled
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import AT_ONCE, Blocked, Call, Hold, Mode, Txn
from settlemark._protocol.index import HOLDS, Position, ScopeIndex
from settlemark._protocol.states import UNSETTLED, State

# ---- entangled: who cannot end before whom


def callers(known: Mapping[int, Txn], parent: int) -> Iterator[Txn]:
    """Return the transactions in whose calls one with this parent runs, the innermost first."""
    caller = known.get(parent)
    while caller is not None:
        yield caller
        caller = known.get(caller.parent)


def siblings(known: Mapping[int, Txn], txn: Txn) -> Iterator[Txn]:
    """Return the other unfinished branches of a transaction's choice."""
    choice = known.get(txn.group) if txn.group else None
    if choice is not None and choice.role == "choice":
        yield from (member for member in choice.members.values() if member is not txn)


def are_siblings(known: Mapping[int, Txn], one: Txn, other: Txn) -> bool:
    """Whether two transactions are branches of one choice."""
    return one.group == other.group != 0 and one.group in known and known[one.group].role == "choice"


def refuse_own_name(known: Mapping[int, Txn], name: str, parent: int, same: Txn, *, within: bool = False) -> None:
    """Check that a name in use is not that of a caller of the new transaction, or (`within`) of the body it is in.

    Raises:
        Entangled: the name is.
    """
    if any(caller is same for caller in callers(known, parent)):
        raise Entangled(
            f"{name} was begun again inside one of its own calls: nothing was run; give the inner transaction"
            " another name, or let it join (leave out independent=True)",
            transaction=name,
            holder=name,
            scope=None,
        )
    if within and not same.finished:
        raise Entangled(
            f"{name} was entered again within itself, where it would wait for its own end: nothing was run; use the"
            " transaction that is open, or give the inner one another name",
            transaction=name,
            holder=name,
            scope=None,
        )


def refuse_own_end(name: str) -> NoReturn:
    """Refuse to end a transaction inside one of its own calls, hooks or approvers.

    Raises:
        Entangled: always.
    """
    raise Entangled(
        f"{name} cannot commit inside one of its own calls or hooks: nothing moved; let that return, and commit then",
        transaction=name,
        holder=name,
        scope=None,
    )


def refuse_to_wait(name: str, to: Blocked) -> NoReturn:
    """Refuse a wait for a transaction that cannot end before the calling function returns.

    Raises:
        Entangled: always.
    """
    raise Entangled(
        f"{name} would wait for {to.holder.name}, which holds {to.scope} and cannot end before the function returns"
        " in which this was asked: nothing was run; do it after that function has returned",
        transaction=name,
        holder=to.holder.name,
        scope=to.scope,
    )


def refuse_callers(known: Mapping[int, Txn], name: str, parent: int, scope: Scope) -> None:
    """Check that no caller of a transaction holds the scope.

    Raises:
        Entangled: a caller does.
    """
    for caller in callers(known, parent):
        if any(hold.scope.overlaps(scope) for hold in caller.holds.values()):
            _refuse_inner(name, caller, scope)


def _refuse_inner(name: str, caller: Txn, scope: Scope) -> NoReturn:
    raise Entangled(
        f"{name} was begun inside a call of {caller.name}, which holds {scope} until that call has returned: each would"
        " wait for the other, so nothing was run; let it join (leave out independent=True), or begin it when the call"
        " has returned",
        transaction=name,
        holder=caller.name,
        scope=scope,
    )


def refuse_siblings(known: Mapping[int, Txn], call: Call) -> None:
    """Check that a branch may touch a scope without waiting for another branch of its choice.

    An eager effect of one branch stands until the choice: the others can neither read nor touch its scope, but for
    effects that commute with it. Held effects may overlap, since at most one branch's are released.

    Raises:
        Entangled: the branch would have to wait.
    """
    if call.mode is Mode.HELD:
        return
    for sibling in siblings(known, call.txn):
        if sibling.state not in UNSETTLED:
            continue  # waits for the undo
        waits = call.mode is Mode.FINAL and sibling.position < call.txn.position
        own = next((hold for hold in call.txn.holds.values() if hold.scope == call.scope), None)
        group = call.commutes if own is None or own.commutes in (None, call.commutes) else ""
        for hold in sibling.holds.values():
            if group and group == hold.commutes and hold.scope == call.scope and not hold.declared:
                continue
            if (hold.claims or waits) and hold.scope.overlaps(call.scope):
                _refuse_branch(call.txn, sibling, call.scope)


def _refuse_branch(txn: Txn, sibling: Txn, scope: Scope) -> NoReturn:
    raise Entangled(
        f"{txn.name} needs {scope}, which its sibling branch {sibling.name} holds until one of them is chosen:"
        " nothing was run; stage it per branch (declare the tool staged, or irreversible), so that it happens in the"
        " chosen one alone, or give each branch a resource of its own",
        transaction=txn.name,
        holder=sibling.name,
        scope=scope,
    )


def refuse_circle(
    known: Mapping[int, Txn],
    live: Mapping[Position, Txn],
    index: ScopeIndex,
    ties: Iterable[int],
    txn: Txn,
    to: Blocked,
) -> None:
    """Check that a tied transaction may wait: the holder must not wait for a transaction that it is tied to.

    `ties` are the numbers of all tied transactions, through which the holder may wait in turn.

    Raises:
        Entangled: the wait would close a circle.
    """
    tied = {*callers(known, txn.parent), *(other for other in siblings(known, txn) if other.state in UNSETTLED)}
    if not tied or not (to.holder.state in UNSETTLED or to.holder.dependents):
        return
    tied.add(txn)
    inner: dict[int, list[Txn]] = {}
    for number in ties:
        inner.setdefault(known[number].parent, []).append(known[number])
    todo = [(to.holder, False)]
    seen = set(todo)
    while todo:
        ahead, rests = todo.pop()
        following = [(older, False) for older in _older(live, index, ahead, rests=rests)]
        following += [(called, False) for called in inner.get(ahead.id, ()) if called.state in UNSETTLED]
        following += [(other, True) for other in siblings(known, ahead) if other.state in UNSETTLED]
        # An undone transaction waits for its readers, and they for transactions inside their calls.
        ended = [known[number] for number in ahead.dependents if ahead.state is State.ABORTING and number in known]
        following += [(reader, True) for reader in ended]
        following += [(called, False) for reader in ended for called in inner.get(reader.id, ())]
        for each in following:
            if each[0] in tied:
                _refuse_wait(txn, to, each[0])
            if each not in seen:
                seen.add(each)
                todo.append(each)


def _refuse_wait(txn: Txn, to: Blocked, end: Txn) -> NoReturn:
    last, waits = (to.holder, "") if end is txn else (end, f"waits for {end.name}, which ")
    raise Entangled(
        f"{txn.name} would wait for {to.holder.name}, which holds {to.scope} and {waits}cannot end before"
        f" {txn.name}: nothing was run; do it when {last.name} has ended",
        transaction=txn.name,
        holder=to.holder.name,
        scope=to.scope,
    )


def _older(live: Mapping[Position, Txn], index: ScopeIndex, txn: Txn, *, rests: bool) -> Iterator[Txn]:
    """Return whom a transaction waits for: until its commit, or with `rests` until its calls have returned."""
    waits = _waits(txn)
    for hold in txn.holds.values():
        if hold.wants or (hold.lined and txn.begins_again) or (waits and not rests):
            match, position = index.match(hold.scope), txn.position
            while (below := index.below(match, HOLDS, position)) is not None:
                position = below
                yield live[below]


def _waits(txn: Txn) -> bool:
    """Whether it will have to wait for older ones; a reader does not."""
    return txn.wrote or any(hold.wants for hold in txn.holds.values())


# ---- early reads: readers of unsettled work


def reads_through(txn: Txn) -> bool:
    """Whether a transaction reads unsettled work; not after an act that cannot be undone."""
    if txn.guards.reads == "early":
        return not any(call.admitted and call.mode is Mode.FINAL for call in txn.calls.values())
    return txn.guards.reads == "any"


def unsettled(known: Mapping[int, Txn], txn: Txn) -> Blocked | None:
    """Return an unsettled transaction whose work this one has seen: it may still be undone."""
    if not txn.preds or txn.guards.reads != "early":
        return None
    number, scopes = next(iter(txn.preds.items()))
    return Blocked(known[number], next(iter(scopes)))


def is_open_to(hold: Hold) -> bool:
    """Whether a claim may be read through now: no act is in flight there, and no undo.

    Claims that commute are read through by nobody: their authors settle in any order, and no version tells which of
    them a read has seen.
    """
    txn = hold.txn
    if hold.commutes:
        return False
    if txn.state is State.ABORTING or (txn.state is State.RELEASING and hold.held):
        return False
    return not any(call.hold is hold and not call.returned and call.mode in AT_ONCE for call in txn.calls.values())


def depend(txn: Txn, scope: Scope, others: Iterable[Hold], *, first: bool) -> list[Hold]:
    """Record that a transaction has read the work under these claims, and return those that have done some.

    For a repeated read the `first` one counts; an author seen only now was not seen then.
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
    """Return the unfinished transactions that end with this one, the oldest first."""
    found = [known[number] for number in txn.dependents if number in known]
    yield from sorted((each for each in found if each.guards.reads == "early"), key=lambda each: each.position)


def readers_of(known: Mapping[int, Txn], index: ScopeIndex, txn: Txn, written: list[Hold]) -> list[tuple[Txn, Scope]]:
    """Return the reads that saw everything a transaction wrote, and that nothing else has made stale."""
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
    """Untie a finished transaction from its authors and its readers; return the authors."""
    for number in txn.dependents:
        if number in known:
            known[number].preds.pop(txn.id, None)
    ahead = [known[number] for number in txn.preds if number in known]
    for pred in ahead:
        pred.dependents.discard(txn.id)
    txn.preds, txn.dependents = {}, set()
    return ahead


__all__ = [
    "are_siblings",
    "callers",
    "depend",
    "dependents",
    "is_open_to",
    "part",
    "readers_of",
    "reads_through",
    "refuse_callers",
    "refuse_circle",
    "refuse_own_end",
    "refuse_own_name",
    "refuse_siblings",
    "refuse_to_wait",
    "siblings",
    "unsettled",
]
