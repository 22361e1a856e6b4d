"""The same engine over a store that two workers share: the same ends as in memory, and no others.

The transactions are dealt out to the workers. Between any two moves a worker may take what it was given
for later, look at what the other did, and conclude what the other aborted of its own.
"""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from tests.core.explorer.explorer import explore
from tests.core.explorer.programs import ON_ONE_SCOPE, explore_all, pairs
from tests.core.explorer.store_mutants import MUTANTS
from tests.core.explorer.stores import SharedStore
from tests.core.explorer.test_counterexamples import NAMED, STORED
from tests.rooms.model import ALL_ON, guards_for

SHARDS = 16
SAMPLE = 250  # states of a program that has too many to visit over a store
ROOM = 1 << 28

ONE_OPERATION = sorted(
    {
        *itertools.product([(op,) for op in ON_ONE_SCOPE], repeat=2),
        *(pair for pair in pairs() if len(pair[0]) == len(pair[1]) == 1 and set("py") & set(pair[0][0] + pair[1][0])),
    }
)
TWO_OPERATIONS = random.Random(4).sample([pair for pair in pairs() if len(pair[0]) > 1 < len(pair[1])], 8)
ON_A_WILDCARD = [
    *(((first,), (second,)) for first in ("rw", "ew", "sw") for second in ("rx", "ex", "sp", "ey", "sz")),
    *(((first,), (second,)) for first in ("rx", "ep", "sz") for second in ("rw", "ew", "sw")),
]
ON_POSTGRESQL = [("ex", "ex"), ("sx", "rx sx"), ("ep f", "rx"), ("ew", "sx")]
LONG = ("restamping the holder of a claim",)
GUARDED = [
    (("ex f", "rx"), ALL_ON._replace(reads="early"), True),
    (("ex", "rx sy"), ALL_ON._replace(reads="early"), False),
    (("ex ey f", "rx ey"), ALL_ON._replace(reads="early"), False),
    (("ex f", "rx"), guards_for(()), True),
    (("sx", "rx sy"), guards_for({"A3"}), False),
]
MEDDLED = [("sx sy",), ("ex sy", "rx"), ("ey jx", "ry sx")]


@pytest.fixture(scope="module")
def folder():
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM
    with tempfile.TemporaryDirectory(dir=memory if roomy else None) as path:
        yield path


@pytest.fixture
def store(folder):
    with SharedStore(f"sqlite:///{folder}/store.db") as store:
        yield store


def differing(cases, store, record_property, *, whole=True, **options):
    """Return the cases that went wrong over the store, or that ended there as they never do in memory.

    With `whole` they are visited to their end: then every end in memory must be reached, too.
    """
    wrong, states, finals = [], 0, 0
    for number, programs in enumerate(cases):
        sample = {} if whole else {"limit": SAMPLE, "shuffled": number}
        found, in_memory = explore(*programs, store=store, **options, **sample), explore(*programs, **options)
        states, finals = states + found.states, finals + found.finals
        strange = found.ends ^ in_memory.ends if whole else found.ends - in_memory.ends
        if found.violations or in_memory.violations or strange or (whole and not found.finals):
            wrong.append((programs, found.violations, in_memory.violations, strange))
    record_property("explored_programs", len(cases))
    record_property("explored_states", states)
    record_property("explored_ends", finals)
    return wrong


@pytest.mark.sampled(SHARDS)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_pair_of_operations_ends_between_two_workers_as_it_does_in_memory(shard, store, record_property):
    assert differing(ONE_OPERATION[shard::SHARDS], store, record_property) == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("programs", TWO_OPERATIONS, ids=lambda programs: " | ".join(map(" ".join, programs)))
def test_pairs_of_longer_programs_end_between_two_workers_as_they_do_in_memory(programs, store, record_property):
    assert differing([programs], store, record_property, whole=False) == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMED)
def test_a_stored_counterexample_is_right_between_two_workers(name, store, record_property):
    programs, declared = STORED[name]
    whole = len(programs) < 3 and name not in LONG
    assert differing([programs], store, record_property, whole=whole, declared=declared) == []


@pytest.mark.sampled(SHARDS)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_wildcard_overlaps_between_two_workers_what_it_overlaps_in_memory(shard, store, record_property):
    assert differing(ON_A_WILDCARD[shard::SHARDS], store, record_property) == []


@pytest.mark.parametrize(("programs", "guards", "whole"), GUARDED)
def test_two_workers_keep_what_their_guards_promise(programs, guards, whole, store, record_property):
    assert differing([programs], store, record_property, whole=whole, guards=guards) == []


@pytest.mark.parametrize("programs", MEDDLED, ids=" | ".join)
def test_a_run_that_another_worker_cancels_leaves_nothing_and_acts_no_more(programs, store, record_property):
    sampled = {"durable": True, "cancelled": [0], "limit": SAMPLE, "shuffled": 1}
    assert explore_all([programs], record_property, store=store, **sampled) == []


@pytest.mark.parametrize("programs", MEDDLED, ids=" | ".join)
def test_between_two_workers_a_slow_act_or_answer_changes_nothing(programs, store, record_property):
    assert explore_all([programs], record_property, store=store, durable=True, limit=SAMPLE, shuffled=1) == []


def test_who_gives_up_when_another_worker_has_wounded_it_leaves_no_retry_behind(store, record_property):
    programs, sampled = ("rx ex", "ex"), {"durable": True, "tries": 1, "limit": 500, "shuffled": 1}
    assert explore_all([programs], record_property, store=store, **sampled) == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("programs", ON_POSTGRESQL, ids=" | ".join)
def test_two_workers_on_postgresql_end_as_one_in_memory(programs, postgres_url, record_property):
    with SharedStore(postgres_url) as store:
        assert differing([programs], store, record_property, whole=False) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_the_explorer_catches_the_mutant_of_a_shared_store(name, folder):
    mutant = MUTANTS[name]
    with SharedStore(f"sqlite:///{folder}/store.db", ledger=mutant.ledger) as broken:
        found = explore(*mutant.programs, store=broken, protocol=mutant.protocol, first_violation=True)
    assert found.violations != {}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_whole_engine_is_right_over_a_shared_store_where_the_mutant_is_caught(name, store):
    assert explore(*MUTANTS[name].programs, store=store).violations == {}
