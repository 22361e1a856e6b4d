"""Wherever a process dies, the next one brings its step to an end: all of it, once, or nothing of it."""

from __future__ import annotations

import os

import pytest
from tests.adapters.filesystem.step import AFTER, FILES, held, stage
from tests.adapters.filesystem.subject import look, put

from settlemark import Settlement
from settlemark.testing import KillPoints, die, in_child
from settlemark_adapters.filesystem import Filesystem

# Whatever changes a name: between two of these nothing that others see changes.
CHANGES = ("rename", "replace", "link", "unlink", "mkdir", "rmdir")
STRIDES = [pytest.param(11, id="some"), pytest.param(1, id="all", marks=pytest.mark.long)]


class Failed(Exception):
    """The step fails."""


def die_at(number):
    """Die before the n-th change of a name, in this process."""
    passed = iter(range(1, 10_000))

    def deadly(change):
        def act(*args, **kwargs):
            if next(passed) == number:
                die()
            return change(*args, **kwargs)

        return act

    for name in CHANGES:
        setattr(os, name, deadly(getattr(os, name)))


@pytest.fixture
def worlds(tmp_path):
    """Make a new folder with files, and the address of a ledger that is not there yet."""

    def make(number):
        root = tmp_path / str(number)
        root.mkdir()
        put(*FILES)(root)
        return root, f"sqlite:///{tmp_path}/{number}.db"

    return make


def recovered(root, url, **options):
    """Recover in a new settlement, and say how the step ended, and whether anything is left to look at."""
    with Settlement(url) as settlement:
        Filesystem(root, settlement, **options)
        settlement.recover(keep_open=0.0)
        states = [recorded.state.value for recorded in settlement.transactions()]
        return states, settlement.residue(), settlement.in_doubt()


@pytest.mark.parametrize("stride", STRIDES)
def test_of_a_staged_step_all_lands_once_or_nothing(worlds, stride):
    landed = 0
    for number in range(1, 300, stride):
        root, url = worlds(number)
        before = held(look(root))

        def play(tell, number=number, root=root, url=url):
            with Settlement(url) as settlement:
                files = Filesystem(root, settlement, staged=True)
                die_at(number)
                with settlement.transaction("t") as tx:
                    stage(tx, files)

        ended = in_child(play)
        states, *left = recovered(root, url, staged=True)
        found = held(look(root))
        assert (ended.error, left) == (None, [[], []])
        assert (found, states) in ((AFTER, ["committed"]), (before, ["aborted"]), (before, []))
        landed += found == AFTER
        if not ended.killed:
            break
    assert not ended.killed
    assert landed > 25 / stride


@pytest.mark.parametrize("stride", STRIDES)
def test_an_eager_step_is_undone_by_the_next_process(worlds, stride):
    deaths = 0
    for number in range(1, 400, stride):
        root, url = worlds(number)
        before = look(root)

        def play(tell, number=number, root=root, url=url):
            with Settlement(url) as settlement:
                files = Filesystem(root, settlement)
                die_at(number)
                try:
                    with settlement.transaction("t") as tx:
                        stage(tx, files)
                        raise Failed
                except Failed:
                    pass

        ended = in_child(play)
        states, *left = recovered(root, url)
        assert (ended.error, left, look(root)) == (None, [[], []], before)
        assert states in ([], ["aborted"])
        deaths += ended.killed
        if not ended.killed:
            break
    assert not ended.killed
    assert deaths > 50 / stride


@pytest.mark.parametrize("stride", [pytest.param(23, id="some"), pytest.param(1, id="all", marks=pytest.mark.long)])
def test_an_append_that_is_killed_at_any_write_of_the_ledger_is_there_once(worlds, stride):
    for number in range(1, 400, stride):
        root, url = worlds(number)

        def play(root=root, url=url):
            with Settlement(url) as settlement, settlement.transaction("t") as tx:
                tx.call(Filesystem(root, settlement, staged=True).append, path="log.txt", content="once\n")

        ended = KillPoints(number).run(play)
        states, *left = recovered(root, url, staged=True)
        found = (root / "log.txt").read_text()
        assert (ended.error, left) == (None, [[], []])
        assert (found, states) in (("before\nonce\n", ["committed"]), ("before\n", ["aborted"]), ("before\n", []))
        if not ended.killed:
            break
    assert not ended.killed


def test_an_act_whose_answer_was_lost_is_found_by_its_key_and_not_done_again(worlds):
    root, url = worlds(1)

    def play(tell):
        with Settlement(url) as settlement:
            files = Filesystem(root, settlement)
            files._acts._settle = lambda *_: die()  # it has landed, and nobody is told
            with settlement.transaction("t") as tx:
                tx.call(files.append, path="log.txt", content="once\n")

    assert in_child(play).killed
    assert (root / "log.txt").read_text() == "before\nonce\n"
    with Settlement(url, keep_open=60) as settlement:
        files = Filesystem(root, settlement)
        with settlement.transaction("t") as tx:
            assert tx.call(files.append, path="log.txt", content="once\n") == {"path": "log.txt", "bytes": 5}
        assert settlement.residue() == []
    assert (root / "log.txt").read_text() == "before\nonce\n"


def test_an_answer_that_is_lost_in_the_same_process_is_found_too(worlds):
    root, url = worlds(1)
    with Settlement(url) as settlement:
        files = Filesystem(root, settlement)

        def lost(*_):
            raise TimeoutError("the file server does not answer")

        files._acts._settle = lost
        with settlement.transaction("t") as tx:
            assert tx.call(files.append, path="log.txt", content="once\n") == {"path": "log.txt", "bytes": 5}
    assert (root / "log.txt").read_text() == "before\nonce\n"


def test_what_was_asked_about_before_it_landed_does_not_land_any_more(worlds, monkeypatch):
    root, url = worlds(1)
    before = look(root)
    with Settlement(url) as settlement:
        files = Filesystem(root, settlement)
        rename = os.rename

        def slow(source, target, **folders):
            if target == "log.txt":  # meanwhile another process takes it for dead
                assert files._probe(key="t#1/0") is None
            rename(source, target, **folders)

        monkeypatch.setattr(os, "rename", slow)
        with pytest.raises(FileNotFoundError, match="changed nothing"), settlement.transaction("t") as tx:
            tx.call(files.append, path="log.txt", content="late")
        assert (look(root), settlement.residue()) == (before, [])
