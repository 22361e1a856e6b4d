"""SIGKILL before and after every statement of a lease's life: it is held once or free, and no token comes twice."""

from __future__ import annotations

import pytest
from tests.core.crashes.sweep import OTHER_DATABASES

from settlemark import LeaseHeld, Settlement
from settlemark.testing import KillPoints, VirtualClock

REPO = "checkout:/repo"

pytestmark = [pytest.mark.usefixtures("still"), pytest.mark.long]


def live(case, clock):
    """Lease a resource, renew it, give it back, and lease it again, telling each token."""
    told = case.desk.with_suffix(".tokens")
    with Settlement(case.url, namespace=case.namespace, **clock.options()) as settlement:
        for by in ("ada", "bob"):
            lease = settlement.lease(REPO, for_=60, by=by)
            with told.open("a") as file:
                file.write(f"{lease.token}\n")
            lease.renew()
            if by == "ada":
                lease.release()


def judged(case, clock):
    """Return what is wrong after a death: the next process waits until what is held has lapsed, and leases it once."""
    file = case.desk.with_suffix(".tokens")
    told = [int(line) for line in file.read_text().split()] if file.exists() else []
    wrong = []
    with Settlement(case.url, namespace=case.namespace, **clock.options()) as settlement:
        rows = settlement.leases()
        if len(rows) > 1 or (rows and rows[0].holder not in ("ada", "bob")):
            wrong.append(f"held by {rows}")
        if rows:
            try:
                settlement.lease(REPO, for_=60, by="eve")
                wrong.append(f"{rows} was not held")
            except LeaseHeld as error:
                if error.token != rows[0].token:
                    wrong.append(f"another was named: {error}")
            clock.advance(61)
            try:
                settlement.lease(REPO, for_=60, by="eve")
                wrong.append("it was taken without a grace")
            except LeaseHeld:
                clock.advance(10)
        lease = settlement.lease(REPO, for_=60, by="eve")
        known = [*told, *(row.token for row in rows)]
        if known and lease.token <= max(known):
            wrong.append(f"{lease.token} is not greater than {known}")
        if [row.holder for row in settlement.leases()] != ["eve"]:
            wrong.append(f"then held by {settlement.leases()}")
    return wrong


@pytest.mark.parametrize("store", ["in_memory", "namespaces"])
def test_whatever_statement_it_dies_at(store, request, record_property):
    stores, kills = request.getfixturevalue(store), 0
    first = stores.fresh()
    points = KillPoints.count(lambda: live(first, VirtualClock()), url=OTHER_DATABASES)
    numbers = range(1, points + 1) if store == "in_memory" else range(1, points + 1, 7)
    for number in numbers:
        case = stores.fresh()
        ended = KillPoints(number, url=OTHER_DATABASES).run(lambda case=case: live(case, VirtualClock()))
        kills += ended.signal is not None
        assert judged(case, VirtualClock()) == [], f"killed at {number} of {points}"
        stores.drop(case)
    assert kills >= 0.9 * len(numbers) > 0
    record_property("explored_kills", kills)
