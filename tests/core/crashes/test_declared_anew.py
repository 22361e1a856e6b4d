"""A process is killed within a call, and the next one declares the tool otherwise: what was sent, was sent as it was.

A key, and a probe that looks for one, help with a call that was sent with its key, and with no other. What has begun to
act at once cannot be held after that. The judge is the counterparty's own log.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest

from settlemark import InDoubt, Settlement, Stale, State, Tag, current_call, effect
from settlemark.hosting import host_of
from settlemark.testing import die, in_child

SIGNED = ("reversible, keyed", "reversible, probed", "irreversible, keyed", "idempotent")
WAYS = ("reversible", "irreversible", "staged", "opaque", *SIGNED)


class Counterparty:
    """It logs what it is sent, takes a key for one act however often it comes, and knows which it has seen."""

    def __init__(self, path):
        self.path = path
        path.touch()

    def lines(self):
        return Counter(self.path.read_text().split("\n")[:-1])

    def act(self, key):
        if key is None or f"act {key}" not in self.lines():
            self.note(f"act {key}")

    def note(self, line):
        with self.path.open("a") as log:
            log.write(f"{line}\n")

    @property
    def acts(self):
        return sum(count for line, count in self.lines().items() if line.startswith("act"))


def declared(way, counterparty, *, dies=False):
    """Return the tool in the way in which one process declares it."""
    kind, _, how = way.partition(", ")
    parts = {"keyed": how == "keyed" or kind == "idempotent"}
    if how == "probed":
        parts["probe"] = lambda key: True if f"act {key}" in counterparty.lines() else None
    if kind == "reversible":
        parts["undo"] = lambda: counterparty.note("undo")

    @effect(kind, scope="room:/{room}", **parts)
    def book(room):
        counterparty.act(current_call().key if way in SIGNED else None)
        if dies:
            die()

    return book


@effect("reversible", scope="room:/a", undo=lambda: None)
def sweep():
    """Take the room, as who comes after it does."""


@pytest.mark.parametrize("comes_back", [True, False], ids=["entered again", "recovered"])
@pytest.mark.parametrize(("before", "after"), list(permutations(WAYS, 2)))
def test_a_call_that_was_cut_off_acts_once_or_is_named_however_its_tool_is_declared_by_then(
    before, after, comes_back, tmp_path
):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    counterparty = Counterparty(tmp_path / "log")

    def be_killed(_tell):
        tool = declared(before, counterparty, dies=True)
        with Settlement(url) as settlement, settlement.transaction("trip") as tx:
            tx.call(tool, room="a")

    assert in_child(be_killed).killed
    tool = declared(after, counterparty)
    with Settlement(url, keep_open=1e9 if comes_back else 0, wait=5) as settlement:
        if comes_back:
            try:
                with settlement.transaction("trip") as tx:
                    tx.call(tool, room="a")
            except (InDoubt, Stale):
                pass
        settlement.recover()
        trip = next(
            one for one in host_of(settlement).ledger.read(lambda book: book.transactions()) if one.row.name == "trip"
        )
        left = {(one.key, one.tag) for one in settlement.residue()}
        with settlement.transaction("another", wait=1) as tx:
            tx.call(sweep)

    stands = counterparty.acts - counterparty.lines()["undo"]
    expected = (1, {(trip.effects[0].row.key, Tag.UNRESOLVED)}) if left else (int(trip.state is State.COMMITTED), set())
    assert counterparty.acts == 1
    assert (stands, left) == expected
