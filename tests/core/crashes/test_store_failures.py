"""A store that fails: torn by a power cut, stopped, full, or not to be written. Nothing acts that is not on record.

What fails says what to do; when the store is back the same settlement goes on, and nothing is lost or doubled.
"""

from __future__ import annotations

import ctypes
import os
import pwd
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
from tests.core.crashes.test_recovery import ends, until, until_over
from tests.core.crashes.tools import tools
from tests.core.workers.audit import audit

from settlemark import LedgerError, SettlemarkError, Settlement, State, effect
from settlemark.hosting import host_of
from settlemark.testing import die, in_child

# ---- torn by a power cut

WAL_HEADER, FRAME_HEADER = 32, 24


class Torn:
    """A ledger whose log of changes is cut off somewhere, as a power cut leaves it.

    Attributes:
        marks: (bytes of the log, the keys that are on record by then), at each act.
        ends: where the log's frames end; each has `size` bytes.
    """

    def __init__(self, case, folder, marks):
        ledger = Path(case.url.removeprefix("sqlite:///"))
        self.marks = [(at, set(keys)) for at, keys in marks]
        self._file, self._log = ledger.read_bytes(), ledger.with_name("ledger.db-wal").read_bytes()
        self._folder = folder
        self.size = FRAME_HEADER + int.from_bytes(self._log[8:12])
        self.ends = range(WAL_HEADER, len(self._log) + 1, self.size)

    def cut(self, length, *, zeros=0):
        """Return a copy whose log ends there, with so many bytes behind that were never written."""
        folder = self._folder / f"cut-{length}-{zeros}"
        folder.mkdir()
        (folder / "ledger.db").write_bytes(self._file)
        (folder / "ledger.db-wal").write_bytes(self._log[:length] + bytes(zeros))
        return Case(f"sqlite:///{folder / 'ledger.db'}", folder / "desk.db")


def marked(tell, case):
    """Commit one, undo one, leave one open, let one release; before each act tell what is on record."""
    settlement, desk = case.open()
    known, ask = tools(desk), desk.ask
    ledger = case.url.removeprefix("sqlite:///")

    def mark():
        with closing(sqlite3.connect(ledger)) as looker:
            keys = [key for (key,) in looker.execute("SELECT key FROM settlemark_effect")]
        tell([Path(f"{ledger}-wal").stat().st_size, keys])

    def marking(*asked, **options):
        mark()
        return ask(*asked, **options)

    desk.ask = marking
    with settlement.transaction("committed") as tx:
        tx.call(known["add"], cell="a")
        tx.call(known["wire"], cell="b")
    with pytest.raises(ZeroDivisionError), settlement.transaction("undone") as tx:
        tx.call(known["add"], cell="c")
        tx.call(known["put"], cell="d")
        raise ZeroDivisionError
    left_open = settlement.transaction("open").__enter__()
    left_open.call(known["add"], cell="e")
    with settlement.transaction("releasing") as tx:
        for to in "fgh":
            tx.call(known["wire"], cell=to)
    mark()
    die()


@pytest.fixture
def torn(in_memory, still):
    """The files of a process at the moment of a power cut."""
    case = in_memory.fresh()
    ended = in_child(lambda tell: marked(tell, case), timeout=PATIENCE)
    assert ended.killed, ended.error
    return Torn(case, case.desk.parent, ended.told)


def test_each_act_stands_behind_its_intent_in_the_log(torn):
    acts = [
        "committed#1/0",
        "committed#1/1",
        "undone#1/0",
        "undone#1/1",
        "open#1/0",
        *[f"releasing#1/{n}" for n in range(3)],
    ]
    assert [len(keys) for _, keys in torn.marks] == [1, 2, 3, 4, 5, 8, 8, 8, 8]
    assert torn.marks[-1][1] == set(acts)
    assert torn.marks[0][1] == {acts[0]}


def test_wherever_its_log_is_torn_a_ledger_opens_with_all_that_was_acknowledged_and_nothing_half(torn):
    found_in_order = []
    for number, end in enumerate(torn.ends):
        middle = torn.size // 2
        lengths = [(end, 0), (end + middle, 0) if number % 2 else (end, middle)]
        for case in [torn.cut(length, zeros=zeros) for length, zeros in lengths]:
            settlement, desk = case.open()
            with settlement, closing(desk):
                found = {e.row.key for r in settlement.transactions() for e in r.effects}
                promised = max((keys for at, keys in torn.marks if at <= end), key=len, default=set())
                assert promised <= found, f"torn at {end}"
                found_in_order.append(len(found))
                settlement.recover(keep_open=0)
                recorded = settlement.transactions()
                assert {r.state for r in recorded} <= {State.COMMITTED, State.ABORTED}
                assert {e.outcome.value for r in recorded for e in r.effects} <= {
                    "confirmed",
                    "undone",
                    "failed",
                    "dropped",
                }
                assert (host_of(settlement).protocol.live, settlement.residue()) == ({}, [])
                with settlement.transaction("goes on") as tx:
                    tx.call(tools(desk)["add"], cell="z")
            with closing(sqlite3.connect(case.url.removeprefix("sqlite:///"))) as looker:
                assert looker.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            shutil.rmtree(case.desk.parent)
    assert len(found_in_order) == 2 * len(torn.ends)
    assert found_in_order == sorted(found_in_order)
    assert set(found_in_order) == set(range(9))


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
        until_over(settlement)
        told = [str(error) for worker in workers for error in worker.errors if isinstance(error, LedgerError)]
        assert told
        assert [text for text in told if "what was open is taken up when it is back" not in text] == []
        assert audit(desk, settlement) == []
        assert settlement.residue() == []
        committed = {name for name, state in ends(settlement).items() if state is State.COMMITTED}
        assert committed == {name for worker in workers for name in worker.done}
        assert desk.cells()["shared"] == len(committed)
        assert host_of(settlement).driver.kernel.attempts == {}


# ---- full

NO_ROOM = "free some space: nothing was run that could not be recorded"
NEW_MOUNTS, NEW_USER, PRIVATE = 0x20000, 0x10000000, 0x4000 | 0x40000


class SmallDisk:
    """A real file system with little room, which only this process sees; what takes the room is a file."""

    def __init__(self, folder):
        self.folder = folder
        self._filler = folder / "filler"
        user = os.geteuid()
        self.there = self._mount(NEW_MOUNTS) if user == 0 else self._mount(NEW_MOUNTS | NEW_USER, user)

    def _mount(self, flags, user=None):
        libc = ctypes.CDLL(None)
        try:
            if libc.unshare(flags):
                return False
            if user is not None:
                Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        except (AttributeError, OSError):
            return False
        libc.mount(b"none", b"/", None, PRIVATE, None)
        return libc.mount(b"tmpfs", bytes(self.folder), b"tmpfs", 0, b"size=4m") == 0

    def take(self):
        """Leave no room."""
        with self._filler.open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
            while True:
                filler.write(bytes(4096))

    def give(self):
        """Leave room again."""
        self._filler.unlink()


def done(desk):
    return [(verb, cell) for verb, cell, *_ in desk.log()]


def a_call_is_refused_and_what_was_done_before_is_undone(settlement, desk, disk):
    known = tools(desk)
    with pytest.raises(LedgerError, match=NO_ROOM):
        with settlement.transaction("trip") as tx:
            tx.call(known["add"], cell="a")
            disk.take()
            tx.call(known["add"], cell="b")
    assert done(desk) == [("write", "a")]
    disk.give()
    until_over(settlement)  # its undo had to wait for its record
    assert done(desk) == [("write", "a"), ("undo", "a")]
    assert ends(settlement) == {"trip": State.ABORTED}
    with settlement.transaction("trip") as tx:
        tx.call(known["add"], cell="a")
        tx.call(known["add"], cell="b")
    assert (tx.attempt, ends(settlement)) == (2, {"trip": State.COMMITTED})
    assert settlement.residue() == []


def a_transaction_goes_on_when_there_is_room_again(settlement, desk, disk):
    known = tools(desk)
    with settlement.transaction("trip") as tx:
        tx.call(known["add"], cell="a")
        disk.take()
        with pytest.raises(LedgerError, match=NO_ROOM):
            tx.call(known["add"], cell="b")
        assert done(desk) == [("write", "a")]
        disk.give()
        tx.call(known["add"], cell="c")
        tx.call(known["wire"], cell="d")
    assert (tx.attempt, tx.state) == (1, State.COMMITTED)
    assert done(desk) == [("write", "a"), ("write", "c"), ("letter", "d")]
    assert settlement.residue() == []


def what_was_done_is_told_when_there_is_room_again(settlement, desk, disk):
    known, ask = tools(desk), desk.ask

    def fills_the_disk(*asked, **options):
        disk.take()
        return ask(*asked, **options)

    desk.ask = fills_the_disk
    with settlement.transaction("trip") as tx:
        assert tx.call(known["add"], cell="a") == 1
        desk.ask = ask
        disk.give()
    assert (tx.state, done(desk)) == (State.COMMITTED, [("write", "a")])


def a_decision_is_none_and_nothing_leaves(settlement, desk, disk):
    known = tools(desk)
    with pytest.raises(LedgerError, match=NO_ROOM):
        with settlement.transaction("trip", before_commit=lambda footprint: disk.take()) as tx:
            tx.call(known["add"], cell="a")
            tx.call(known["wire"], cell="b")
    assert done(desk) == [("write", "a")]
    disk.give()
    until_over(settlement)  # its undo had to wait for its record
    assert done(desk) == [("write", "a"), ("undo", "a")]
    assert ends(settlement) == {"trip": State.ABORTED}
    with settlement.transaction("trip") as tx:
        tx.call(known["add"], cell="a")
        tx.call(known["wire"], cell="b")
    assert done(desk)[2:] == [("write", "a"), ("letter", "b")]
    assert settlement.residue() == []


def what_is_decided_stops_leaving_and_goes_on_by_itself_when_there_is_room_again(settlement, desk, disk):
    known, ask = tools(desk), desk.ask

    def fills_the_disk_with_the_second(verb, cell, *asked, **options):
        if cell == "b":
            disk.take()
        return ask(verb, cell, *asked, **options)

    desk.ask = fills_the_disk_with_the_second
    told = f"trip is decided, and 2 of its 4 held effects have left; .* repeat nothing: .*{NO_ROOM}"
    with pytest.raises(LedgerError, match=told), settlement.transaction("trip") as tx:
        for to in "abcd":
            tx.call(known["wire"], cell=to)
    assert (tx.state, done(desk)) == (State.RELEASING, [("letter", "a"), ("letter", "b")])
    disk.give()
    until_over(settlement)
    assert (tx.state, done(desk)) == (State.COMMITTED, [("letter", to) for to in "abcd"])
    (recorded,) = settlement.transactions()
    assert recorded.state is State.COMMITTED
    assert [e.outcome.value for e in recorded.effects] == ["confirmed"] * 4
    assert (settlement.residue(), host_of(settlement).driver.kernel.attempts) == ([], {})


@pytest.mark.parametrize(
    "scene",
    [
        a_call_is_refused_and_what_was_done_before_is_undone,
        a_transaction_goes_on_when_there_is_room_again,
        what_was_done_is_told_when_there_is_room_again,
        a_decision_is_none_and_nothing_leaves,
        what_is_decided_stops_leaving_and_goes_on_by_itself_when_there_is_room_again,
    ],
    ids=lambda scene: scene.__name__,
)
def test_when_the_disk_is_full(scene, tmp_path):
    small = tmp_path / "small"
    small.mkdir()

    def child(tell):
        disk = SmallDisk(small)
        if not disk.there:
            tell("no disk")
            return
        settlement, desk = Case(f"sqlite:///{small / 'ledger.db'}", tmp_path / "desk.db").open()
        with settlement, closing(desk):
            scene(settlement, desk, disk)
            assert host_of(settlement).protocol.live == {}
            assert audit(desk, settlement) == []

    ended = in_child(child, timeout=2 * PATIENCE)
    if ended.told:
        pytest.skip("this system lets nobody mount a small disk")
    assert (ended.error, ended.signal) == (None, None), ended.error or ended.stack


@pytest.fixture
def file(tmp_path):
    return Case(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "desk.db")


def test_a_file_that_may_not_grow_refuses_what_does_not_fit_and_the_rest_goes_on(file):
    settlement, desk = file.open()
    known = tools(desk)

    @effect("reversible", scope="cell:/{cell}", undo=lambda cell: None)
    def note(cell, text):
        raise AssertionError("not reached")

    with settlement, closing(desk):
        # For each connection, since a settlement takes a new one after an error.
        sa.event.listen(
            host_of(settlement).ledger._member.connection.engine,
            "connect",
            lambda c, _: c.execute("PRAGMA max_page_count=60"),
        )
        with host_of(settlement).ledger._member.commits.leading:  # nobody is in the middle of a step
            host_of(settlement).ledger._member.connection.let_go()
        host_of(settlement).ledger._member.queue.pass_on()
        with settlement.transaction("trip") as tx:
            tx.call(known["add"], cell="a")
            with pytest.raises(LedgerError, match=NO_ROOM):
                tx.call(note, cell="b", text="x" * 200_000)
            tx.call(known["add"], cell="c")
        assert (tx.attempt, tx.state, done(desk)) == (1, State.COMMITTED, [("write", "a"), ("write", "c")])
        assert judged(settlement, desk) == []


def test_a_disk_that_fails_says_so_and_the_same_settlement_goes_on_when_it_works_again(file):
    def child(_tell):
        settlement, desk = file.open()
        known, log = tools(desk), Path(f"{file.url.removeprefix('sqlite:///')}-wal")
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        with settlement, closing(desk):
            with settlement.transaction("trip") as tx:
                tx.call(known["add"], cell="a")
                resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, most))
                with pytest.raises(LedgerError, match="disk I/O error; its disk fails, or its files were removed"):
                    tx.call(known["add"], cell="b")
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
                tx.call(known["add"], cell="c")
            assert (tx.attempt, tx.state, done(desk)) == (1, State.COMMITTED, [("write", "a"), ("write", "c")])
            assert judged(settlement, desk) == []

    ended = in_child(child, timeout=2 * PATIENCE)
    assert (ended.error, ended.signal) == (None, None), ended.error or ended.stack


# ---- not to be written


def test_a_file_that_may_not_be_written_is_refused_with_what_to_do(file):
    folder = Path(tempfile.mkdtemp())
    ledger = folder / "ledger.db"
    Settlement(f"sqlite:///{ledger}").close()
    before = ledger.read_bytes()

    def child(_tell):
        ledger.chmod(0o444)
        folder.chmod(0o555)
        if os.geteuid() == 0:
            os.seteuid(pwd.getpwnam("nobody").pw_uid)  # root may write everything
        with pytest.raises(LedgerError, match="make the file and its folder writable, or name another file"):
            Settlement(f"sqlite:///{ledger}")

    try:
        ended = in_child(child, timeout=PATIENCE)
        assert (ended.error, ended.signal) == (None, None), ended.error or ended.stack
        assert ledger.read_bytes() == before
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
