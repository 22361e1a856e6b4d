"""Every statement of a ledger is a place to die at, and what is played dies there and nowhere else."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from tests.rooms.testing import _child

from settlemark import Settlement, UsageError, effect
from settlemark.testing import KillPoints, in_child, kill_points


class Desk:
    """A counterparty in a folder, with the ledger beside it."""

    def __init__(self, folder):
        self.folder = folder
        self.url = f"sqlite:///{folder / 'ledger.db'}"
        self.options = {}

        @effect(
            "reversible", scope="room:/{room}", undo=lambda room: (folder / room).unlink(missing_ok=True), keyed=True
        )
        def book(room):
            (folder / room).touch()

        @effect("irreversible", scope="mail:/{to}", probe=lambda to: (folder / f"mail {to}").exists() or None)
        def mail(to):
            with (folder / f"mail {to}").open("a") as letter:
                letter.write("hello\n")

        self.book, self.mail = book, mail

    def play(self):
        with Settlement(self.url, **self.options) as settlement, settlement.transaction("trip") as tx:
            tx.call(self.book, room="Ada")
            tx.call(self.mail, to="ada")

    def world(self):
        return {p.name: p.read_text() for p in sorted(self.folder.iterdir()) if not p.name.startswith("ledger")}

    def reset(self):
        for path in self.folder.iterdir():
            path.unlink()


ALL = {"Ada": "", "mail ada": "hello\n"}


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.mark.long
def test_wherever_a_process_dies_in_its_ledger_the_next_does_the_rest_and_nothing_twice(desk):
    points = []
    for point in kill_points(desk.play, reset=desk.reset):
        assert set(desk.world()) <= set(ALL), point
        desk.play()
        assert desk.world() == ALL, point
        points.append(point)
    assert [point.number for point in points] == list(range(1, len(points) + 1))
    assert {point.when for point in points} == {"before", "after"}
    assert any("COMMIT" in point.statement for point in points)
    assert any("INSERT" in point.statement for point in points)


@pytest.mark.long
def test_on_postgresql_too(desk, postgres_url):
    desk.url = postgres_url
    desk.play()  # its tables are there from now on
    seen = set()

    def reset():
        desk.reset()
        desk.options = {"namespace": f"case-{len(seen)}"}

    for point in kill_points(desk.play, reset=reset, url=postgres_url):
        desk.play()
        assert desk.world() == ALL, point
        seen.add((point.number, point.when, point.statement))
    assert len(seen) > 10
    assert {(when, statement) for _, when, statement in seen} >= {("before", "COMMIT"), ("after", "COMMIT")}


def test_what_died_after_a_commit_has_committed_and_before_it_has_not(tmp_path):
    import sqlalchemy as sa

    url = f"sqlite:///{tmp_path / 'any.db'}"

    def count():
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            found = connection.execute(sa.text("SELECT count(*) FROM t")).scalar()
        engine.dispose()
        return found

    def play():
        with sa.create_engine(url).begin() as connection:
            connection.execute(sa.text("INSERT INTO t VALUES (1)"))

    def reset():
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE IF EXISTS t"))
            connection.execute(sa.text("CREATE TABLE t (n INTEGER)"))
        engine.dispose()

    died = [(str(point), count()) for point in kill_points(play, reset=reset)]
    assert died == [
        ("1: before INSERT INTO t VALUES (1)", 0),
        ("2: after INSERT INTO t VALUES (1)", 0),
        ("3: before COMMIT", 0),
        ("4: after COMMIT", 1),
    ]


def test_beside_the_ledger_only_the_database_that_was_named_counts(tmp_path):
    import sqlalchemy as sa

    own, another = (f"sqlite:///{tmp_path / name}" for name in ("own.db", "another.db"))

    def play():
        for url in (own, another):
            with sa.create_engine(url).begin() as connection:
                connection.execute(sa.text("SELECT 1"))

    assert (KillPoints.count(play), KillPoints.count(play, url=own)) == (8, 4)


def test_counting_here_changes_nothing_and_ends_with_the_block(desk):
    with KillPoints() as points:
        desk.play()
    seen = len(points.seen)
    desk.play()
    assert (desk.world(), len(points.seen)) == (ALL, seen)
    assert [point.number for point in points.seen] == list(range(1, seen + 1))


def test_a_run_tells_how_it_ended(desk):
    ended = KillPoints(3).run(desk.play)
    assert (ended.killed, len(ended.told)) == (True, 3)
    desk.reset()
    ended = KillPoints(10**6).run(desk.play)
    assert (ended.killed, ended.signal, ended.error, desk.world()) == (False, None, None, ALL)


def test_what_fails_without_being_killed_is_told_with_its_traceback():
    def play():
        raise KeyError("no such room")

    with pytest.raises(RuntimeError, match="KeyError: 'no such room'"):
        KillPoints.count(play)
    with pytest.raises(RuntimeError, match="KeyError: 'no such room'"):
        list(kill_points(play))


def test_there_is_no_point_before_the_first():
    with pytest.raises(UsageError, match="numbered from 1"):
        KillPoints(0)


# ---- the child process itself


def test_a_child_tells_more_than_a_pipe_holds():
    ended = in_child(lambda tell: [tell("x" * 100_000) for _ in range(5)])
    assert [len(text) for text in ended.told] == [100_000] * 5


def test_a_child_that_takes_too_long_is_ended_and_that_is_said(monkeypatch):
    heard, read = [], _child._read

    def reading(reader, seconds):
        chunk = read(reader, seconds)
        heard.extend([chunk] if chunk else [])
        return chunk

    def waits(tell):
        tell("here")
        threading.Event().wait()

    monkeypatch.setattr(_child, "_read", reading)
    # An hour is over once it was heard: how soon that is, on a busy machine, decides nothing.
    monkeypatch.setattr(_child, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 3600 * bool(heard)))
    ended = in_child(waits, timeout=600)
    assert (ended.late, ended.killed, ended.told) == (True, False, ["here"])
    assert "in waits" in ended.stack


def test_a_program_that_takes_too_long_to_be_counted_is_refused():
    with pytest.raises(RuntimeError, match="took too long"):
        KillPoints.count(threading.Event().wait, timeout=0.2)


def test_a_child_ended_by_another_signal_says_which():
    ended = in_child(lambda tell: os.kill(os.getpid(), signal.SIGTERM))
    assert (ended.signal, ended.killed) == (signal.SIGTERM, False)


def test_a_child_never_comes_back_whatever_it_raises():
    parent = os.getpid()
    ended = in_child(lambda tell: pytest.exit("out of here"))
    assert os.getpid() == parent
    assert "out of here" in ended.error


def test_a_child_that_leaves_a_grandchild_behind_is_not_waited_for_longer():
    waiting, go = os.pipe()

    def play(tell):
        if os.fork() == 0:
            os.close(go)
            os.read(waiting, 1)
            os._exit(0)

    try:
        ended = in_child(play, timeout=5)
    finally:
        os.close(go)
        os.close(waiting)
    assert (ended.late, ended.signal, ended.error) == (False, None, None)


def test_without_fork_it_says_what_to_do(monkeypatch):
    monkeypatch.delattr(os, "fork")
    with pytest.raises(UsageError, match="use kill=False"):
        in_child(lambda tell: None)
