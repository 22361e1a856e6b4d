"""What a commit decision says of obligations: what its effects fulfil, and that what was due was still owed.

Both are looked up in the step that takes the decision: no other decision comes in between, so nothing is fulfilled
twice, and a handler of what is due by now commits nothing once another has fulfilled it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from settlemark._acts.effect import Effect
from settlemark._attempt.attempt import Attempt
from settlemark._model.effect_class import Outcome
from settlemark._model.scope import Scope
from settlemark._owing.obligation import DUE, payload_in
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason
from settlemark.ledger._contract import Book, Change
from settlemark.ledger._owed import GONE, OwedChange, OwedPage, OwedState, RecordedOwed, Told
from settlemark.ledger._payloads.unreadable import Unreadable

_NOT_YET = (Outcome.INTENDED, Outcome.SUSPENDED, *GONE)


def fulfil(attempt: Attempt, protocol: Protocol, book: Book, at: float) -> list[Change]:
    """Return what a commit says of obligations: each of its effects fulfils at most one, the one that is due first.

    An effect whose outcome nobody knows fulfils like another: its obligation is open again once it is known not to have
    happened.
    """
    if not protocol.tools.owed:
        return []
    changes: list[Change] = []
    due = _due_in(attempt, book)
    if due is not None:
        changes.append(OwedChange(due.row.id, at, told=Told.HANDLED))
    elsewhere = {e for splinter in attempt.splinters for e in (*splinter.effects, *splinter.behind)}
    effects = [e for e in attempt.in_order() if e.outcome not in _NOT_YET and e not in elsewhere]
    tools = {tool for effect in effects for tool in _names(effect)} & protocol.tools.owed
    if not tools:
        return changes
    owed = book.debts.find(OwedPage(tools=tuple(sorted(tools)), unended=True))
    for effect in effects:
        kept = next((each for each in owed if _keeps(attempt, effect, each)), None)
        if kept is not None:
            owed.remove(kept)
            changes.append(OwedChange(kept.row.id, at, fulfilled=effect.key))
    return changes


def refuse_ended(attempt: Attempt, txn: Txn, protocol: Protocol, book: Book, at: float) -> None:
    """Abort the transaction of a due handler, and raise why, when what was due is owed no more.

    Its decision is recorded even when the handler has done nothing: so it is not called again.

    Raises:
        Stale: it was fulfilled, waived or withdrawn meanwhile.
    """
    due = _due_in(attempt, book) if protocol.tools.owed else None
    if due is not None and due.state is not OwedState.OPEN:
        how = f"is owed no more: {due.row.id} is {due.state}"
        protocol.abort(txn, Reason.STALE, scope=Scope.parse(due.row.scope), how=how, remedy="there is nothing to do")
        raise protocol.refusal(txn)
    if due is not None and not attempt.written:
        attempt.put(book, [attempt.opening(owner=txn.owner, at=at)])
        attempt.written = True
        book.on_rollback(partial(setattr, attempt, "written", False))


def _due_in(attempt: Attempt, book: Book) -> RecordedOwed | None:
    """Return the obligation that a transaction is the handling of, or None."""
    if not attempt.name.startswith(DUE) or attempt.run != attempt.name:
        return None
    return next(iter(book.debts.find(OwedPage(id=attempt.name.removeprefix(DUE)))), None)


def _names(effect: Effect) -> Iterable[str]:
    return (effect.declaration.tool, *effect.declaration.aliases)


def _keeps(attempt: Attempt, effect: Effect, owed: RecordedOwed) -> bool:
    row = owed.row
    if (row.name, row.attempt) == (attempt.name, attempt.number):
        if effect.position < row.position:
            return False  # it came before
    elif owed.state is not OwedState.OPEN:
        return False
    if row.tool not in _names(effect) or isinstance(row.payload, Unreadable):
        return False
    where = Scope.parse(row.scope)
    if not any(where.overlaps(scope) for scope in effect.scopes):
        return False
    _, matching = payload_in(row)
    return all(name in effect.arguments and effect.arguments[name] == value for name, value in matching.items())


__all__ = ["fulfil", "refuse_ended"]
