"""SIGKILL at every statement of a process that halts in the middle of a release, and resumes.

The next process finds the halt, or finds none; while it stands nothing leaves, and when it is lifted all has left once.
"""

from __future__ import annotations

from contextlib import closing, suppress

from tests.core.crashes.conftest import FULL
from tests.core.crashes.sweep import OTHER_DATABASES

from settlemark import Halted, Retries, Settlement, effect
from settlemark.hosting import host_of
from settlemark.testing import KillPoints, in_child


class Post:
    """Sends letters, and keeps its log in a file."""

    def __init__(self, file, then=lambda: None):
        self._file = file

        def sent(to):
            return True if to in self.log() else None

        @effect("irreversible", scope="mail:/{to}", probe=sent)
        def letter(to):
            with self._file.open("a") as log:
                log.write(f"{to}\n")
            then()
            return True

        self.letter = letter

    def log(self):
        return self._file.read_text().split() if self._file.exists() else []


def opened(url):
    return Settlement(url, retries=Retries(first=0, most=0), wait=20.0)


def play(case):
    with opened(case.url) as settlement:
        halts = [lambda: settlement.halt("mail:/**", by="eve", because="odd", wait=0)]
        post = Post(case.desk, lambda: halts.pop()() if halts else None)
        with suppress(Halted), settlement.transaction("trip") as tx:
            tx.call(post.letter, to="ada")
            tx.call(post.letter, to="bob")
        settlement.resume(1, by="eve")


def killed_at(number, case):
    def until_then(_tell):
        with KillPoints(number, url=OTHER_DATABASES):
            play(case)

    ended = in_child(until_then, timeout=60)
    assert (ended.error, ended.late) == (None, False), ended.error or ended.stack
    return ended.killed


def gone_on_with(case):
    """What the next process makes of it: whether it found a halt, what it found sent, and what there is at the end."""
    post = Post(case.desk)
    with closing(opened(case.url)) as settlement:
        standing = settlement.halts()
        before = post.log()
        settlement.recover(keep_open=0)
        if standing:
            assert [letter for letter in post.log() if letter not in before] == []  # nothing leaves before it is lifted
        for halt in standing:
            settlement.resume(halt, by="bob")
        settlement.recover(keep_open=0)
        assert (settlement.halts(), settlement.in_doubt(), settlement.residue()) == ([], [], [])
        assert host_of(settlement).protocol.live == {}
        with settlement.transaction("trip") as tx:  # it is replayed, or was never decided
            tx.call(post.letter, to="ada")
            tx.call(post.letter, to="bob")
    return bool(standing), before, post.log()


def test_a_halt_and_what_it_has_put_aside_outlive_their_process_at_every_statement(in_memory, record_property):
    whole = in_memory.fresh()
    every = len(KillPoints(url=OTHER_DATABASES).run(lambda: play(whole), timeout=60).told)
    found = []
    for number in range(1, every + 1, 1 if FULL else 4):
        case = in_memory.fresh()
        killed_at(number, case)
        found.append(gone_on_with(case))
        in_memory.drop(case)
    assert [end for *_, end in found if sorted(end) != ["ada", "bob"]] == []
    assert {standing for standing, *_ in found} == {True, False}
    record_property("explored_kills", len(found))
