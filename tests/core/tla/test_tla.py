"""The specification and the engine's protocol are one system: TLC and Python reach the same states, one by one.

So what TLC proves of the one holds of the other; and a rule that the one cannot do without, the other cannot.
"""

from __future__ import annotations

import itertools
import re

import pytest
from tests.core.explorer import cells, mutants
from tests.core.explorer.explorer import explore
from tests.core.tla import tlc
from tests.core.tla.reaching import UNWRITTEN, reach

KINDS = {
    "r": "read", "e": "eager", "s": "held", "i": "last", "o": "final", "f": "fail",
    "a": "add", "c": "add held", "m": "multiply",
}  # fmt: skip # a table
ALONE = [KINDS[kind] for kind in "resiof"]
WITH_GROUPS = [KINDS[kind] for kind in "resacm"]


def programs(*texts):
    """The explorer's texts of programs, in the specification's words."""
    return tuple(tuple((KINDS[op[0]], op[1:] or "x") for op in text.split()) for text in texts)


def pairs(kinds, scopes, most=2):
    """Every pair of programs of at most so many steps."""
    steps = list(itertools.product(kinds, scopes))
    every = [program for length in range(1, most + 1) for program in itertools.product(steps, repeat=length)]
    return list(itertools.product(every, repeat=2))


def reached(plans, **options):
    """Every state that the protocol reaches with any of these programs."""
    scopes = tlc.scopes_of(plans)
    return frozenset().union(*(reach(plan, scopes, **options) for plan in plans))


PAIRS_OF_TEXTS = [
    ("ex ey", "ey ex"), ("ex sy", "rx ry"), ("sx ey", "ey rx"), ("rz sp", "sx"), ("ry ep", "ex ey"),
    ("ex ry", "rx sy"), ("sx ex ry", "ey sp"), ("ep rx", "sx ry f"),
]  # fmt: skip # a list of names and values
TRIPLES_OF_TEXTS = [
    ("ey sz", "sz", "rz sy ex"),
    ("ex ry", "rx sx", "sy"),
    ("ry ep", "ex", "ey"),
    ("rx sx", "ex f", "rx sx"),
    ("ex rz", "rx ey f", "sz"),
]
PAIRS_OF_GROUPS = [
    ("ax f", "ax rx"), ("cx ax", "ax"), ("ax sx", "ax"), ("mx ax", "ax f"), ("ax rx", "mx"), ("ap ax", "cx f"),
    ("ax ax", "ax rx"),
]  # fmt: skip # a list of names and values
TRIPLES_OF_GROUPS = [("ax f", "ax", "rx"), ("ax", "cx", "mx f"), ("ax ry", "ax", "ay rx"), ("ax", "ax f", "ap")]
STORED_PAIRS = [programs(*texts) for texts in PAIRS_OF_TEXTS]
STORED_LAST = [
    programs(*texts) for texts in [("iy sx", "ry ex"), ("iy ey sx", "sx"), ("ix sp sy", "ry"), ("iz ix sx", "ex f")]
]
STORED_TRIPLES = [programs(*texts) for texts in TRIPLES_OF_TEXTS]
STORED_GROUPS = [programs(*texts) for texts in PAIRS_OF_GROUPS]

FAMILIES = {
    "every pair of single steps on two scopes and their parent": (pairs(("read", "eager", "held"), "xyp", most=1), ()),
    "pairs that broke simpler rules, hold back what cannot be undone, or commute": (
        STORED_PAIRS + STORED_LAST + STORED_GROUPS,
        (),
    ),
}
THOROUGH = {
    "triples that broke simpler rules": (STORED_TRIPLES, ()),
    "a restamp that two follow": ([programs("ex rz", "rx", "rx", "sz")], ()),
    "the same triples, where the second declares": (STORED_TRIPLES, (2,)),
    "the same pairs, where the first declares": (STORED_PAIRS, (1,)),
    "every pair of two-step programs on one scope": (pairs(ALONE, "x"), ()),
    "every pair of them with effects that commute": (pairs(WITH_GROUPS, "x"), ()),
    "every pair of single steps, where the first declares": (pairs(WITH_GROUPS, "xp", most=1), (1,)),
    "three of whom some commute": ([programs(*texts) for texts in TRIPLES_OF_GROUPS], ()),
    "every pair of two-step programs on a scope and its parent": (pairs(("read", "eager", "held"), "xp"), ()),
}
MUTANTS = {
    "frontier": (mutants.PrematureFrontier, ("rx sx", "rx sx")),
    "stale": (mutants.NoStaleCheck, ("rx sx", "rx sx")),
    "exclusion": (mutants.NoClaimExclusion, ("ex f", "ex")),
    "wound": (mutants.NoWound, ("sx ey", "ey rx")),
    "restamp": (mutants.NoRestamp, ("ry sx", "sx")),
    "followers": (mutants.RestampLeavesOthersBehind, ("ex ry", "rx sx", "sy")),
    "claims wait for held effects": (mutants.ClaimIgnoresHeldEffects, ("sx", "ex")),
    "settled reads": (mutants.ReadsDuringUndo, ("ex f", "rx sy")),
    "last": (mutants.ReleasesAsIssued, ("iy sx", "ry")),
    "reads wait for groups": (mutants.ReadsBesideWhatCommutes, ("ax f", "rx sy")),
    "groups differ": (mutants.GroupsAreAlike, ("ax", "mx f")),
    "stands for all": (mutants.CommutesWhateverElseItDoes, ("ax", "ax ex f")),
    "only its group": (mutants.CommutesWithEveryHolder, ("sx", "cx")),
    "stands alone": (mutants.StandsBelowItsGroup, ("ax sx", "ax")),
    "inverses": (None, ("ax f", "ax")),
    "groups commute": (mutants.NothingCommutes, ("ay ax", "ax f")),
}
# How an undo is made is its tool's to know; and who waits in vain does nothing wrong in the end.
RIGHT_IN_THE_END = ("inverses", "groups commute")
OF_THE_WORLD = {"last": {"leaving": lambda issued, _held: issued}, "inverses": {"inverse": lambda _kind: False}}
QUICK = ("frontier", "last", "reads wait for groups", "inverses")


@pytest.mark.parametrize(
    ("plans", "declaring"),
    [*FAMILIES.values(), *(pytest.param(*family, marks=pytest.mark.long) for family in THOROUGH.values())],
    ids=[*FAMILIES, *THOROUGH],
)
def test_the_specification_keeps_its_promises_in_the_very_states_that_the_protocol_reaches(
    plans, declaring, tmp_path, record_property
):
    found = tlc.check(tmp_path, plans, declaring=declaring)
    ours = reached(plans, declaring=declaring)
    record_property("explored_states", len(ours))
    assert found.violated == ""
    assert found.distinct == len(ours)
    assert found.pictures == ours


@pytest.mark.long
def test_states_with_one_picture_behave_alike_and_everyone_ends(tmp_path):
    plans = STORED_PAIRS[:4] + STORED_GROUPS
    found = tlc.check(tmp_path, plans, invariants=(), properties=("EveryoneEnds",), alike=False)
    assert found.violated == ""
    assert found.distinct > len(found.pictures)
    assert found.pictures == reached(plans)


@pytest.mark.long
def test_the_specification_is_checked_as_it_is_handed_out(tmp_path):
    found = tlc.read(tlc.run(tmp_path, "settlement.tla"))
    assert found.violated == ""
    assert found.distinct > len(pairs(ALONE, "x"))


@pytest.mark.parametrize("rule", [r if r in QUICK else pytest.param(r, marks=pytest.mark.long) for r in MUTANTS])
def test_without_a_rule_both_reach_the_same_states_and_some_of_them_are_wrong(rule, tmp_path_factory):
    mutant, texts = MUTANTS[rule]
    plans = [programs(*texts)]
    found = tlc.check(tmp_path_factory.mktemp("checked"), plans, without=rule)
    all_found = tlc.check(
        tmp_path_factory.mktemp("all"), plans, without=rule, invariants=(), properties=(), deadlocks=True
    )
    assert found.violated != ""
    swap = {} if mutant is None else mutants.Mutant(mutant, texts).swap
    assert all_found.pictures == reached(plans, **OF_THE_WORLD.get(rule, swap))
    assert (explore(*texts, **swap, first_violation=True).violations == {}) is (rule in RIGHT_IN_THE_END)


def test_every_rule_that_can_be_dropped_is_missed():
    assert set(re.findall(r'Rule\("([^"]+)"\)', tlc.SPECIFICATION.read_text())) == set(MUTANTS)


NOW = (*PAIRS_OF_TEXTS[:4], *PAIRS_OF_GROUPS[:3])
LATER = (*PAIRS_OF_TEXTS[4:], *TRIPLES_OF_TEXTS[1:3], *PAIRS_OF_GROUPS[3:], *TRIPLES_OF_GROUPS[:2])


@pytest.mark.parametrize(
    "texts", [*NOW, *(pytest.param(texts, marks=pytest.mark.long) for texts in LATER)], ids=" | ".join
)
def test_the_whole_engine_ends_as_the_protocol_alone_does(texts):
    found = explore(*texts, tries=12, limit=2_000_000)
    assert found.violations == {}
    assert {_ours(end) for end in found.ends} == ends(reached([programs(*texts)]))


def ends(pictures):
    """Return how it can end: at which attempt each has committed (0: not), in which order, and the values left."""
    return {
        (
            tuple(txn[2] if txn[0] == "committed" else 0 for txn in txns),
            order,
            frozenset((cell, value) for cell, value in world if value != UNWRITTEN.told),
        )
        for _, txns, _, _, world, _, order in pictures
        if all(txn[0] in ("committed", "aborted") for txn in txns)
    }


def _ours(end):
    """Return an end of the explorer's, which numbers transactions and steps from 0, and adds each thing once."""
    outcomes, order, values, blocks = end
    return (
        tuple(committed for committed, _, _ in outcomes),
        tuple(number + 1 for number, _ in order),
        frozenset(
            (cell, (_who(value), tuple((group, frozenset((_who(who), 1) for who in block)) for group, block in added)))
            for cell, value, added in zip("xyz", values, blocks, strict=True)
            if value != cells.UNWRITTEN or added
        ),
    )


def _who(value):
    return UNWRITTEN.by if value == cells.UNWRITTEN else (value[0] + 1, value[1], value[2] + 1)
