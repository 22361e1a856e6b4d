"""The order in which held effects leave at the commit: irreversible ones last.

Held effects leave as they were issued, except that an irreversible one lets everything go first that can still fail or
be undone (a staged write, a call that was held because it overlaps another), wherever in its turn it was issued: if
that fails, the irreversible one has never left. Two effects on one resource always keep their order, and so do those of
turns with `order="issued"`: what is issued so after an irreversible effect leaves after it.

The order is a function of the record, so that a process which continues another's releases finds the same order.
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

    `LAST`: nothing that can fail or be undone leaves after it, unless the two overlap. `AS_ISSUED`: it keeps its place
    among the others with this flag.
    """

    LAST = 1
    AS_ISSUED = 2


class Held(NamedTuple):
    """A held effect, as far as its place in the order matters."""

    leaves: int
    scopes: Sequence[Scope]


def leaving_order(issued: Sequence[_T], held: Callable[[_T], Held]) -> list[_T]:
    """Return held effects in the order in which they leave, given in issuance order.

    >>> mail, page = Scope.parse("mail:/ada"), Scope.parse("page:/home")
    >>> turn = {"mail": Held(Leaves.LAST, [mail]), "page": Held(0, [page]), "resend": Held(0, [mail])}
    >>> leaving_order([*turn], turn.__getitem__)
    ['page', 'mail', 'resend']
    """
    index, strict = ScopeIndex(), NOWHERE
    places: list[tuple[Position, bool]] = []
    for number, one in enumerate(map(held, issued), 1):
        # The sort key: the numbers of the last-leaving effects it comes after; such an effect's own number for itself.
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
