"""A forked child is told that a settlement is its parent's, at once; and its parent goes on as if it had never been."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import pytest
from tests.rooms.edges import shield

from settlemark import LedgerError, Settlement, State, effect
from settlemark.hosting import host_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nobody forks here")
GENEROUS = 20


def forked(act):
    """Do something in a forked child, and return what it returns; a child that hangs is a failure."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, json.dumps(act(), default=repr).encode())
        except BaseException as error:
            told = [type(error).__name__, str(error), getattr(error, "url", None)]
            os.write(writing, json.dumps(told, default=repr).encode())
        finally:
            os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + GENEROUS
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.002)
    with os.fdopen(reading) as pipe:
        return json.loads(pipe.read() or "null")


@pytest.fixture
def world(tmp_path):
    """What all processes do, in a file."""
    log = os.open(tmp_path / "world", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @effect("reversible", scope="seat:/{name}", undo=lambda name: os.write(log, f"cancel {name}\n".encode()))
    def book(name):
        os.write(log, f"book {name}\n".encode())

    @effect("irreversible", scope="mail:/{name}")
    def mail(name):
        os.write(log, f"mail {name}\n".encode())

    book.mail, book.log = mail, lambda: (tmp_path / "world").read_text().splitlines()
    yield book
    os.close(log)


def ways(settlement, tx, book):
    """What a child may do with its parent's settlement."""
    return {
        "run": lambda: settlement.run("child", lambda other: other.call(book, name="child")),
        "call": lambda: tx.call(book, name="child"),
        "commit": tx.commit,
        "abort": lambda: tx.abort("no"),
        "look": settlement.transactions,
        "recover": settlement.recover,
        "cancel": lambda: settlement.cancel("parent"),
    }


@pytest.mark.every_store
def test_a_child_is_told_and_neither_acts_nor_harms_its_parent(open_settlement, url, world):
    given = url.replace("postgres@", "postgres:hunter2secret@")
    settlement = open_settlement(given)
    tx = settlement.transaction("parent").__enter__()
    tx.call(world, name="parent")
    tx.call(world.mail, name="parent")
    for way, act in ways(settlement, tx, world).items():
        told = forked(act)
        if way != "abort":  # whose caller is told what the abort is for
            assert told[0] == "LedgerError", (way, told)
            assert "make a new Settlement in the child" in told[1]
            assert "hunter2" not in str(told)
    assert forked(lambda: [settlement.close(), settlement.close()]) == [None, None]
    assert world.log() == ["book parent"]
    tx.commit()
    assert (tx.state, world.log()) == (State.COMMITTED, ["book parent", "mail parent"])
    settlement.run("after", lambda tx: tx.call(world, name="after"))


def test_a_signal_that_its_parent_has_put_off_does_not_strike_the_child(monkeypatch):
    struck = []
    before = signal.signal(signal.SIGUSR1, lambda *_: struck.append("struck"))

    def in_the_child():
        shield.lower_shield()
        return [struck, signal.getsignal(signal.SIGUSR1) is handler]

    @shield.closed
    def forks():
        signal.raise_signal(signal.SIGUSR1)
        return forked(in_the_child)

    try:
        handler = signal.getsignal(signal.SIGUSR1)
        monkeypatch.setattr(shield, "_depth", 0)
        assert shield.raise_shield()
        told = forks()
        assert struck == []
        shield.lower_shield()
        assert (told, struck) == ([[], True], ["struck"])
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_child_that_a_thread_forks_is_not_in_what_its_parents_main_thread_is_in(monkeypatch):
    """Else no signal would strike there: multiprocessing's own `terminate` is one."""
    struck, told = [], []
    before = signal.signal(signal.SIGUSR1, lambda *_: struck.append("struck"))

    def in_the_child():
        signal.raise_signal(signal.SIGUSR1)
        return struck

    try:
        monkeypatch.setattr(shield, "_depth", 0)
        assert shield.raise_shield()
        shield.lock_holders.append(threading.get_ident())
        thread = threading.Thread(target=lambda: told.append(forked(in_the_child)))
        thread.start()
        thread.join()
        shield.lock_holders.remove(threading.get_ident())
        shield.lower_shield()
        assert (told, struck) == ([["struck"]], [])
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.every_store
def test_a_child_that_ends_or_collects_its_garbage_harms_nobody(open_settlement, url, world):
    settlement = open_settlement(url)
    settlement.run("before", lambda tx: tx.call(world, name="before"))
    child = os.fork()
    if not child:
        try:
            del settlement
            gc.collect()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    settlement.run("after", lambda tx: tx.call(world, name="after"))
    assert world.log() == ["book before", "book after"]


@pytest.mark.every_store
def test_a_child_forked_while_steps_are_taken_is_told_and_may_open_its_own(open_settlement, url, kind_of_store, world):
    settlement, stopped = open_settlement(url), threading.Event()

    @effect("reversible", scope="busy:/{name}", undo=lambda name: None)
    def busy(name):
        return name

    def work(number):
        turn = 0
        while not stopped.is_set():
            turn += 1
            settlement.run(f"busy-{number}/{turn}", lambda tx: tx.call(busy, name=str(number)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()

    def act():
        try:
            settlement.run("child", lambda tx: tx.call(world, name="child"))
        except LedgerError as error:
            told = str(error)
        with Settlement("memory:" if kind_of_store == "memory" else url) as own:
            own.run(f"own-{os.getpid()}", lambda tx: tx.call(world, name=f"{os.getpid()}"))
        return told

    try:
        for _ in range(4):
            told = forked(act)
            assert "make a new Settlement in the child" in told, told
    finally:
        stopped.set()
        for thread in threads:
            thread.join(GENEROUS)
    assert len(world.log()) == 4
    assert settlement.residue() == []


@pytest.mark.every_store
def test_a_child_forked_by_a_thread_or_by_a_pool_of_processes_is_told_and_may_open_its_own(
    open_settlement, url, kind_of_store, world
):
    settlement = open_settlement(url)
    settlement.run("before", lambda tx: tx.call(world, name="before"))

    def act(name):
        try:
            settlement.run("child", lambda tx: tx.call(world, name="child"))
        except LedgerError as error:
            told = str(error)
        with Settlement("memory:" if kind_of_store == "memory" else url) as own:
            own.run(name, lambda tx: tx.call(world, name=name))
        return told

    told = []
    thread = threading.Thread(target=lambda: told.append(forked(lambda: act("thread"))))
    thread.start()
    thread.join(GENEROUS)
    _acts["pool"] = act
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        told.append(pool.submit(_in_pool, "pool").result(GENEROUS))
    assert ["make a new Settlement in the child" in each for each in told] == [True, True]
    settlement.run("after", lambda tx: tx.call(world, name="after"))
    assert world.log() == ["book before", "book thread", "book pool", "book after"]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


_acts = {}


def _in_pool(name):
    return _acts[name](name)


# ---- a file that is deleted or replaced


@pytest.mark.parametrize("what", ["deleted", "replaced", "its log deleted"])
def test_nothing_is_acknowledged_once_the_file_is_not_the_one_that_is_open(tmp_path, world, what, monkeypatch):
    path = tmp_path / "ledger.db"
    settlement = Settlement(f"sqlite:///{path}", lease=600)
    settlement.run("before", lambda tx: tx.call(world, name="before"))
    monkeypatch.chdir(tmp_path)  # wherever the process is
    if what == "its log deleted":
        for end in ("-wal", "-shm"):
            path.with_name(f"ledger.db{end}").unlink()
    else:
        aside = tmp_path / "aside.db"
        path.rename(aside)
        if what == "replaced":
            Settlement(f"sqlite:///{path}").close()
    told = []
    for name in ("one", "two"):
        try:
            settlement.run(name, lambda tx, name=name: tx.call(world.mail, name=name))
        except LedgerError as error:
            told.append(str(error))
    settlement.close()
    with Settlement(f"sqlite:///{path}") as after:
        known = {r.row.name for r in after.transactions() if r.state is State.COMMITTED}
        if what == "its log deleted":
            assert "before" in known
        else:
            assert len(told) == 2
            assert all(what in text and "make a new Settlement" in text for text in told)
            assert known == set()
            assert world.log() == ["book before"]
        for name in ("one", "two"):
            after.run(name, lambda tx, name=name: tx.call(world.mail, name=name))
    assert sorted(world.log()) == ["book before", "mail one", "mail two"]


def test_a_file_that_is_put_back_is_gone_on_with(tmp_path, world):
    path, aside = tmp_path / "ledger.db", tmp_path / "aside.db"
    with Settlement(f"sqlite:///{path}", lease=600) as settlement:
        settlement.run("before", lambda tx: tx.call(world, name="before"))
        path.rename(aside)
        with pytest.raises(LedgerError, match="deleted or moved away while it was open"):
            settlement.run("meanwhile", lambda tx: tx.call(world, name="meanwhile"))
        aside.rename(path)
        settlement.run("after", lambda tx: tx.call(world, name="after"))
        settlement.recover(keep_open=0)
        assert host_of(settlement).protocol.live == {}
    assert world.log() == ["book before", "book after"]
