"""The gate, measured: invalid mails from five abort sources, through the public face and a real SMTP server.

The mailbox is another process with a log of its own; that log is what is counted. The control calls
the same tools without a settlement, as a framework does.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

pytest.importorskip("aiosmtpd")

from settlemark import Cancelled, Refused, Settlement, Stale, Vetoed, WaitTimeout, Wounded, effect
from settlemark.testing import Mailbox

TRIALS = 100


@pytest.fixture(scope="module")
def mailbox():
    with Mailbox() as mailbox:
        yield mailbox


class Desk:
    """The tools of one trip desk: rooms are kept here, mails go to the mailbox."""

    def __init__(self, mailbox):
        self.rooms = []
        rooms = self.rooms

        @effect("reversible", scope="room:/{room}", undo=lambda room: rooms.remove(room))
        def reserve(room):
            rooms.append(room)

        @effect("irreversible", scope="mail:/{to}")
        def send(to, subject):
            mailbox.send(to, subject, "See you there.")

        @effect("opaque", scope="broken:/{room}")
        def break_down(room):
            raise ValueError(f"no {room}")

        @effect("staged", scope="price:/{room}")
        def reprice(room):
            return None

        self.reserve, self.send, self.break_down, self.reprice = reserve, send, break_down, reprice

    def book(self, tx, trip, kind):
        tx.read(f"price:/{trip}")
        tx.call(self.reserve, room=trip)
        return tx.call(self.send, to=f"{trip}@example.com", subject=f"{kind} {trip}")


def _tool_failure(settlement, desk, trip):
    with pytest.raises(ValueError, match="no "), settlement.transaction(trip) as tx:
        desk.book(tx, trip, "invalid")
        tx.call(desk.break_down, room=trip)


def _wounded_or_cancelled(settlement, desk, trip):
    if trip.endswith(tuple("02468")):
        with pytest.raises(Cancelled), settlement.transaction(trip) as tx:
            desk.book(tx, trip, "invalid")
            settlement.cancel(trip)
        return
    with settlement.transaction(f"older-{trip}", may_touch=[f"room:/{trip}"]) as older:
        with pytest.raises(Wounded), settlement.transaction(trip) as tx:
            desk.book(tx, trip, "invalid")
            older.read(f"room:/{trip}")


def _stale_read(settlement, desk, trip):
    with settlement.transaction(f"older-{trip}") as older:
        with pytest.raises(Stale), settlement.transaction(trip) as tx:
            desk.book(tx, trip, "invalid")
            older.call(desk.reprice, room=trip)
            older.commit()


def _veto(settlement, desk, trip):
    with (
        pytest.raises(Vetoed),
        settlement.transaction(trip, before_commit=[lambda footprint: "over budget"]) as tx,
    ):
        desk.book(tx, trip, "invalid")


def _timeout(settlement, desk, trip):
    with settlement.transaction(f"older-{trip}", may_touch=[f"mail:/{trip}@example.com"]):
        with pytest.raises(WaitTimeout), settlement.transaction(trip, wait=0) as tx:
            desk.book(tx, trip, "invalid")


SOURCES = {
    "tool failure": _tool_failure,
    "wounded or cancelled run": _wounded_or_cancelled,
    "stale read": _stale_read,
    "veto": _veto,
    "timeout": _timeout,
}


def _sent(mailbox):
    return Counter(message["subject"] for message in mailbox.messages())


@pytest.mark.parametrize("source", SOURCES)
def test_of_100_invalid_mails_none_leaves_and_100_valid_ones_leave_once(source, mailbox):
    mailbox.reset()
    settlement = Settlement("memory:")
    desk = Desk(mailbox)
    trips = [f"{source.replace(' ', '-')}-{n}" for n in range(TRIALS)]
    for trip in trips:
        SOURCES[source](settlement, desk, trip)
        with settlement.transaction(f"valid-{trip}") as tx:
            desk.book(tx, f"valid-{trip}", "valid")
    assert _sent(mailbox) == Counter({f"valid valid-{trip}": 1 for trip in trips})
    assert desk.rooms == [f"valid-{trip}" for trip in trips]
    assert settlement.residue() == []


def test_without_a_settlement_every_invalid_mail_leaves(mailbox):
    mailbox.reset()
    desk = Desk(mailbox)
    for n in range(TRIALS):
        with suppress(ValueError):
            desk.reserve(room=f"{n}")
            desk.send(to="a@example.com", subject=f"invalid {n}")
            desk.break_down(room=f"{n}")
    assert sum(_sent(mailbox).values()) == TRIALS


def test_a_refusal_says_who_was_refused_and_why():
    settlement = Settlement("memory:")
    with pytest.raises(Refused, match="trip was undone: .* said no: over budget"):
        with settlement.transaction("trip", before_commit=[lambda footprint: "over budget"]):
            pass
