"""A lease of an agent on record, and what a book answers of leases.

A lease's token is an epoch: the ledger never gives one twice, in no process and for no resource, so a row may go when
its lease is over, and the next token is greater all the same. A worker's own lease, which keeps its transactions, is
another thing: see `settlemark.ledger._lease`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from settlemark._model.scope import Scope


class LeaseRow(NamedTuple):
    """An agent's lease, as recorded; times are in seconds since 1970, on the store's clock.

    `period` is for how many seconds it is renewed; `asked` is when another first asked for it after `until`, since the
    last renewal; `grace` is for how many seconds from then on its holder may still renew it.
    """

    scope: str
    token: int
    holder: str
    since: float
    until: float
    period: float
    grace: float
    asked: float | None = None

    @property
    def free_at(self) -> float:
        """When another may have it at the earliest, if it is not renewed and somebody asks for it by then."""
        return (self.until if self.asked is None else self.asked) + self.grace


class LeaseRows(Protocol):
    """The rows of leases, as one step may read and write them."""

    def every(self) -> list[LeaseRow]:
        """Return all leases that were not released or taken, by scope."""
        ...

    def near(self, scope: Scope) -> list[LeaseRow]:
        """Return, by scope, the leases that may overlap a scope, and few others: no more of the store is read."""
        ...

    def on(self, scope: str) -> LeaseRow | None:
        """Return the lease on exactly this scope, or None."""
        ...

    def put(self, row: LeaseRow) -> None:
        """Write a lease, in place of the one on the same scope."""
        ...

    def drop(self, row: LeaseRow) -> None:
        """Remove a lease: the one with its scope and its token."""
        ...

    def forget(self, before: float) -> None:
        """Remove the leases that have ended before this time."""
        ...


class Places(NamedTuple):
    """Where leases stand that may overlap a scope: `place_of` of theirs is one of `above`, or between `low` and `high`.

    Both bounds are left out. Texts are compared by their code points.
    """

    above: tuple[str, ...]
    low: str
    high: str


def places_of(scope: Scope) -> Places:
    """Return where leases stand that may overlap a scope: above it, on it, and below what it names before a wildcard.

    >>> places_of(Scope.parse("desk:/hall/*/lamp"))
    Places(above=('desk:/', 'desk:/hall'), low='desk:/hall/', high='desk:/hall0')
    """
    above = [f"{scope.type}:/"]
    for segment in scope.segments:
        if segment == "*":
            break
        above.append(f"{above[-1].removesuffix('/')}/{segment}")
    below = above[-1].removesuffix("/")
    return Places(tuple(above), f"{below}/", f"{below}0")  # "0" is what follows "/"


def place_of(scope: str) -> str:
    """Return where a lease stands: its scope, up to the first wildcard.

    >>> place_of("desk:/hall/*/lamp"), place_of("desk:/")
    ('desk:/hall', 'desk:/')
    """
    return places_of(Scope.parse(scope)).above[-1]


__all__ = ["LeaseRow", "LeaseRows", "Places", "place_of", "places_of"]
