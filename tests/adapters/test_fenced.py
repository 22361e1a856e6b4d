"""A lease's late holder is kept out by the resource itself: files, a repository, rows know the greatest token."""

from __future__ import annotations

import subprocess
import threading

import pytest
import sqlalchemy as sa

from settlemark import Fenced, Settlement
from settlemark.testing import VirtualClock
from settlemark_adapters.filesystem import Filesystem
from settlemark_adapters.git import Git
from settlemark_adapters.sql import Sql


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def settlement(clock):
    with Settlement("memory:", **clock.options()) as settlement:
        yield settlement


class Folder:
    """Files below a root."""

    scope = "checkout:/repo"

    def __init__(self, tmp_path, settlement):
        self.root, self.settlement = tmp_path / "root", settlement
        self.root.mkdir()

    def adapter(self, lease=None, **options):
        return Filesystem(self.root, self.settlement, lease=lease, **options)

    def write(self, adapter, tx, text, place="note"):
        tx.call(adapter.write, path=f"{place}.txt", content=text)

    def found(self, place="note"):
        file = self.root / f"{place}.txt"
        return file.read_text() if file.exists() else None


class Branch(Folder):
    """Files of a branch."""

    def __init__(self, tmp_path, settlement):
        super().__init__(tmp_path, settlement)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "begin")

    def git(self, *arguments):
        return subprocess.run(["git", "-C", self.root, *arguments], check=True, capture_output=True, text=True).stdout

    def adapter(self, lease=None, **options):
        return Git(self.root, self.settlement, lease=lease, **options)

    def found(self, place="note"):
        names = self.git("ls-tree", "--name-only", "main").split()
        return self.git("show", f"main:{place}.txt") if f"{place}.txt" in names else None


class Shop(Folder):
    """Rows of a table."""

    scope = "row:/shop/note"

    def __init__(self, tmp_path, settlement):
        super().__init__(tmp_path, settlement)
        self.url = f"sqlite:///{self.root / 'shop.db'}"
        self.engine = sa.create_engine(self.url)
        with self.engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE note (id TEXT PRIMARY KEY, text TEXT)")

    def adapter(self, lease=None, **options):
        return Sql(self.url, self.settlement, tables=["note"], lease=lease, **options)

    def write(self, adapter, tx, text, place="note"):
        tx.call(adapter.upsert, table="note", key=place, values={"text": text})

    def found(self, place="note"):
        with self.engine.begin() as connection:
            return connection.execute(sa.text("SELECT text FROM note WHERE id = :id"), {"id": place}).scalar()


@pytest.fixture(params=[Folder, Branch, Shop])
def place(request, tmp_path, settlement):
    return request.param(tmp_path, settlement)


def write(place, adapter, name, text):
    with place.settlement.transaction(name) as tx:
        place.write(adapter, tx, text)


def leased(place, clock, by):
    """Have the lease lapse that stands, and give it to another."""
    clock.advance(61)
    return place.settlement.lease(place.scope, for_=60, by=by, grace=0)


def test_the_late_holder_changes_nothing_once_the_next_one_has_acted(place, clock):
    one = leased(place, clock, "ada")
    before = place.adapter(one, name="one")
    write(place, before, "a", "ada's")
    two = leased(place, clock, "bob")
    after = place.adapter(two, name="two")
    write(place, after, "b", "bob's")
    with pytest.raises(Fenced) as error:
        write(place, before, "c", "late")
    assert (error.value.token, error.value.current, error.value.holder) == (one.token, two.token, "bob")
    assert (error.value.scope, place.found()) == (place.scope, "bob's")
    assert place.settlement.residue() == []


def test_who_has_no_lease_changes_nothing_where_one_has_acted_and_anything_before(place, clock):
    bare = place.adapter(name="bare")
    write(place, bare, "a", "before")
    write(place, place.adapter(leased(place, clock, "ada"), name="one"), "b", "ada's")
    with pytest.raises(Fenced, match="no lease is given"):
        write(place, bare, "c", "late")
    assert place.found() == "ada's"


def test_an_undo_of_the_late_holder_does_not_overwrite_the_next_ones_work_and_is_named(place, clock):
    before = place.adapter(leased(place, clock, "ada"), name="one")
    with pytest.raises(ValueError, match="too late"), place.settlement.transaction("a") as tx:
        place.write(before, tx, "ada's")
        two = place.adapter(leased(place, clock, "bob"), name="two")
        place.write(two, tx, "bob's", place="other")
        raise ValueError("too late")
    left = [(effect.row.tool, str(effect.outcome)) for t in place.settlement.transactions() for effect in t.effects]
    assert [tool for tool, outcome in left if tool.startswith("one_") and outcome == "undone"] == []
    assert len(place.settlement.residue()) == 1


def test_the_lease_of_the_running_work_is_asked_for_at_each_act(place, clock):
    current = []
    adapter = place.adapter(lambda: current[-1] if current else None)
    write(place, adapter, "a", "before")
    current.append(leased(place, clock, "ada"))
    write(place, adapter, "b", "ada's")
    current.append(leased(place, clock, "bob"))
    write(place, adapter, "c", "bob's")
    current.pop()
    with pytest.raises(Fenced):
        write(place, adapter, "d", "late")
    assert place.found() == "bob's"


def test_a_lease_that_is_known_to_be_lost_is_not_even_shown(place, clock):
    one = leased(place, clock, "ada")
    leased(place, clock, "bob")
    with pytest.raises(Fenced):
        one.renew()
    with pytest.raises(Fenced, match="is lost: bob holds it"):
        write(place, place.adapter(one), "a", "late")
    assert place.found() is None


def test_a_fence_of_rows_is_for_the_rows_of_its_lease_alone(tmp_path, settlement, clock):
    place = Shop(tmp_path, settlement)
    one = place.adapter(settlement.lease("row:/shop/note/7", for_=60), name="one")
    bare = place.adapter(name="bare")
    with settlement.transaction("a") as tx:
        place.write(one, tx, "mine", place="7")
        place.write(bare, tx, "free", place="8")
    with pytest.raises(Fenced, match="row:/shop/note/7"), settlement.transaction("b") as tx:
        place.write(bare, tx, "late", place="7")
    assert (place.found("7"), place.found("8")) == ("mine", "free")


def test_an_act_under_a_greater_token_waits_for_what_its_former_holder_has_begun(tmp_path, settlement, clock):
    place = Folder(tmp_path, settlement)
    one, two = leased(place, clock, "ada"), leased(place, clock, "bob")
    begun, done, seen = threading.Event(), threading.Event(), []

    def slow(path: str, content: str) -> None:
        begun.set()
        assert done.wait(20)
        (place.root / path).write_text(content)
        seen.append("ada")

    write_slowly = place.adapter(one, name="one").declare("write_file", slow)

    def act():
        with settlement.transaction("a") as tx:
            tx.call(write_slowly, path="slow.txt", content="ada's")

    def follow():
        write(place, place.adapter(two, name="two"), "b", "bob's")
        seen.append("bob")

    threads = [threading.Thread(target=each) for each in (act, follow)]
    threads[0].start()
    assert begun.wait(20)
    threads[1].start()
    done.set()
    for thread in threads:
        thread.join(20)
    assert seen == ["ada", "bob"]


def test_pruning_leaves_the_fence(tmp_path, settlement, clock):
    place = Folder(tmp_path, settlement)
    files = place.adapter(leased(place, clock, "ada"), name="one")
    write(place, files, "a", "ada's")
    assert (files.prune(0), files.prune(0)) == (1, 0)
    with pytest.raises(Fenced):
        write(place, place.adapter(name="bare"), "b", "late")
    assert place.found() == "ada's"
