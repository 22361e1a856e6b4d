"""Small programs, all of them, in every interleaving, by the real protocol, driver and ledger."""

from __future__ import annotations

import pytest
from tests.core.explorer.programs import pairs, triples

from settlemark.testing._explorer import explore

PAIR_SHARDS = 32
TRIPLE_SHARDS = 8


def _explore_all(cases, record_property):
    states = finals = 0
    wrong = []
    for programs in cases:
        found = explore(*programs)
        states += found.states
        finals += found.finals
        if found.violations or not found.finals:
            wrong.append((programs, found.violations))
    record_property("explored_programs", len(cases))
    record_property("explored_states", states)
    record_property("explored_ends", finals)
    return wrong


@pytest.mark.parametrize("shard", range(PAIR_SHARDS))
def test_every_pair_of_two_step_programs_on_two_scopes_and_their_parent_is_right(shard, record_property):
    assert _explore_all(pairs()[shard::PAIR_SHARDS], record_property) == []


@pytest.mark.parametrize("shard", range(TRIPLE_SHARDS))
def test_every_triple_of_operations_on_one_scope_is_right(shard, record_property):
    assert _explore_all(triples()[shard::TRIPLE_SHARDS], record_property) == []
