"""A second opinion: the ends that an independent model of the rules reaches for the same programs.

`oracle.json` was computed once by the design's own model (written separately, as one flat state
machine): for each pair of programs, every reachable end as [attempt at which each committed, or 0],
the commit order as [transaction, attempt], and the two cells' final values.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.core.explorer.explorer import explore

CASES = json.loads((Path(__file__).parent / "oracle.json").read_text())


def _ends(found):
    return sorted(
        [[t[0] for t in tasks], [list(w) for w in order], [list(v) for v in values[:2]]]
        for tasks, order, values, _ in found.ends
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: " | ".join(case["programs"]))
def test_the_engine_ends_as_the_model_does(case):
    found = explore(*case["programs"], queues=False)
    assert found.violations == {}
    assert _ends(found) == case["ends"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES, ids=lambda case: " | ".join(case["programs"]))
def test_who_stands_in_line_ends_in_one_of_the_ways_in_which_the_model_does(case):
    found = explore(*case["programs"])
    assert found.violations == {}
    assert [end for end in _ends(found) if end not in case["ends"]] == []
