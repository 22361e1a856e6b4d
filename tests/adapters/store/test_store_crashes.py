"""A process that is killed at any write to the store leaves what a new one can finish: with all, or with nothing."""

from __future__ import annotations

import pytest
from tests.adapters.store.subject import SUBJECTS, look, opened

from settlemark import Settlement
from settlemark.testing import die, in_child, kill_points
from settlemark_adapters.store import Store

SUBJECT = SUBJECTS["store"]


class Mortal:
    """A store whose n-th write kills the process, before it or behind it."""

    def __init__(self, base, at, when):
        self.base, self.at, self.when = base, at, when
        self.get, self.search = base.get, base.search

    def _write(self, write, *arguments):
        self.at -= 1
        if (self.at, self.when) == (0, "before"):
            die()
        write(*arguments)
        if (self.at, self.when) == (0, "after"):
            die()

    def put(self, *arguments):
        self._write(self.base.put, *arguments)

    def delete(self, *arguments):
        self._write(self.base.delete, *arguments)


def act(memory, tx):
    tx.call(memory.append, namespace="team", name="plan", text="call Ada")
    tx.call(memory.delete, namespace="team", name="plan")
    tx.call(memory.put, namespace="team", name="new", value={"text": "x"})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("fails", [True, False], ids=["undone", "done"])
def test_killed_at_any_write_it_is_undone_by_who_recovers(when, fails):
    for at in range(1, 15):
        with SUBJECT.world() as folder:
            before, url = look(folder), f"sqlite:///{folder}/ledger.db"

            def play(_tell, folder=folder, url=url, at=at):
                with Settlement(url) as settlement:
                    memory = Store(Mortal(opened(folder), at, when), settlement)
                    with settlement.transaction("t") as tx:
                        act(memory, tx)
                        if fails:
                            tx.abort()

            ended = in_child(play)
            assert ended.error is None
            with Settlement(url, keep_open=0) as settlement:
                store = opened(folder)
                Store(store, settlement)
                settlement.recover()
                store.conn.close()
                done = {"memory:/team/new": {"text": "x"}}
                assert look(folder) == (before if fails or ended.killed else done), at
                assert settlement.residue() == []
            if not ended.killed:
                assert at > 6
                return
    pytest.fail("there is no end to its writes")


@pytest.mark.long
def test_killed_at_any_statement_of_its_ledger_it_comes_to_one_of_two_ends():
    with SUBJECT.world() as folder:
        before, done = look(folder), {"memory:/team/new": {"text": "x"}}
        url, name = f"sqlite:///{folder}/ledger.db", ["t"]

        def play():
            with Settlement(url) as settlement, settlement.transaction(name[0]) as tx:
                act(Store(opened(folder), settlement), tx)

        for point in kill_points(play, url=url):
            with Settlement(url, keep_open=0) as settlement:
                store = opened(folder)
                memory = Store(store, settlement)
                settlement.recover()
                assert look(folder) in (before, done), point
                assert settlement.residue() == []
                if look(folder) == done:
                    memory.put("team", "plan", before["memory:/team/plan"])
                    memory.delete("team", "new")
                store.conn.close()
            name[0] += "'"


def killed_as_it_appends(text, folder, url, when):
    """Have a process append a text, and be killed before it is written or behind that."""

    def play(_tell):
        with Settlement(url) as settlement:
            memory = Store(Mortal(opened(folder), 2, when), settlement)
            with settlement.transaction("t") as tx:
                tx.call(memory.append, namespace="team", name="plan", text=text)

    assert in_child(play).killed


def test_a_process_that_comes_back_to_a_call_finds_it_done_and_does_not_do_it_twice():
    with SUBJECT.world() as folder:
        url = f"sqlite:///{folder}/ledger.db"
        killed_as_it_appends("once", folder, url, "after")
        with Settlement(url, keep_open=600) as settlement:
            store = opened(folder)
            memory = Store(store, settlement)
            with settlement.transaction("t") as tx:
                assert tx.call(memory.append, namespace="team", name="plan", text="once") == {"version": "1"}
            store.conn.close()
        assert look(folder) == {"memory:/team/plan": {"text": "book the room\nonce"}}


def test_one_that_died_before_it_wrote_has_not_happened_although_another_has_written_there_since():
    with SUBJECT.world() as folder:
        url = f"sqlite:///{folder}/ledger.db"
        killed_as_it_appends("never", folder, url, "before")
        with Settlement("memory:") as others, others.transaction("others") as tx:
            store = opened(folder)
            tx.call(Store(store, others).append, namespace="team", name="plan", text="theirs")
        store.conn.close()
        with Settlement(url, keep_open=0) as settlement:
            store = opened(folder)
            Store(store, settlement)
            settlement.recover()
            store.conn.close()
            assert (settlement.residue(), settlement.in_doubt()) == ([], [])
        assert look(folder) == {"memory:/team/plan": {"text": "book the room\ntheirs"}}
