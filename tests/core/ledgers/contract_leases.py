"""What the statements of leases promise, each beside a twin namespace that has the same resources: see `contract`."""

from __future__ import annotations

from tests.core.ledgers.twins import Twins
from tests.rooms.ledger import LeaseRow

NOTE = LeaseRow("desk:/note", 7, "ada", 1.0, 61.0, 60.0, 10.0)
REPO = LeaseRow("checkout:/repo", 9, "bob", 2.0, 32.0, 30.0, 5.0, 33.0)


def leased(twins: Twins) -> None:
    for side in (twins.other, twins.ours):
        for row in (NOTE, REPO):
            side.book(lambda book, row=row: book.leases.put(row))


def found(twins: Twins) -> list[LeaseRow]:
    return twins.ours.book(lambda book: book.leases.every())


def leases_are_found_as_they_were_written_in_the_order_of_their_scopes(twins: Twins) -> None:
    twins.other.book(lambda book: book.leases.put(REPO))
    twins.ours.book(lambda book: book.leases.put(NOTE))
    assert found(twins) == [NOTE]
    leased(twins)
    assert found(twins) == [REPO, NOTE]


def a_lease_on_a_scope_takes_the_place_of_the_one_before(twins: Twins) -> None:
    leased(twins)
    later = LeaseRow(NOTE.scope, 11, "eve", 70.0, 90.0, 20.0, 1.0, 95.0)
    twins.ours.book(lambda book: book.leases.put(later))
    assert found(twins) == [REPO, later]
    twins.ours.book(lambda book: book.leases.put(later._replace(asked=None)))
    assert found(twins) == [REPO, later._replace(asked=None)]


def a_lease_goes_by_its_scope_and_its_token_alone(twins: Twins) -> None:
    leased(twins)
    for other in (NOTE._replace(token=8), NOTE._replace(scope="desk:/other")):
        twins.ours.book(lambda book, other=other: book.leases.drop(other))
    assert found(twins) == [REPO, NOTE]
    twins.ours.book(lambda book: book.leases.drop(NOTE))
    assert found(twins) == [REPO]


def leases_that_ended_before_a_time_are_forgotten(twins: Twins) -> None:
    leased(twins)
    twins.ours.book(lambda book: book.leases.forget(32.0))
    assert found(twins) == [REPO, NOTE]
    twins.ours.book(lambda book: book.leases.forget(61.0))
    assert found(twins) == [NOTE]


def the_lease_on_a_scope_is_on_exactly_that(twins: Twins) -> None:
    twins.other.book(lambda book: book.leases.put(NOTE))
    twins.ours.book(lambda book: book.leases.put(REPO))
    asked = ("checkout:/repo", "checkout:/", "checkout:/repo/file", "desk:/note")
    assert [twins.ours.book(lambda book, at=at: book.leases.on(at)) for at in asked] == [REPO, None, None, None]


PROMISES = [
    promise
    for promise in list(globals().values())
    if getattr(promise, "__module__", "") == __name__
    and list(getattr(promise, "__annotations__", ())) == ["twins", "return"]
    and promise not in (leased, found)
]
