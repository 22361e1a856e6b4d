"""Who cannot end before whom: what would wait for one of those, would wait for ever, so it is refused at once.

A transaction that runs inside another's call, independent of it, has to end before that call returns. The
branches of a choice end together, when one was chosen. Both are ties that no frontier shows: whoever is
tied may wait for others, but not for those it is tied to, nor for anybody who waits for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

from settlemark._edges.errors import Entangled
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Blocked, Call, Mode, Txn
from settlemark._protocol.index import HOLDS, Position, ScopeIndex
from settlemark._protocol.states import State

_CAN_WAIT = (State.OPEN, State.SEALED)


def callers(known: Mapping[int, Txn], parent: int) -> Iterator[Txn]:
    """Return those in whose calls a transaction with this parent runs, the innermost first."""
    caller = known.get(parent)
    while caller is not None:
        yield caller
        caller = known.get(caller.parent)


def siblings(known: Mapping[int, Txn], txn: Txn) -> Iterator[Txn]:
    """Return the other branches of the choice that a transaction is a branch of, as far as they are unfinished."""
    choice = known.get(txn.group) if txn.group else None
    if choice is not None and choice.role == "choice":
        yield from (member for member in choice.members.values() if member is not txn)


def are_siblings(known: Mapping[int, Txn], one: Txn, other: Txn) -> bool:
    """Whether two transactions are branches of one choice."""
    return one.group == other.group != 0 and one.group in known and known[one.group].role == "choice"


def refuse_own_name(known: Mapping[int, Txn], name: str, parent: int, same: Txn, *, within: bool = False) -> None:
    """Return when a name in use is not that of one in whose call, or `within` whose body, it is to be begun.

    Raises:
        Entangled: it is.
    """
    if any(caller is same for caller in callers(known, parent)):
        raise Entangled(
            f"{name} was begun anew inside a call of its own: nothing was run; give the inner one a name of its own, or"
            " let it join (leave out independent=True)",
            transaction=name, holder=name, scope=None,
        )  # fmt: skip
    if within and not same.finished:
        raise Entangled(
            f"{name} was entered again within itself, where it would wait for its own end: nothing was run; use the"
            " transaction that is open, or give the inner one a name of its own",
            transaction=name, holder=name, scope=None,
        )  # fmt: skip


def refuse_own_end(name: str) -> NoReturn:
    """Refuse to end a transaction in a call of its own, or in what is asked for it.

    Raises:
        Entangled: always.
    """
    raise Entangled(
        f"{name} cannot commit before the call has returned in which that was asked for: nothing moved; let it return,"
        " and commit then",
        transaction=name, holder=name, scope=None,
    )  # fmt: skip


def refuse_to_wait(name: str, to: Blocked) -> NoReturn:
    """Refuse a wait for one that is asked for something, and cannot end before that has returned: the caller is in it.

    Raises:
        Entangled: always.
    """
    raise Entangled(
        f"{name} would wait for {to.holder.name}, which holds {to.scope} and cannot end before what is asked for it has"
        " returned, which this is a part of: it goes no further; do it when that has returned",
        transaction=name, holder=to.holder.name, scope=to.scope,
    )  # fmt: skip


def refuse_callers(known: Mapping[int, Txn], name: str, parent: int, scope: Scope) -> None:
    """Return when nobody in whose call a transaction runs holds the scope.

    Raises:
        Entangled: one does.
    """
    for caller in callers(known, parent):
        if any(hold.scope.overlaps(scope) for hold in caller.holds.values()):
            _refuse_inner(name, caller, scope)


def _refuse_inner(name: str, caller: Txn, scope: Scope) -> NoReturn:
    raise Entangled(
        f"{name} was begun inside a call of {caller.name}, which holds {scope} until that call has returned: each would"
        " wait for the other, so nothing was run; let it join (leave out independent=True), or begin it when the call"
        " has returned",
        transaction=name, holder=caller.name, scope=scope,
    )  # fmt: skip


def refuse_siblings(known: Mapping[int, Txn], call: Call) -> None:
    """Return when a branch may touch a scope without waiting for another branch of its choice.

    What one of them has done at once stands until the choice: the others can neither read nor do it. What they
    hold back they may all hold, because one at most is let go.

    Raises:
        Entangled: it would have to wait.
    """
    if call.mode is Mode.HELD:
        return
    for sibling in siblings(known, call.txn):
        if sibling.state not in _CAN_WAIT:
            continue  # it is being undone: that is waited for
        waits = call.mode is Mode.FINAL and sibling.position < call.txn.position
        for hold in sibling.holds.values():
            if (hold.claims or waits) and hold.scope.overlaps(call.scope):
                _refuse_branch(call.txn, sibling, call.scope)


def _refuse_branch(txn: Txn, sibling: Txn, scope: Scope) -> NoReturn:
    raise Entangled(
        f"{txn.name} needs {scope}, which {sibling.name}, a branch beside it, has until one of them is chosen: nothing"
        " was run; stage it per branch (declare the tool staged, or irreversible), so that it happens in the chosen one"
        " alone, or give each branch a resource of its own",
        transaction=txn.name, holder=sibling.name, scope=scope,
    )  # fmt: skip


def refuse_circle(
    known: Mapping[int, Txn],
    live: Mapping[Position, Txn],
    index: ScopeIndex,
    ties: Iterable[int],
    txn: Txn,
    to: Blocked,
) -> None:
    """Return when a tied transaction may wait: whom it waits for does not wait for one that it is tied to.

    `ties` are the numbers of all that are tied: whom it waits for may wait for those it is tied to itself.

    Raises:
        Entangled: that would be a circle.
    """
    tied = {*callers(known, txn.parent), *(other for other in siblings(known, txn) if other.state in _CAN_WAIT)}
    if not tied or not (to.holder.state in _CAN_WAIT or to.holder.dependents):
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
        following += [(called, False) for called in inner.get(ahead.id, ()) if called.state in _CAN_WAIT]
        following += [(other, True) for other in siblings(known, ahead) if other.state in _CAN_WAIT]
        # One that is undone waits for those that saw it, and they for what runs inside of their calls.
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
        f"{txn.name} would wait for {to.holder.name}, which holds {to.scope} and {waits}cannot end before {txn.name}:"
        f" nothing was run; do it when {last.name} has ended",
        transaction=txn.name, holder=to.holder.name, scope=to.scope,
    )  # fmt: skip


def _older(live: Mapping[Position, Txn], index: ScopeIndex, txn: Txn, *, rests: bool) -> Iterator[Txn]:
    """Return whom a transaction waits for: until it commits, or with `rests` until its calls have returned."""
    waits = _waits(txn)
    for hold in txn.holds.values():
        if hold.wants or (hold.lined and txn.begins_again) or (waits and not rests):
            match, position = index.match(hold.scope), txn.position
            while (below := index.below(match, HOLDS, position)) is not None:
                position = below
                yield live[below]


def _waits(txn: Txn) -> bool:
    """Whether it will have to wait for older ones: what only reads does not."""
    return txn.wrote or any(hold.wants for hold in txn.holds.values())


__all__ = [
    "are_siblings",
    "callers",
    "refuse_callers",
    "refuse_circle",
    "refuse_own_end",
    "refuse_own_name",
    "refuse_siblings",
    "refuse_to_wait",
    "siblings",
]
