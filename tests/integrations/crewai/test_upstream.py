"""CrewAI's released tests of tools, hooks and executors end with settled tools as they do with its own."""

from __future__ import annotations

import pytest
from tests.integrations import upstream, upstream_crewai
from tests.integrations.upstream_crewai import SUITE


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_released_test_ends_as_with_stock_or_as_a_named_reason_says():
    try:
        source = upstream.fetch(SUITE.package, SUITE.release)
    except upstream.OfflineError as offline:
        pytest.skip(str(offline))
    stock, ours = (upstream_crewai.run(SUITE, source, given) for given in ("stock", "ours"))

    assert list(stock.outcomes.values()).count("passed") > 400
    assert upstream_crewai.differences(source, stock, ours) == [], ours.summary
    assert all(ours.made.values())
