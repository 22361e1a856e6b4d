"""The overlap index answers as a plain list would that compares every scope with every other."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, rule
from tests.extent import examples
from tests.rooms.protocol import AGE

from settlemark import Scope
from settlemark._protocol.index import ACTIVE, BUSY, HOLDS, NOWHERE, READING, Positions, ScopeIndex

scopes = st.builds(
    lambda kind, path: Scope.parse(f"{kind}:/{'/'.join(path)}"),
    st.sampled_from(["room", "mail"]),
    st.lists(st.sampled_from(["a", "b", "*"]), max_size=3),
)
positions = st.tuples(st.integers(1, 20), st.sampled_from(["", "a", "b"]))


class Token:
    """Stands for a hold: the index asks for its identity, whose it is, and since when."""

    made = count()

    def __init__(self, position):
        self.txn = SimpleNamespace(position=position)
        self.since = next(self.made)


class IndexAgainstAList(RuleBasedStateMachine):
    """Entries of every kind come and go; each question is answered by comparing scope by scope."""

    entered = Bundle("entered")

    @initialize()
    def empty(self):
        self.index = ScopeIndex()
        self.positions = []  # (scope, layer, position)
        self.sets = []  # (scope, layer, token)
        self.floors = []
        self.writes = []
        self.number = 0

    @rule(target=entered, scope=scopes, layer=st.sampled_from([HOLDS, ACTIVE]), position=positions)
    def add_position(self, scope, layer, position):
        path = self.index.enter(scope)
        self.index.add_position(path, layer, position)
        self.positions.append((scope, layer, position))
        return ("position", scope, path, layer, position)

    @rule(target=entered, scope=scopes, layer=st.sampled_from([BUSY, READING]), position=positions)
    def add_set(self, scope, layer, position):
        path, token = self.index.enter(scope), Token(position)
        self.index.add_hold(path, layer, token)
        self.sets.append((scope, layer, token))
        return ("set", scope, path, layer, token)

    @rule(target=entered, scope=scopes, position=positions)
    def raise_floor(self, scope, position):
        path = self.index.enter(scope)
        self.index.raise_floor(path, position)
        self.floors.append((scope, position))
        return ("floor", scope, path, None, position)

    @rule(target=entered, scope=scopes)
    def note_write(self, scope):
        self.number += 1
        path = self.index.enter(scope)
        self.index.note_write(path, self.number)
        self.writes.append((scope, self.number))
        return ("write", scope, path, None, self.number)

    @rule(entry=consumes(entered))
    def remove(self, entry):
        kind, scope, path, layer, what = entry
        if kind == "position":
            self.index.drop_position(path, layer, what)
            self.positions.remove((scope, layer, what))
        elif kind == "set":
            self.index.drop_hold(path, layer, what)
            self.sets.remove((scope, layer, what))
        else:
            return  # a high-water mark stays while anything keeps its node: it has no removal of its own
        self.index.leave(path[-1])

    @rule(scope=scopes, layer=st.sampled_from([HOLDS, ACTIVE]), position=positions)
    def nearest_older(self, scope, layer, position):
        older = [p for s, kind, p in self.positions if kind == layer and s.overlaps(scope) and p < position]
        assert self.index.below(self.index.match(scope), layer, position) == max(older, default=None)

    @rule(scope=scopes, position=positions)
    def all_younger(self, scope, position):
        younger = {p for s, kind, p in self.positions if kind == HOLDS and s.overlaps(scope) and p > position}
        assert self.index.above(self.index.match(scope), position) == younger

    @rule(scope=scopes)
    def frontier_floor_version_and_sets(self, scope):
        match = self.index.match(scope)
        held = [p for s, kind, p in self.positions if kind == HOLDS and s.overlaps(scope)]
        assert self.index.least(match) == min(held, default=None)
        assert self.index.floor(match) == max([p for s, p in self.floors if s.overlaps(scope)], default=NOWHERE)
        assert self.index.version(match) == max([n for s, n in self.writes if s.overlaps(scope)], default=0)
        for layer in (BUSY, READING):
            expected = [t for s, kind, t in self.sets if kind == layer and s.overlaps(scope)]
            found = sorted(self.index.members(match, layer), key=AGE)
            assert found == sorted(expected, key=lambda token: (token.txn.position, token.since))


IndexAgainstAList.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestIndexAgainstAList = IndexAgainstAList.TestCase


@given(st.lists(scopes, max_size=30), st.randoms(use_true_random=False))
def test_when_all_has_left_the_trie_is_empty(entered, random):
    index = ScopeIndex()
    ends = [index.enter(scope)[-1] for scope in entered]
    random.shuffle(ends)
    for end in ends:
        index.leave(end)
    assert (index.root.children, index.wildcards) == ({}, 0)


@given(st.lists(scopes, min_size=1, max_size=20), st.integers(0, 19))
def test_leaving_one_scope_keeps_every_other(entered, which):
    index = ScopeIndex()
    paths = [index.enter(scope) for scope in entered]
    for number, path in enumerate(paths, 1):
        index.add_position(path, HOLDS, (number, ""))
    gone = which % len(entered)
    index.drop_position(paths[gone], HOLDS, (gone + 1, ""))
    index.leave(paths[gone][-1])
    for scope in entered:
        overlapping = [n for n, other in enumerate(entered) if n != gone and other.overlaps(scope)]
        assert index.above(index.match(scope), NOWHERE) == {(n + 1, "") for n in overlapping}


@given(
    st.lists(positions, max_size=30),
    st.sampled_from([0, 1020, 1100]),
    st.lists(st.integers(0, 10_000), max_size=20),
    positions,
)
def test_positions_answer_as_a_sorted_list_on_both_sides_of_the_switch(added, crowd, removed, asked):
    found = Positions()
    expected = [*((n, "crowd") for n in range(100, 100 + crowd)), *added]
    for position in expected:
        found.add(position)
    for which in removed:
        if expected:
            found.discard(expected.pop(which % len(expected)))
    expected.sort()
    older = [p for p in expected if p < asked]
    younger = [p for p in expected if p > asked]
    assert found.below(asked) == (older[-1] if older else None)
    assert found.above(asked) == (younger[0] if younger else None)
    assert found.all_above(asked) == younger
    assert found.least() == (expected[0] if expected else None)


def test_a_scope_that_a_crowd_has_left_takes_the_next_one():
    index = ScopeIndex()
    scope = Scope.parse("room:/Ada")
    path = index.enter(scope)
    for number in range(2000):
        index.add_position(path, HOLDS, (number, ""))
    for number in range(2000):
        index.drop_position(path, HOLDS, (number, ""))
    index.add_position(path, HOLDS, (2000, ""))
    assert index.least(index.match(scope)) == (2000, "")


@pytest.mark.parametrize("crowd", [1023, 1024, 1025, 3000])
def test_a_crowd_at_one_scope_drains_to_nothing(crowd):
    index = ScopeIndex()
    scope = Scope.parse("room:/Ada")
    paths = [(index.enter(scope), (number, "")) for number in range(crowd)]
    for path, position in paths:
        index.add_position(path, HOLDS, position)
    assert index.below(index.match(scope), HOLDS, (crowd, "")) == (crowd - 1, "")
    for path, position in paths:
        index.drop_position(path, HOLDS, position)
        index.leave(path[-1])
    assert index.root.children == {}
