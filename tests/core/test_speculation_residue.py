"""What losing branches leave at counterparties that keep their own logs: nothing, in a thousand trials a class."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from tests.extent import ALL

from settlemark import current_call, effect, inverse
from settlemark.hosting import host_of
from settlemark.testing import Mailbox, Provider

TRIALS = 1_000 if ALL else 200
DURABLE_TRIALS = 60
BRANCHES = 2
AT_ONCE = 4


@pytest.fixture(scope="module")
def agency():
    with Provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def post():
    with Mailbox() as mailbox:
        yield mailbox


class Counterparty:
    """What the branches act on, and what is there when all is over."""

    def __init__(self, agency, post):
        self.agency, self.post = agency, post
        agency.reset()
        post.reset()

    def tools(self):
        agency, post = self.agency, self.post

        def cancel(booking):
            agency.cancel("hotel", booking)

        def book(trip, branch):
            call = current_call()
            return agency.book("hotel", key=None if call is None else call.key, trip=trip, branch=branch)

        def mail(trip, branch):
            to, body = f"{branch}@{trip}.example", f"{trip}/{branch}"
            post.send(to, "Booked", body, message_id=f"<{trip}.{branch}@agent.example>")

        undo = inverse(cancel, booking="id")
        scope = "room:/{trip}/{branch}"
        return {
            "staged": effect("staged", scope="room:/{trip}", name="book staged")(copied(book)),
            "reversible": effect("reversible", scope=scope, undo=undo, name="book")(copied(book)),
            "idempotent": effect("idempotent", scope=scope, undo=undo, probe=agency.probe, name="book with a key")(
                copied(book)
            ),
            "irreversible": effect("irreversible", scope="mail:/{trip}", name="mail")(mail),
        }

    def left(self, kind):
        """Which branches' effects are there, by trip."""
        if kind == "irreversible":
            found = [message["body"].strip().split("/") for message in self.post.messages()]
        else:
            requests = [entry["request"] for entry in self.agency.bookings_left()]
            found = [(request["trip"], str(request["branch"])) for request in requests]
        left = {}
        for trip, branch in found:
            left.setdefault(trip, []).append(int(branch))
        return left


def copied(function):
    def tool(trip, branch):
        return function(trip, branch)

    return tool


@pytest.fixture
def counterparty(agency, post):
    return Counterparty(agency, post)


KINDS = ["staged", "reversible", "idempotent", "irreversible"]


def trials(settlement, tool, count):
    """Run them, some beside each other, and return who won each."""
    random = Random(7)
    won = {f"t{number}": random.randrange(BRANCHES) for number in range(count)}

    def trial(trip):
        branches = [lambda tx, n=n: tx.call(tool, trip=trip, branch=n) for n in range(BRANCHES)]
        settlement.speculate(branches, lambda _: won[trip], name=trip)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(trial, won))
    return won


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_losing_branches_leave_nothing_in_a_thousand_trials(quick, counterparty, kind, record_property):
    won = trials(quick, counterparty.tools()[kind], TRIALS)
    left = counterparty.left(kind)
    residue = [trip for trip, branches in left.items() if branches != [won[trip]]]
    record_property("trials", TRIALS)
    record_property("residue", len(residue))
    assert residue == []
    assert left.keys() == won.keys()  # prevention by doing nothing would be no prevention
    assert min(Counter(won.values()).values()) > TRIALS // 3
    assert quick.residue() == []
    assert host_of(quick).protocol.live == {}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_same_on_a_durable_store(settlement, counterparty, kind):
    won = trials(settlement, counterparty.tools()[kind], DURABLE_TRIALS)
    assert counterparty.left(kind) == {trip: [winner] for trip, winner in won.items()}
    assert settlement.residue() == []


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_settlement_every_losing_branch_stays(counterparty, kind):
    tool = counterparty.tools()[kind]
    for number in range(DURABLE_TRIALS):
        for branch in range(BRANCHES):
            tool(trip=f"t{number}", branch=branch)
    assert all(branches == list(range(BRANCHES)) for branches in counterparty.left(kind).values())
    assert len(counterparty.left(kind)) == DURABLE_TRIALS
