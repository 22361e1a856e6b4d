"""One who never ends cannot make the log grow: it is cut down, and every verdict stays what it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlemark import Stale
from settlemark import _versions as versions
from settlemark._states import State
from settlemark._txn import Mode

LIMIT = 8


@pytest.fixture
def short(monkeypatch, make_stage):
    """A stage whose log is cut at a few commits."""
    monkeypatch.setattr(versions, "LOG_LIMIT", LIMIT)
    return make_stage()


def write(stage, name, *scopes):
    txn = stage.begin(name)
    for scope in scopes:
        stage.write(txn, scope)
    stage.commit(txn)


def many(stage, count=4 * LIMIT):
    """Let many others commit, each on a scope of its own."""
    for number in range(count):
        write(stage, f"other {number}", f"lamp:/{number}")


def test_a_log_that_an_unfinished_transaction_keeps_long_is_cut_and_one_floor_rises_for_all(short):
    idle = short.begin("idle")
    assert short.floor("lamp:/0") == 0
    many(short)
    log = short.protocol.versions
    assert log.logged <= LIMIT + 1
    assert idle.epoch < log.base[0] < short.protocol.next_epoch
    assert short.floor("lamp:/never touched") == log.base[0]
    assert [short.version(f"lamp:/{n}") for n in (0, 4 * LIMIT - 1)] == [0, 4 * LIMIT]


def test_without_the_cut_the_same_log_is_kept_and_no_floor_rises_for_others(make_stage):
    stage = make_stage()
    stage.begin("idle")
    many(stage)
    assert (stage.protocol.versions.logged, stage.floor("lamp:/never touched")) == (4 * LIMIT, 0)


def test_one_that_is_left_below_the_floor_is_restamped_at_its_next_touch_and_commits(short):
    old = short.begin("old")
    short.write(old, "room:/a")
    many(short)
    was = old.position
    short.write(old, "room:/b")
    assert old.position > max(was, short.protocol.versions.base)
    short.commit(old)
    assert (old.state, short.floor("room:/b")) == (State.COMMITTED, old.epoch)
    assert (short.protocol.live, short.protocol.versions.logged) == ({}, 0)


def test_one_that_touches_nothing_more_commits_where_it_stands(short):
    old = short.begin("old")
    short.write(old, "room:/a")
    many(short)
    was = old.position
    short.commit(old)
    assert (old.state, old.position) == (State.COMMITTED, was)
    assert (short.protocol.live, short.protocol.versions.logged) == ({}, 0)


def test_a_read_that_really_changed_is_still_stale_after_the_cut(short):
    writer = short.begin("writer")
    old = short.begin("old")
    short.read(old, "price:/a")
    short.read(old, "price:/b")
    short.write(writer, "price:/b")
    short.commit(writer)
    many(short)
    with pytest.raises(Stale, match="price:/b") as stale:
        short.ask(old, "room:/a", Mode.EAGER)
    assert (stale.value.scope.text, old.state) == ("price:/b", State.ABORTED)


def test_a_read_that_did_not_change_is_still_current_after_the_cut(short):
    writer = short.begin("writer")
    old = short.begin("old")
    short.read(old, "price:/a")
    short.write(writer, "price:/b")
    short.commit(writer)
    many(short)
    short.write(old, "room:/a")
    short.commit(old)
    assert (old.state, short.protocol.versions.logged) == (State.COMMITTED, 0)


SCOPES = ("price:/a", "price:/a/1", "price:/b", "price:/*", "price:/**", "bill:/a")


def verdicts(stage, written, read, noise):
    """Readers that began after the writers: which of them are stale when the writers and many others are done?"""
    writers = [(stage.begin(f"writer {n}"), scope) for n, scope in enumerate(written)]
    readers = [(stage.begin(f"reader {n}"), scopes) for n, scopes in enumerate(read)]
    for reader, scopes in readers:
        for scope in scopes:
            stage.read(reader, scope)
    for writer, scope in writers:
        stage.write(writer, scope)
        stage.commit(writer)
    many(stage, noise)
    stale = []
    for number, (reader, _) in enumerate(readers):
        try:
            stage.write(reader, f"room:/{number}")
        except Stale as refused:
            stale.append((number, refused.scope.text))
            stage.undo(reader)
    for reader, _ in sorted(readers, key=lambda r: r[0].position):
        if not reader.finished:
            stage.commit(reader)
    assert (stage.protocol.live, stage.protocol.versions.logged) == ({}, 0)
    return stale


@given(
    written=st.lists(st.sampled_from(SCOPES), max_size=4),
    read=st.lists(st.lists(st.sampled_from(SCOPES), max_size=3, unique=True), min_size=1, max_size=3),
    noise=st.integers(0, 30),
    limit=st.integers(1, 12),
)
def test_a_cut_log_calls_stale_exactly_what_the_whole_one_does(make_stage, written, read, noise, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "LOG_LIMIT", limit)
        cut = verdicts(make_stage(), written, read, noise)
    assert cut == verdicts(make_stage(), written, read, noise)
