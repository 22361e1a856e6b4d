"""What cannot be undone leaves only when all else of its transaction has succeeded, wherever that was issued."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.extent import examples

from settlemark import InDoubt, PartialCommit, Refused, Settlement, State, Tag, effect
from settlemark.hosting import host_of


class Boom(Exception):
    """A tool's failure."""


CLASSES = ["read", "idempotent", "reversible", "cost", "staged", "opaque", "irreversible"]
HANDLERS = {"reversible": ("undo",), "cost": ("undo", "cost")}


class Outside:
    """The world: what acted and what was undone, by the numbers of the calls, in that order."""

    def __init__(self):
        self.acted, self.undone, self.failed = [], [], []
        self.tools = {kind: self.tool(kind) for kind in CLASSES}

    def tool(self, kind):
        def act(number, cell, fails):
            if fails:
                self.failed.append(number)
                raise Boom(number)
            self.acted.append(number)
            return number

        def undo(number):
            self.undone.append(number)

        act.__name__ = act.__qualname__ = kind
        handlers = {"undo": undo, "cost": "a fee"}
        given = {role: handlers[role] for role in HANDLERS.get(kind, ())}
        scope = {} if kind == "opaque" else {"scope": "cell:/{cell}"}
        return effect("reversible" if given else kind, **scope, **given)(act)


# ---- each class, one by one


def two_calls(_settlement, tx, calls):
    for tool, arguments in calls:
        tx.call(tool, **arguments)


def one_turn(_settlement, tx, calls):
    with tx.turn() as turn:
        for planned in [turn.plan(tool, **arguments) for tool, arguments in calls]:
            planned.run()


def two_turns(_settlement, tx, calls):
    for tool, arguments in calls:
        with tx.turn() as turn:
            turn.call(tool, **arguments)


def a_part(settlement, tx, calls):
    """A sub-agent in the transaction of its caller has the first of them; the caller the second."""
    (inner, arguments), last = calls

    @effect("reversible", scope="desk:/d", undo=lambda: None)
    def delegate():
        with settlement.transaction("inner") as part:
            part.call(inner, **arguments)

    tx.call(delegate)
    one_turn(settlement, tx, [last])


@pytest.mark.parametrize("ways", [two_calls, one_turn, two_turns, a_part])
@pytest.mark.parametrize("mailed_first", [True, False])
@pytest.mark.parametrize("kind", CLASSES)
def test_a_mail_never_left_when_a_call_before_or_behind_it_fails(settlement, tools, world, kind, mailed_first, ways):
    outside = Outside()
    calls = [(tools.send, {"to": "ada"}), (outside.tools[kind], {"number": 1, "cell": "a", "fails": True})]
    if not mailed_first:
        calls.reverse()

    with pytest.raises((Boom, Refused, PartialCommit)) as raised, settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        ways(settlement, tx, calls)

    if kind == "irreversible" and mailed_first:  # one of two that cannot be undone is the first to leave
        assert world.log == [("book", "a"), ("send", "ada", "hello")]
        assert (raised.type, [r.tag for r in settlement.residue()]) == (PartialCommit, [Tag.PARTIAL_COMMIT])
        return
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert (tx.state, settlement.residue(), host_of(settlement).protocol.live) == (State.ABORTED, [], {})


def test_what_left_and_cannot_be_undone_makes_a_partial_commit_and_the_mail_stays_at_home(settlement, tools, world):
    outside = Outside()
    with pytest.raises(PartialCommit), settlement.transaction("trip") as tx:
        tx.call(tools.send, to="ada")
        tx.call(outside.tools["staged"], number=1, cell="a", fails=False)
        tx.call(outside.tools["staged"], number=2, cell="b", fails=True)
    assert (outside.acted, world.log) == ([1], [])
    assert [(r.tool, r.tag) for r in settlement.residue()] == [
        ("send", Tag.PARTIAL_COMMIT),
        ("staged", Tag.PARTIAL_COMMIT),
    ]


def test_one_that_overlaps_a_mail_leaves_behind_it_and_its_failure_is_named(settlement, tools):
    outside = Outside()
    with pytest.raises(PartialCommit), settlement.transaction("trip") as tx, tx.turn() as turn:
        turn.call(outside.tools["irreversible"], number=1, cell="a", fails=False)
        turn.call(outside.tools["reversible"], number=2, cell="a", fails=True)
    assert outside.acted == [1]
    assert [(r.tool, r.tag) for r in settlement.residue()] == [("reversible", Tag.PARTIAL_COMMIT)]


# ---- random turns


@dataclass(frozen=True)
class Issued:
    kind: str
    cell: str
    fails: bool


calls = st.builds(Issued, st.sampled_from(CLASSES), st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 5).map(bool))
calls = calls.map(lambda call: Issued(call.kind, call.cell, not call.fails))
turns = st.tuples(st.sampled_from(["turn", "turn", "scopes", "issued"]), st.booleans(), st.lists(calls, max_size=5))


class Job:
    """Some turns in one transaction, each the agent's own or that of a sub-agent within a call of it."""

    def __init__(self, said):
        self.outside = Outside()
        self.said = said
        self.calls, self.orders = [], []
        for order, _, issued in said:
            self.calls += issued
            self.orders += [order] * len(issued)

    def play(self, settlement):
        """Play it, and return what it ended with."""
        number = 0
        try:
            with settlement.transaction("trip") as tx:
                for order, nested, issued in self.said:
                    numbered = list(enumerate(issued, number))
                    number += len(issued)
                    self.turn(tx, settlement, order, numbered, nested=nested)
        except (Boom, Refused, PartialCommit, InDoubt) as error:
            return tx, error
        return tx, None

    def turn(self, tx, settlement, order, numbered, *, nested):
        def act(face):
            with face.turn(order=order) as turn:
                tools = self.outside.tools
                for planned in [turn.plan(tools[c.kind], number=n, cell=c.cell, fails=c.fails) for n, c in numbered]:
                    planned.run()

        @effect("reversible", scope="desk:/d", undo=lambda: None)
        def delegate():
            with settlement.transaction("inner") as part:
                act(part)

        tx.call(delegate) if nested else act(tx)

    def tied(self, one, other):
        """Whether a held call leaves in its place behind another, whatever they are."""
        same = self.calls[one].cell == self.calls[other].cell and "opaque" not in {
            self.calls[one].kind,
            self.calls[other].kind,
        }
        opaque = self.calls[one].kind == self.calls[other].kind == "opaque"
        return same or opaque or self.orders[one] == self.orders[other] == "issued"

    def may_follow(self, first, other):
        """Whether one may leave behind another that cannot be undone: it is tied to it, or to what is."""
        behind = {first}
        for number in range(first + 1, len(self.calls)):
            if any(self.tied(earlier, number) for earlier in behind):
                behind.add(number)
        return other in behind

    def kind(self, number):
        return self.calls[number].kind


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(turns, max_size=3))
def test_nothing_irreversible_ever_left_when_anything_of_its_transaction_failed_that_need_not_follow_it(said):
    job = Job(said)
    outside = job.outside
    with Settlement("memory:", on_residue=lambda _: None) as settlement:
        tx, error = job.play(settlement)
        state, residue, live = tx.state, settlement.residue(), host_of(settlement).protocol.live

    left = [n for n in outside.acted if job.kind(n) == "irreversible"]
    for mail in left:
        rest = outside.acted[outside.acted.index(mail) + 1 :] + outside.failed
        for other in rest:
            # Those that cannot be undone keep their order: it may have to follow one that comes behind this.
            behind = [n for n, call in enumerate(job.calls) if n >= mail and call.kind == "irreversible"]
            assert job.kind(other) == "irreversible" or any(job.may_follow(n, other) for n in behind)
    assert (len(set(outside.acted)), live) == (len(outside.acted), {})
    assert (error is None) == (not outside.failed)
    if error is None:
        assert (sorted(outside.acted), state, residue) == ([*range(len(job.calls))], State.COMMITTED, [])
        return
    undoable = [n for n in outside.acted if "undo" in HANDLERS.get(job.kind(n), ())]
    if state is State.ABORTED:
        assert outside.undone == undoable[::-1]
        assert left == []
        stay = [n for n in outside.acted if job.kind(n) in ("idempotent", "opaque", "cost")]
        assert len(residue) == len(stay)
        assert not [n for n in outside.acted if job.kind(n) == "staged"]
    else:
        assert isinstance(error, PartialCommit)
        assert (outside.undone, bool(residue)) == ([], True)
