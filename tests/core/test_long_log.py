"""One who stays behind keeps no log: what it has read is told of what changed, and every verdict stays what it was."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.model import Guards
from tests.rooms.protocol import FLOORS, TYPES, Mode
from tests.rooms.record import tables
from tests.rooms.replica import image, load, replica

from settlemark import Scope, Stale, State, effect
from settlemark.hosting import host_of

WHOLE = 10**6
"""So many commits that none is forgotten."""
MANY = 32


@pytest.fixture
def short(make_stage):
    """A stage whose log is short."""
    return make_stage(floors=2)


def write(stage, name, *scopes):
    txn = stage.begin(name)
    for scope in scopes:
        stage.write(txn, scope)
    stage.commit(txn)


def many(stage, count=MANY, scope="lamp:/{}"):
    """Let many others commit, each on a scope of its own."""
    for number in range(count):
        write(stage, f"other {number}", scope.format(number))


def kept(stage):
    """How many nodes, commits and texts a protocol keeps."""

    def nodes(node):
        return 1 + sum(nodes(child) for child in node.children.values())

    return nodes(stage.protocol.board.index.root), stage.protocol.board.versions.logged, len(str(image(stage.protocol)))


def open_one(stage, scope):
    """One that reads a scope, writes elsewhere, and goes on holding both."""
    idle = stage.begin("idle")
    stage.read(idle, scope)
    stage.write(idle, "door:/1")


def split_off(stage, scope):
    """One that waits for a person, depends on a scope and holds nothing."""
    stage.protocol.split("idle", "idle", [Scope.parse(scope)])


def over(stage, scope):
    """A run that has read a scope, and may act on that in its next turn."""
    reader = stage.begin("idle/1")
    stage.read(reader, scope)
    stage.commit(reader)


@pytest.mark.parametrize(
    ("stays", "read"),
    [
        *((open_one, scope) for scope in ("room:/a", "room:/*")),
        *((stays, scope) for stays in (split_off, over) for scope in ("lamp:/**", "lamp:/*", "lamp:/7", "room:/a")),
    ],
)
def test_what_is_kept_beside_one_who_stays_behind_does_not_grow(make_stage, stays, read):
    stage = make_stage()
    stays(stage, read)
    many(stage, 20 * FLOORS)
    before = kept(stage)
    many(stage, 20 * FLOORS)
    nodes, logged, text = kept(stage)
    assert (nodes, logged) == before[:2]
    assert logged <= 2 * FLOORS
    assert text <= before[2] + 4 * FLOORS  # its numbers have more digits


@pytest.mark.every_store
def test_the_record_beside_one_who_waits_for_a_person_does_not_grow_with_what_others_commit(settlement, monkeypatch):
    monkeypatch.setattr(replica, "IMAGE_EVERY", 16)  # else the last image may be from before

    @effect("irreversible", scope="mail:/{to}", approve=True)
    def send(to): ...

    @effect("staged", scope="lamp:/{number}")
    def switch(number): ...

    def others(first, last):
        for number in range(first, last):
            with settlement.transaction(f"other {number}") as tx:
                tx.call(switch, number=number)

    settlement.run("waits", lambda tx: (tx.read("price:/Ada"), tx.call(send, to="boss")))
    assert [parked.transaction for parked in settlement.parked()] == ["waits"]
    others(100, 100 + 4 * FLOORS)
    before = len(str(image(host_of(settlement).protocol)))
    others(500, 500 + 4 * FLOORS)
    text = str(image(host_of(settlement).protocol))
    assert len(text) <= before + 4 * FLOORS
    assert host_of(settlement).protocol.board.versions.logged <= 2 * FLOORS
    if not host_of(settlement).ledger.immediate:
        with host_of(settlement).ledger._member.connection.engine.connect() as connection:
            (written,) = connection.scalars(sa.select(sa.func.max(sa.func.length(tables.images.c.state))))
        assert written < 2 * len(text)


def test_of_very_many_types_the_forgotten_floors_become_one_for_all(short):
    short.begin("idle")
    many(short, 2 * TYPES, "lamp{}:/a")
    assert len(short.protocol.board.versions.folded) <= TYPES
    assert short.floor("lamp0:/a") == short.protocol.board.versions.base[0] > 1


def test_of_what_one_keeps_long_the_floor_rises_for_all_of_its_type_and_no_other(short):
    idle = short.begin("idle")
    assert short.floor("lamp:/0") == 0
    many(short)
    log = short.protocol.board.versions
    assert log.logged <= 4
    assert idle.epoch < log.folded["lamp"][0] < short.protocol.next_epoch
    assert short.floor("lamp:/never touched") == log.folded["lamp"][0]
    assert (short.floor("room:/a"), log.base) == (0, (0, ""))
    assert [short.version(f"lamp:/{n}") for n in (0, MANY - 1)] == [0, MANY]


def test_with_room_the_same_log_is_kept_and_no_floor_rises_for_others(make_stage):
    stage = make_stage(floors=WHOLE)
    stage.begin("idle")
    many(stage)
    assert (stage.protocol.board.versions.logged, stage.floor("lamp:/never touched")) == (MANY, 0)


def test_one_that_is_below_the_floor_of_a_type_keeps_its_place_on_every_other(short):
    old = short.begin("old")
    short.write(old, "room:/a")
    many(short)
    was = old.position
    short.write(old, "room:/b")
    assert old.position == was
    short.write(old, "lamp:/never touched")
    assert old.position > was


def test_one_that_begins_where_another_has_committed_keeps_that_place_on_what_nobody_has_touched(short):
    idle, first = short.begin("idle"), short.begin("first")
    short.write(first, "lamp:/a")
    place = first.position
    short.commit(first)
    again = short.begin("again", position=place)
    short.commit(idle)
    assert short.floor("lamp:/never touched") == 0
    many(short, scope="door:/{}")
    short.write(again, "room:/a")
    assert (again.position, short.floor("room:/b")) == (place, 0)


def test_one_that_is_left_below_the_floor_is_restamped_at_its_next_touch_and_commits(short):
    old = short.begin("old")
    short.write(old, "room:/a")
    many(short)
    was = old.position
    short.write(old, "lamp:/b")
    assert old.position > max(was, short.protocol.board.versions.folded["lamp"])
    short.commit(old)
    assert (old.state, short.floor("lamp:/b")) == (State.COMMITTED, old.epoch)
    assert (short.protocol.live, short.protocol.board.versions.logged) == ({}, 0)


def test_one_that_touches_nothing_more_commits_where_it_stands(short):
    old = short.begin("old")
    short.write(old, "room:/a")
    many(short)
    was = old.position
    short.commit(old)
    assert (old.state, old.position) == (State.COMMITTED, was)
    assert (short.protocol.live, short.protocol.board.versions.logged) == ({}, 0)


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


def test_a_read_behind_the_last_write_of_its_place_is_still_current_after_the_cut(short):
    idle = short.begin("idle")
    short.read(idle, "door:/1")
    write(short, "writer", "room:/a")
    short.read(idle, "room:/a")
    many(short)
    short.commit(idle)
    assert idle.state is State.COMMITTED


def test_the_floor_of_a_type_does_not_go_back_when_an_older_one_commits_later(short):
    short.begin("idle", "door:/1")
    older, younger = short.begin("older"), short.begin("younger")
    short.write(younger, "lamp:/1")
    short.write(older, "lamp:/2")
    short.commit(younger)
    short.commit(older)
    many(short, scope="table:/{}")
    assert short.floor("lamp:/9") == younger.epoch


def elsewhere(stage, make_stage):
    """Return another replica, which begins with an image of this one."""
    other = make_stage(floors=2)
    load(other.protocol, image(stage.protocol), worker="w")
    return other


def test_one_that_has_fallen_behind_is_told_in_a_replica_that_came_later_too(short, make_stage):
    split_off(short, "room:/a")
    many(short)
    other = elsewhere(short, make_stage)
    write(other, "writer", "room:/a")
    many(other)
    idle = other.protocol.named["idle"]
    other.protocol.seal(idle)
    with pytest.raises(Stale):
        other.protocol.decide(idle)


def test_a_run_that_has_fallen_behind_is_told_in_a_replica_that_came_later_too(short, make_stage):
    over(short, "room:/a")
    short.begin("open", "door:/2")
    many(short)
    other = elsewhere(short, make_stage)
    write(other, "writer", "room:/a")
    many(other)
    again = other.begin("idle/2")
    other.hold(again, "door:/1")
    other.protocol.seal(again)
    with pytest.raises(Stale):
        other.protocol.decide(again)


def test_as_many_plans_are_kept_as_there_is_room_for_and_the_oldest_goes_first(make_stage):
    stage = make_stage(plans=2)
    for run in ("a", "b", "c"):
        reader = stage.begin(f"{run}/1")
        stage.read(reader, "room:/1")
        stage.commit(reader)
        assert list(stage.protocol.board.versions.plans) == {"a": ["a"], "b": ["a", "b"], "c": ["b", "c"]}[run]


def test_an_advance_to_what_is_final_already_is_no_entry_of_the_log(short):
    short.begin("idle", "door:/1")
    short.begin("gone")
    short.protocol.advance(Scope.parse("room:/a"), 2)
    before = short.protocol.freeze(), short.protocol.board.versions.logged
    short.protocol.advance(Scope.parse("room:/a"), 2)
    short.protocol.advance(Scope.parse("room:/a/1"), 1)
    assert (short.protocol.freeze(), short.protocol.board.versions.logged) == before


def test_a_read_that_did_not_change_is_still_current_after_the_cut(short):
    writer = short.begin("writer")
    old = short.begin("old")
    short.read(old, "price:/a")
    short.write(writer, "price:/b")
    short.commit(writer)
    many(short)
    short.write(old, "room:/a")
    short.commit(old)
    assert (old.state, short.protocol.board.versions.logged) == (State.COMMITTED, 0)


SCOPES = ("price:/a", "price:/a/1", "price:/b", "price:/*", "price:/**", "bill:/a")


def verdicts(stage, written, read, noise, *, loads, early):
    """Readers that began after the writers: which of them are stale when the writers and many others are done?

    So many of the writers have written before the readers, who read early then, have read.
    """
    writers = [(stage.begin(f"writer {n}"), scope) for n, scope in enumerate(written)]
    guards = Guards(reads="early" if early else "settled")
    readers = [(stage.begin(f"reader {n}", guards=guards), scopes) for n, scopes in enumerate(read)]
    seen = []
    for writer, scope in writers[:early]:
        if not any(Scope.parse(scope).overlaps(Scope.parse(other)) for other in seen):
            stage.write(writer, scope)
            seen.append(scope)
    for reader, scopes in readers:
        for scope in scopes:
            stage.read(reader, scope)
    for writer, scope in writers:
        stage.write(writer, scope)
        stage.commit(writer)
    many(stage, noise)
    if loads:
        load(stage.protocol, image(stage.protocol))
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
    assert (stage.protocol.live, stage.protocol.board.versions.logged, stage.protocol.board.index.root.children) == (
        {},
        0,
        {},
    )
    return stale


@given(
    written=st.lists(st.sampled_from(SCOPES), max_size=4),
    read=st.lists(st.lists(st.sampled_from(SCOPES), max_size=3, unique=True), min_size=1, max_size=3),
    noise=st.integers(0, 30),
    floors=st.integers(0, 4),
    loads=st.booleans(),
    early=st.integers(0, 2),
)
def test_a_short_log_calls_stale_exactly_what_the_whole_one_does(
    make_stage, written, read, noise, floors, loads, early
):
    cut = verdicts(make_stage(floors=floors), written, read, noise, loads=loads, early=early)
    assert cut == verdicts(make_stage(floors=WHOLE), written, read, noise, loads=False, early=early)
