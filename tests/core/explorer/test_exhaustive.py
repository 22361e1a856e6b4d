"""Small programs, all of them, in every interleaving, by the real protocol, driver and ledger."""

from __future__ import annotations

import pytest
from tests.core.explorer.programs import explore_all, pairs, triples

PAIR_SHARDS = 160
TRIPLE_SHARDS = 64


@pytest.mark.sampled(PAIR_SHARDS)
@pytest.mark.parametrize("shard", range(PAIR_SHARDS))
def test_every_pair_of_two_step_programs_on_two_scopes_and_their_parent_is_right(shard, record_property):
    assert explore_all(pairs()[shard::PAIR_SHARDS], record_property) == []


@pytest.mark.sampled(TRIPLE_SHARDS)
@pytest.mark.parametrize("shard", range(TRIPLE_SHARDS))
def test_every_triple_of_operations_on_one_scope_is_right(shard, record_property):
    assert explore_all(triples()[shard::TRIPLE_SHARDS], record_property) == []
