"""Each rule is needed: an engine without it is caught, on programs that the whole engine gets right."""

from __future__ import annotations

import pytest
from tests.core.explorer.explorer import explore
from tests.core.explorer.mutants import MUTANTS, STARVATION


@pytest.mark.parametrize("name", MUTANTS)
def test_the_explorer_catches_the_mutant(name):
    mutant = MUTANTS[name]
    found = explore(*mutant.programs, **mutant.options, **mutant.swap).violations
    assert [what for what in found if not what.startswith(SLIPS)] != []


SLIPS = ("the engine broke down: TypeError", "the engine broke down: AttributeError")
"""What a mutant is caught by that no longer fits the engine: it breaks no rule then, and shows nothing."""


@pytest.mark.parametrize("name", MUTANTS)
def test_the_whole_engine_is_right_where_the_mutant_is_caught(name):
    mutant = MUTANTS[name]
    assert explore(*mutant.programs, **mutant.options).violations == {}


@pytest.mark.long
def test_a_fresh_epoch_on_retry_starves_the_victim_of_a_looping_rival_and_a_kept_one_does_not():
    def attempts(laps, **swap):
        return explore(*STARVATION.programs, loops={0: laps}, tries=12, **swap).attempts

    assert [attempts(laps) for laps in (1, 2, 3, 4)] == [2, 2, 2, 2]
    assert [attempts(laps, **STARVATION.swap) for laps in (1, 2, 3, 4)] == [3, 4, 5, 6]
