"""After a restart handlers are found by name and version: a renamed one by its alias, another version's never."""

from __future__ import annotations

import pytest
from tests.rooms.model import Registry
from tests.rooms.model import declare as declaring

from settlemark import InDoubt, Outcome, Retries, Settlement, effect
from settlemark.hosting import declare, host_of
from settlemark.testing import die, in_child


class Boom(Exception):
    """A failure of the caller's own."""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def log():
    return []


@pytest.fixture
def after(url, open_settlement, monkeypatch):
    """Open the settlement of the next process, where nothing is declared but what the test declares."""

    def open_(**options):
        monkeypatch.setattr(declaring, "_declared", Registry())
        settlement = open_settlement(url, **{"keep_open": 1e9, **options})
        own = host_of(settlement).tools._registry.find
        host_of(settlement).driver.kernel.declaration = lambda tool, version=None: own(tool, version)
        return settlement

    return open_


def booked(log, *, name="book", version="1", **parts):
    """A tool whose undo says which version of it ran."""

    @effect(
        "reversible",
        scope="room:/{room}",
        name=name,
        version=version,
        undo=lambda room: log.append(f"cancel {room} by {name} {version}"),
        **parts,
    )
    def book(room):
        log.append(f"book {room}")
        return room

    return book


def left_open(url, tool):
    """Leave a transaction open, as a process that ends does."""
    first = Settlement(url, retries=Retries(first=0, most=0))
    tx = first.transaction("trip").__enter__()
    tx.call(tool, room="a")
    first.close()


def declare_in(settlement, log, *, name="book", version="1", **parts):
    return settlement.declare(
        name,
        "reversible",
        scope="room:/{room}",
        version=version,
        undo=lambda room: log.append(f"cancel {room} by {name} {version}"),
        **parts,
    )


def outcomes(settlement):
    return [(e.row.tool, e.outcome.value, e.tag and e.tag.value) for t in settlement.transactions() for e in t.effects]


def test_the_version_that_acted_undoes(url, after, log):
    left_open(url, booked(log, version="1"))
    second = after()
    for version in ("1", "2"):
        declare_in(second, log, version=version)
    assert second.recover(keep_open=0).undone == ["trip"]
    assert log == ["book a", "cancel a by book 1"]
    assert outcomes(second) == [("book", "undone", "clean")]


def test_another_version_does_not_and_it_is_in_doubt_with_what_to_declare(url, after, log):
    left_open(url, booked(log, version="1"))
    second = after()
    declare_in(second, log, version="2")
    assert second.recover(keep_open=0).stuck == {"trip": ["book"]}
    assert (log, outcomes(second)) == (["book a"], [("book", "confirmed", None)])
    (doubt,) = second.in_doubt()
    assert (doubt.key, doubt.why) == ("trip#1/0", "trip was left unfinished")
    assert doubt.remedy.startswith("import or declare book in this process, or tell its successor so with aliases=")
    declare_in(second, log, version="1")
    assert second.recover(keep_open=0).undone == ["trip"]
    assert (log, second.in_doubt()) == (["book a", "cancel a by book 1"], [])


def test_a_later_version_is_named_with_its_number(url, after, log):
    left_open(url, booked(log, version="7"))
    second = after()
    declare_in(second, log)
    assert second.recover(keep_open=0).stuck == {"trip": ["book (version 7)"]}


def test_a_version_that_speaks_for_an_earlier_one_undoes_its_effects(url, after, log):
    left_open(url, booked(log, version="1"))
    second = after()
    declare_in(second, log, version="2", versions=("1",))
    assert second.recover(keep_open=0).undone == ["trip"]
    assert log == ["book a", "cancel a by book 2"]


def test_a_renamed_tool_undoes_what_it_did_under_its_old_name(url, after, log):
    left_open(url, booked(log))
    second = after()
    declare_in(second, log, name="reserve", aliases=("book",))
    assert second.recover(keep_open=0).undone == ["trip"]
    assert log == ["book a", "cancel a by reserve 1"]


def test_a_renamed_tool_of_another_version_does_not(url, after, log):
    left_open(url, booked(log))
    second = after()
    declare_in(second, log, name="reserve", version="2", aliases="book")
    assert second.recover(keep_open=0).stuck == {"trip": ["book"]}
    assert log == ["book a"]


def test_what_waits_to_leave_and_is_not_known_is_in_doubt_with_what_to_declare(url, after, log):
    def play(_tell):
        with Settlement(url).transaction("trip") as tx:
            tx.call(booked(log), room="a")
            tx.call(send, to="a")

    @effect("irreversible", scope="mail:/{to}")
    def send(to):
        die()

    assert in_child(play).killed
    second = after()
    assert second.recover(keep_open=0).stuck == {"trip": ["send"]}
    assert [(d.tool, d.remedy.split(",")[0]) for d in second.in_doubt()] == [
        ("send", "import or declare send in this process")
    ]
    second.declare(
        "post",
        "irreversible",
        scope="mail:/{to}",
        aliases="send",
        probe=lambda to: log.append(f"asked {to}"),
        function=lambda to: log.append(f"post {to}"),
    )
    assert second.recover(keep_open=0).committed == ["trip"]
    assert log == ["asked a", "post a"]


# ---- entering the name again


def test_a_renamed_tool_is_answered_from_the_record_and_not_run_again(url, open_settlement, log):
    left_open(url, booked(log))
    second = open_settlement(url, keep_open=1e9)
    with second.transaction("trip") as tx:
        assert tx.call(booked(log, name="reserve", aliases="book"), room="a") == "a"
    assert log == ["book a"]
    with open_settlement(url).transaction("trip") as tx:
        assert tx.call(booked(log, name="reserve", aliases="book"), room="a") == "a"
    assert log == ["book a"]


def test_a_new_version_goes_on_with_a_transaction_and_does_not_undo_what_the_old_one_did(url, after, log):
    left_open(url, booked(log, version="1"))
    second = after()
    with pytest.raises(Boom), second.transaction("trip") as tx:
        assert tx.call(booked(log, version="2"), room="a") == "a"
        raise Boom
    assert log == ["book a"]
    assert outcomes(second) == [("book", "confirmed", "unresolved")]
    assert [r.note for r in second.residue()] == ["it happened, and its undo is not known here: declare book"]
    assert second.resolve("trip#1/0", "absent", by="ada", note="cancelled by phone") is Outcome.UNDONE


def test_a_new_version_does_not_send_again_what_the_old_one_may_have_sent(url, after, log):
    def play(_tell):
        @effect("reversible", scope="room:/{room}", undo=lambda room: None, keyed=True)
        def book(room):
            die()

        with Settlement(url).transaction("trip") as tx:
            tx.call(book, room="a")

    assert in_child(play).killed
    second = after()
    with pytest.raises(InDoubt, match="do not repeat it; declare book in this process, so that settlemark can ask"):
        with second.transaction("trip") as tx:
            tx.call(booked(log, version="2", keyed=True), room="a")
    assert log == []


# ---- the registry


def test_what_was_declared_last_counts_and_a_name_goes_before_an_alias():
    registry = Registry()
    old, new = declare("wire", "opaque"), declare("wire", "opaque", cost=None)
    renamed = declare("send", "opaque", aliases="wire")
    for declaration in (old, renamed, new):
        registry.add(declaration)
    assert registry.find("wire") is new
    assert registry.find("wire", "1") is new
    assert registry.find("nothing") is None


def test_an_alias_is_found_where_the_name_is_another_versions():
    registry = Registry()
    renamed = declare("send", "opaque", aliases=("wire",))
    registry.add(renamed)
    registry.add(declare("wire", "opaque", version="2"))
    assert registry.find("wire", "1") is renamed
    assert registry.find("wire", "3") is None
