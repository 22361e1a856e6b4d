"""A trip of twelve steps, whose bookings and mails keep logs of their own."""

from __future__ import annotations

import pytest

from settlemark import Scope, current_call, effect

STEPS = 12
CONFLICT = 4
HEARD = 10


class Agency:
    """Books, cancels and mails for trips, and knows nothing of settlements: `log` is what happened to it."""

    def __init__(self):
        self.log = []
        self.cancelled = set()

        def cancel(place, key):
            if key not in self.cancelled:
                self.cancelled.add(key)
                self.log.append(f"cancel {place}")

        @effect("reversible", scope="trip:/{place:path}", undo=cancel)
        def book(place):
            self.log.append(f"book {place}")
            return {"place": place, "key": current_call().key}

        @effect("irreversible", scope="mail:/{to}")
        def mail(to, text):
            self.log.append(f"mail {to} {text}")
            return "sent"

        self.book, self.mail = book, mail

    @property
    def stands(self):
        """What of the bookings stands, oldest first."""
        found = []
        for entry in self.log:
            what, place = entry.split(" ", 1)
            if what == "cancel":
                found.remove(f"book {place}")
            else:
                found.append(entry)
        return found


class Trip:
    """The program of a trip: step 4 books the hotel that was said last; 5 stands on that; with `mails`, 6 sends mail.

    Args:
        agency: where it books.
        mails: whether step 6 cannot be undone.
        at: called before a step begins, with its number.
    """

    def __init__(self, agency, *, mails=False, at=lambda step: None):
        self.agency, self.mails, self.at = agency, mails, at
        self.calls = 0
        self.told = []  # what was said to each step, by number

    def __call__(self, run):
        self.calls += 1
        self.told = []
        for number in range(1, STEPS + 1):
            self.at(number)
            with run.step(str(number)) as tx:
                self.told.append([said.text for said in run.said])
                self.act(number, run, tx)
        return self.agency.stands

    def hotel(self, run):
        revised = [said.text for said in run.said if said.what == "revise"]
        return revised[-1] if revised else "Ada"

    def act(self, number, run, tx):
        if number == CONFLICT:
            with tx.decide("the hotel", grounds=[Scope.parse("price:/hotels")]):
                tx.call(self.agency.book, place=f"hotel/{self.hotel(run)}")
        elif number == 6 and self.mails:
            tx.call(self.agency.mail, to="ada", text="your trip")
        else:
            tx.call(self.agency.book, place=f"day/{number}")


@pytest.fixture
def agency():
    return Agency()


@pytest.fixture
def trip(agency):
    """Return a maker of a trip's program."""

    def make(**options):
        return Trip(agency, **options)

    return make
