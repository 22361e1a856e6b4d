"""What the records of the folder say to whoever asks again: what was undone, and what nobody can tell any more."""

from __future__ import annotations

import pytest
from tests.rooms.adapters import Desk as Kept
from tests.rooms.adapters import Order, Plans, digest_of, mark_of

from settlemark import UNKNOWN, InDoubt


def ordered(tool, about):
    """An order under one key, as the engine gives it to whoever asks again for what it was not told."""
    return Order(tool, about, "t#1/0", mark_of("t#1/0"), digest_of({}), alone=False, keeps=True, scopes=None)


@pytest.fixture
def acts(desk):
    desk.put("a.txt", content="one")
    return desk.files._acts


def planned(desk, how, order):
    plans = Plans(desk.files._root)
    return {
        "write": lambda: plans.putting(order, ("a.txt",), b"two", "written", append=False),
        "folder": lambda: plans.making(order, ("x", "y"), "made"),
        "move": lambda: plans.moving(order, ("a.txt",), ("b.txt",), "moved"),
        "delete": lambda: plans.removing(order, ("a.txt",), "gone"),
    }[how]()


@pytest.mark.parametrize("how", ["write", "folder", "move", "delete"])
def test_a_probe_finds_what_has_happened_and_nothing_of_it_once_it_is_undone(desk, acts, how):
    order = ordered(how, "a.txt")
    result = acts.perform(order, planned(desk, how, order))
    before = acts.probe(order.mark)
    acts.undo(order.mark, order.about)
    assert (before, acts.probe(order.mark), list(desk.look()), desk.text("a.txt")) == (result, None, ["a.txt"], "one")


def test_a_move_that_died_on_its_way_is_in_doubt_when_the_file_is_at_neither_name(desk, acts, monkeypatch):
    order = ordered("move", "a.txt")
    save = Kept.save

    def dies_when_it_has_moved(kept, record):
        if record.done:
            raise InterruptedError
        save(kept, record)

    with monkeypatch.context() as there:
        there.setattr(Kept, "save", dies_when_it_has_moved)
        with pytest.raises(InterruptedError):
            acts.perform(order, planned(desk, "move", order))
    (desk.root / "b.txt").unlink()  # somebody else took it away
    assert acts.probe(order.mark) is UNKNOWN
    with pytest.raises(InDoubt):
        acts.perform(order, planned(desk, "move", order))
    assert list(desk.look()) == []
