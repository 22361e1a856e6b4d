"""The order in which what a transaction has held leaves at its commit: what cannot be undone, last.

Held effects leave as they were issued, but an irreversible one lets go before it whatever can still fail or be undone
(a staged write, a call that was held because it overlaps another), wherever in its turn it was issued: should that
fail, the irreversible one never left. Two that touch one resource keep their order, always, and so do those of turns
that asked for it (`order="issued"`): what comes so behind an irreversible effect leaves behind it.

The order is a function of what is on record, so that a process which goes on with another's releases has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntFlag
from typing import NamedTuple, TypeVar

from settlemark._model.scope import Scope
from settlemark._protocol.index import HOLDS, NOWHERE, Position, ScopeIndex

_T = TypeVar("_T")


class Leaves(IntFlag):
    """What is asked of a held effect's place among those that leave with it.

    `LAST`: nothing that can fail or be undone leaves behind it, unless it overlaps it. `AS_ISSUED`: it keeps its place
    among the others of which the same is asked.
    """

    ANYWHERE = 0
    LAST = 1
    AS_ISSUED = 2


class Held(NamedTuple):
    """A held effect, for its place among those that leave."""

    leaves: int
    scopes: Sequence[Scope]


def leaving_order(issued: Sequence[_T], held: Callable[[_T], Held]) -> list[_T]:
    """Return held effects in the order in which they leave, given in that in which they were issued.

    >>> mail, page = Scope.parse("mail:/ada"), Scope.parse("page:/home")
    >>> turn = {"mail": Held(Leaves.LAST, [mail]), "page": Held(0, [page]), "resend": Held(0, [mail])}
    >>> leaving_order([*turn], turn.__getitem__)
    ['page', 'mail', 'resend']
    """
    index, strict = ScopeIndex(), NOWHERE
    places: list[tuple[Position, bool]] = []
    for number, one in enumerate(map(held, issued), 1):
        # Behind which of those that leave last it comes, by their numbers; such a one is told by its own.
        behind = here = (number, "")
        if not one.leaves & Leaves.LAST:
            found = (index.below(index.match(scope), HOLDS, here) for scope in one.scopes)
            behind = max((place for place in found if place is not None), default=NOWHERE)
        if one.leaves & Leaves.AS_ISSUED:
            behind = strict = max(behind, strict)
        for scope in one.scopes:
            index.add_position(index.enter(scope), HOLDS, behind)
        places.append((behind, not one.leaves & Leaves.LAST))
    return [issued[n] for n in sorted(range(len(places)), key=places.__getitem__)]


__all__ = ["Held", "Leaves", "leaving_order"]
