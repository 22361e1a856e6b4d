"""A worker whose store fails at any of its commits undoes nothing that is not on record, and at most one thing twice.

Its store takes a commit, or does not, and from then on answers nothing; another worker, that can reach it, buries the
first, at once or when that surely sends nothing any more, and ends its work. Then the store is back for the first, too.
All of that happens in one thread, on clocks of the test's own.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from contextlib import suppress

import pytest
from test_fenced import JOBS, LEASE, QUARANTINE, Failed, Office
from tests.rooms.ledger import _workers
from tests.rooms.sql import wire

from settlemark import Injected, Retries, SettlemarkError, Settlement
from settlemark.hosting import host_of
from settlemark.testing import VirtualClock

AWAY, SURELY_AWAY = 6, 6 + int(3 * QUARANTINE / LEASE) + 2
"""Looks, a third of a lease apart, until a worker is buried, and until it surely sends nothing any more."""


class Cut:
    """The way of one worker to its store: broken from one of its commits on."""

    def __init__(self, number, moment):
        self._number, self._moment = number, moment
        self._commits, self._writes = 0, False
        self.is_down = False
        self.is_others = False

    def watch(self, moment, text):
        if self.is_others:
            return
        if moment == "before":
            commits = text == "COMMIT" and self._writes
            self._commits += commits
            self._writes = text == "BEGIN IMMEDIATE" or (self._writes and not commits)
            self.is_down = self.is_down or (commits and (self._commits, "before") == (self._number, self._moment))
        elif text == "COMMIT" and not self._writes:
            self.is_down = self.is_down or (self._commits, "after") == (self._number, self._moment)
        if self.is_down:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Have a worker do a job whose store fails at a commit; return the counterparty, who ended it, and if it did."""
    opened = []

    def settle(url, clock, host):
        with monkeypatch.context() as patched:
            patched.setattr(_workers, "_host", lambda: host)
            made = Settlement(
                url,
                lease=LEASE,
                quarantine=QUARANTINE,
                keep_open=0,
                injected=Injected(monotonic=clock.monotonic),
                wait=1,
                retries=Retries(first=0, most=0),
                on_failure="retry",
            )
        host_of(made)._maintenance.stop()
        host_of(made).driver.probing.on_doubt = None  # the test asks
        opened.append(made)
        return made

    def looks(settlement, clock, number):
        for _ in range(number):
            clock.advance(LEASE / 3)
            host_of(settlement).driver.resolution.asked.clear()
            settlement.recover(keep_open=0)

    def run(job, number, moment, away):
        url = f"sqlite:///{tmp_path / f'{len(opened)}.db'}"
        office, clocks, (do, faults, _) = Office(), (VirtualClock(), VirtualClock()), JOBS[job]
        office.faults = {verb: list(planned) for verb, planned in faults.items()}
        worker = other = settle(url, clocks[0], "elsewhere/1/2/3.4")
        cut = Cut(number, moment)
        with monkeypatch.context() as patched:
            patched.setattr(wire, "watchers", [*wire.watchers, cut.watch])
            with suppress(SettlemarkError, Failed):
                do(worker, *office.tools())
            if away:
                cut.is_others, office.who = True, "other"
                other = settle(url, clocks[1], "here/1/2/3.4")
                looks(other, clocks[1], away)
        office.who = "ghost"
        for _ in range(3):
            looks(worker, clocks[0], 1)
            looks(other, clocks[1], 3)
        return office, other, cut.is_down

    yield run
    for made in opened:
        made.close()


def untrue(office, other):
    """Return how the record contradicts the counterparty's log, where each undo counts once, and what is left."""
    log = [(verb, key) for _, verb, key in office.log]
    wrong = [
        f"{found.row.key} is {found.outcome} ({found.tag})"
        for recorded in other.transactions()
        for found in recorded.effects
        if (found.outcome == "confirmed")
        != ((found.row.tool, found.row.key) in log and (f"un{found.row.tool}", found.row.key) not in log)
    ]
    wrong += [str(left) for left in (*other.residue(), *other.in_doubt())]
    wrong += [f"unfinished: {txn.name}" for txn in host_of(other).protocol.live.values()]
    wrong += [f"{count} times: {verb}" for (verb, _), count in Counter(log).items() if count > 1 and verb != "unbook"]
    return wrong


@pytest.mark.sampled(5)
@pytest.mark.parametrize("away", [0, AWAY, SURELY_AWAY], ids=["nobody else", "another", "another, and surely"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("job", JOBS)
def test_at_whichever_commit_its_store_fails_the_job_ends_once_and_what_is_undone_twice_is_one_at_most(
    play, job, moment, away
):
    for number in itertools.count(1):
        office, other, happened = play(job, number, moment, away)
        if not happened:
            break
        assert (number, untrue(office, other)) == (number, [])
        undone = Counter(key for _, verb, key in office.log if verb == "unbook")
        # The undo whose own record was lost, by one who surely does nothing more: nobody can know of it.
        assert (number, undone.total() - len(undone)) <= (number, int(away == SURELY_AWAY))
    assert number > 6
