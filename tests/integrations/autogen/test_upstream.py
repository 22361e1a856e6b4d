"""AutoGen's released tests say what a drop-in is: they end alike with ours in its place, or for a named reason not.

Those of its agents take a minute: `python -m tests.integrations.upstream_autogen`.
"""

from __future__ import annotations

import pytest
from tests.integrations import upstream, upstream_autogen
from tests.integrations.upstream_autogen import AGENTS, WORKBENCHES


def played(suite, *given):
    try:
        source = upstream.fetch(suite.package, suite.release)
    except upstream.OfflineError as offline:
        pytest.skip(str(offline))
    return [upstream_autogen.run(suite, source, one) for one in given]


def test_every_released_test_of_workbenches_ends_with_a_settled_one_as_it_does_with_the_stock_one():
    stock, ours = played(WORKBENCHES, "stock", "ours")

    assert stock.not_passed() == {}, stock.output
    assert len(stock.outcomes) == len(ours.outcomes) >= 10
    assert upstream_autogen.differences(WORKBENCHES, stock, ours) == [], ours.summary
    assert ours.made["workbench"] > 0


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("given", AGENTS.given)
def test_every_released_test_of_agents_and_teams_ends_as_with_stock_or_as_a_named_reason_says(given):
    stock, ours = played(AGENTS, "stock", given)

    assert len(stock.outcomes) > 200
    assert upstream_autogen.differences(AGENTS, stock, ours) == [], ours.summary
    assert ours.made == stock.made
