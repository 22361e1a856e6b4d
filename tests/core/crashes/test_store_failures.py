"""A store that fails: torn by a power cut, stopped, full, or not to be written. Nothing acts that is not on record.

What fails says what to do; when the store is back the same settlement goes on, and nothing is lost or doubled.
"""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.core.crashes.programs import PATIENCE, Beside
from tests.core.crashes.sweep import Case, judged
from tests.core.crashes.test_recovery import ends, until
from tests.core.crashes.tools import tools

from settlemark import LedgerError, PartialCommit, SettlemarkError, Settlement, State, effect
from settlemark.testing._child import in_child

# ---- torn by a power cut

WAL_HEADER, FRAME_HEADER = 32, 24


class Torn:
    """A ledger whose log of changes is cut off somewhere, as a power cut leaves it."""

    def __init__(self, case, folder):
        self.case = case
        self.ledger = Path(case.url.removeprefix("sqlite:///"))
        self.wal = self.ledger.with_name("ledger.db-wal")
        self._folder = folder
        self._cuts = 0
        self.marks = []  # (bytes of the log, the keys that are on record by then)

    def mark(self, settlement):
        """Note what was acknowledged by now, and how long the log is: all of it is on the disk."""
        with closing(sqlite3.connect(self.ledger)) as looker:
            keys = {key for (key,) in looker.execute("SELECT key FROM settlemark_effect")}
        self.marks.append((self.wal.stat().st_size, keys))

    def frames(self):
        """Return the end of every frame of the log."""
        with closing(sqlite3.connect(self.ledger)) as looker:
            (page,) = looker.execute("PRAGMA page_size").fetchone()
        size = FRAME_HEADER + page
        return range(WAL_HEADER, self.wal.stat().st_size + 1, size), size

    def cut(self, length, *, zeros=0):
        """Return a copy whose log ends there, with so many bytes behind that were never written."""
        self._cuts += 1
        folder = self._folder / f"cut-{self._cuts}"
        folder.mkdir()
        shutil.copyfile(self.ledger, folder / "ledger.db")
        (folder / "ledger.db-wal").write_bytes(self.log[:length] + bytes(zeros))
        return Case(f"sqlite:///{folder / 'ledger.db'}", folder / "desk.db")


@pytest.fixture
def torn(in_memory, still):
    """A ledger at the moment of a power cut: one transaction committed, one undone, one open, one releasing."""
    case = in_memory.fresh()
    settlement, desk = case.open()
    known, torn = tools(desk), Torn(case, in_memory._folder)
    ask = desk.ask

    def marked(*asked, **options):
        torn.mark(settlement)  # each act stands behind its intent
        return ask(*asked, **options)

    desk.ask = marked
    with settlement, closing(desk):
        with settlement.transaction("committed") as tx:
            tx.call(known["add"], cell="a")
            tx.call(known["wire"], cell="b")
        with pytest.raises(ZeroDivisionError), settlement.transaction("undone") as tx:
            tx.call(known["add"], cell="c")
            tx.call(known["put"], cell="d")
            raise ZeroDivisionError
        settlement.transaction("open").__enter__().call(known["add"], cell="e")
        with settlement.transaction("releasing") as tx:
            for to in "fgh":
                tx.call(known["wire"], cell=to)
        torn.mark(settlement)
        torn.log = torn.wal.read_bytes()
        torn.ends = torn.frames()
        settlement.ledger._shared._let_go = lambda: None  # a checkpoint would empty the log
        yield torn


def test_wherever_its_log_is_torn_a_ledger_opens_with_all_that_was_acknowledged_and_nothing_half(torn):
    ends_of_frames, size = torn.ends
    assert len(ends_of_frames) > 50
    seen = set()
    for number, end in enumerate(ends_of_frames):
        cuts = [(end, 0), (end + size // 2, 0) if number % 2 else (end, size // 2)]
        for length, zeros in cuts:
            case = torn.cut(length, zeros=zeros)
            settlement, desk = case.open()
            with settlement, closing(desk):
                found = {e.row.key for r in settlement.transactions() for e in r.effects}
                promised = max((keys for at, keys in torn.marks if at <= end), key=len, default=set())
                assert promised <= found, f"torn at {length}"
                seen.add(frozenset(found))
                settlement.recover(keep_open=0)
                left = {(r.row.name, e.outcome.value) for r in settlement.transactions() for e in r.effects}
                assert not settlement.protocol.live
                assert all(outcome not in ("intended", "queued") for _, outcome in left)
                assert settlement.residue() == []
                with settlement.transaction("goes on") as tx:
                    tx.call(tools(desk)["add"], cell="z")
            with closing(sqlite3.connect(case.url.removeprefix("sqlite:///"))) as looker:
                assert looker.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            shutil.rmtree(case.desk.parent)
    assert len(seen) == 8  # none, and one intent more each time


def test_each_act_stands_behind_its_intent_on_the_disk(torn):
    """A control of the test above: what was acknowledged grows with each act, and none came before its intent."""
    assert [len(keys) for _, keys in torn.marks] == sorted(len(keys) for _, keys in torn.marks)
    assert torn.marks[0][1] == {"committed#1/0"}
    assert torn.marks[-1][1] >= {"committed#1/1", "undone#1/1", "open#1/0", "releasing#1/2"}


# ---- stopped in the middle


class Worker(Beside):
    """A thread that works on, whatever the store does, and does not leave a name before it has committed."""

    def __init__(self, number, settlement, desk, stopped):
        super().__init__(self._work_on)
        self._number, self._settlement, self._desk, self._stopped = number, settlement, desk, stopped
        self.errors = []
        self.done = []

    def _work_on(self):
        known, turn = tools(self._desk), 0
        while not self._stopped.is_set():
            turn += 1
            name = f"worker-{self._number}/{turn}"

            def act(tx):
                tx.call(known["add"], cell=f"own/{self._number}")
                tx.call(known["put"], cell="shared")
                tx.call(known["wire"], cell=f"to/{self._number}")

            while name not in self.done:
                try:
                    self._settlement.run(name, act)
                    self.done.append(name)
                except SettlemarkError as error:
                    self.errors.append(error)
                    self._stopped.wait(0.01)


def test_a_postgresql_that_is_stopped_at_once_again_and_again_loses_and_doubles_nothing(private_postgres, tmp_path):
    case = Case(private_postgres.create_database(), tmp_path / "desk.db")
    settlement, desk = case.open(keep_open=0)
    with settlement, closing(desk):
        stopped = threading.Event()
        workers = [Worker(number, settlement, desk, stopped) for number in range(4)]
        for worker in workers:
            worker.start()
        for _ in range(4):
            before = [len(worker.done) for worker in workers]
            until(lambda before=before: all(len(w.done) > n + 1 for w, n in zip(workers, before, strict=True)))
            private_postgres.stop("immediate")
            failed = sum(len(worker.errors) for worker in workers)
            until(lambda failed=failed: sum(len(worker.errors) for worker in workers) > failed)
            private_postgres.start()
        stopped.set()
        for worker in workers:
            worker.join()
        until(lambda: not settlement.protocol.live)
        errors = [error for worker in workers for error in worker.errors]
        told = [str(error) for error in errors if isinstance(error, LedgerError)]
        assert told
        assert [text for text in told if "the server is not reachable: what was open is taken up when it is" not in text] == []
        assert judged(settlement, desk, deaths=len(errors)) == []
        committed = {name for name, state in ends(settlement).items() if state is State.COMMITTED}
        assert committed == {name for worker in workers for name in worker.done}
        assert desk.cells()["shared"] == len(committed)
        assert settlement.residue() == []


# ---- full

FULL = "free some space: nothing was run that could not be recorded"


class Room:
    """How much a SQLite file may still grow."""

    def __init__(self, settlement):
        self._engine = settlement.ledger._shared.engine
        self._settlement = settlement
        self._pages = 0
        sa.event.listen(self._engine, "connect", self._limit)

    def _limit(self, connection, _record=None):
        connection.execute(f"PRAGMA max_page_count={self._pages or 2**31}")

    def take(self):
        """Leave none."""
        self._now(full=True)

    def give(self):
        """Leave enough."""
        self._now(full=False)

    def _now(self, *, full):
        wire = self._settlement.ledger._shared._wire
        with self._settlement.ledger._shared.leading:
            (pages,) = wire._driver.execute("PRAGMA page_count").fetchone() if wire is not None else (0,)
            self._pages = pages if full else 0
            if wire is not None:
                self._limit(wire._driver)


@pytest.fixture
def file(tmp_path):
    return Case(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "desk.db")


@pytest.fixture
def opened(file):
    settlement, desk = file.open(keep_open=0)
    with settlement, closing(desk):
        yield settlement, desk, tools(desk), Room(settlement)


def done(desk):
    return [(verb, cell) for verb, cell, *_ in desk.log() if verb != "read"]


LONG = "x" * 40_000  # an intent that needs pages of its own


def test_a_call_that_finds_the_disk_full_is_refused_and_what_was_done_before_is_undone(opened):
    settlement, desk, known, room = opened
    with pytest.raises(LedgerError, match=FULL):
        with settlement.transaction("trip") as tx:
            tx.call(known["add"], cell="a")
            room.take()
            tx.call(known["add"], cell=f"b/{LONG}")
    assert done(desk) == [("write", "a"), ("undo", "a")]
    room.give()
    assert ends(settlement) == {"trip": State.ABORTED}
    with settlement.transaction("trip") as tx:
        tx.call(known["add"], cell="a")
        tx.call(known["add"], cell=f"b/{LONG}")
    assert (tx.attempt, ends(settlement)) == (2, {"trip": State.COMMITTED})
    assert judged(settlement, desk) == []
    assert settlement.residue() == []


def test_a_transaction_goes_on_with_the_same_call_when_there_is_room_again(opened):
    settlement, desk, known, room = opened
    with settlement.transaction("trip") as tx:
        tx.call(known["add"], cell="a")
        room.take()
        with pytest.raises(LedgerError, match=FULL):
            tx.call(known["add"], cell=f"b/{LONG}")
        assert done(desk) == [("write", "a")]
        room.give()
        assert tx.call(known["add"], cell="b") == 1
    assert (tx.attempt, tx.state) == (1, State.COMMITTED)
    assert done(desk) == [("write", "a"), ("write", "b")]
    assert judged(settlement, desk) == []


@effect("reversible", scope="cell:/{cell}", undo=lambda cell: None)
def tell_much(cell):
    return LONG


def test_what_was_done_and_cannot_be_told_is_told_when_there_is_room_again(opened):
    settlement, desk, known, room = opened
    with settlement.transaction("trip") as tx:
        tx.call(known["add"], cell="a")
        room.take()
        settlement.ledger.later(lambda protocol, book: None)
        with pytest.raises(LedgerError, match=FULL):
            settlement.ledger.now(lambda protocol, book: book._wire.query(_GROW, {"text": LONG}))
        room.give()
        tx.call(known["wire"], cell="b")
    assert (tx.state, done(desk)) == (State.COMMITTED, [("write", "a"), ("letter", "b")])
    assert judged(settlement, desk) == []


def test_a_decision_that_finds_the_disk_full_is_none_and_nothing_leaves(opened):
    settlement, desk, known, room = opened
    with pytest.raises(LedgerError, match=FULL):
        with settlement.transaction("trip", before_commit=lambda footprint: grow(settlement, room)) as tx:
            tx.call(known["add"], cell="a")
            tx.call(known["wire"], cell="b")
    assert done(desk) == [("write", "a"), ("undo", "a")]
    room.give()
    assert ends(settlement) == {"trip": State.ABORTED}
    assert judged(settlement, desk) == []
    with settlement.transaction("trip") as tx:
        tx.call(known["add"], cell="a")
        tx.call(known["wire"], cell="b")
    assert done(desk)[2:] == [("write", "a"), ("letter", "b")]
    assert judged(settlement, desk) == []
