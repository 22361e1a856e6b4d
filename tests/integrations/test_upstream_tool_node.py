"""LangGraph's released `ToolNode` tests say what a drop-in is: they end alike with ours in its place.

So do LangChain's of its agents and LangGraph's of its graphs, all of which take minutes; a choice of them is what
`python tests/integrations/upstream.py` runs.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest
from tests.integrations import upstream
from tests.integrations.upstream import AGENTS, GRAPHS, SETTLED_NODE, TOOL_NODE, Reason, Report, Suite

try:
    RELEASE = TOOL_NODE.release
except PackageNotFoundError:
    pytest.skip("langgraph is not installed: there is nothing to compare with", allow_module_level=True)


def source_of(suite):
    try:
        return upstream.fetch(suite.package, suite.release)
    except upstream.OfflineError as offline:
        pytest.skip(str(offline))


@pytest.fixture(scope="module")
def source():
    return source_of(TOOL_NODE)


@pytest.fixture(scope="module")
def stock(source):
    return upstream.run(TOOL_NODE, source, "stock")


@pytest.fixture(scope="module")
def ours(source):
    return upstream.run(TOOL_NODE, source, "ours")


def test_the_stock_node_passes_all_of_its_released_tests(stock):
    assert stock.not_passed() == {}, stock.output
    assert len(stock.outcomes) > 200


def test_every_released_test_ends_with_the_sequenced_node_as_it_does_with_the_stock_one(source, stock, ours):
    assert upstream.differences(TOOL_NODE, source, stock, ours) == [], ours.summary


def test_the_released_tests_built_sequenced_nodes_and_none_of_the_stock_ones(stock, ours):
    assert ours.not_swapped == []
    assert ours.made == stock.made
    assert ours.made["ToolNode"] > 0


def test_every_released_test_of_the_node_ends_with_a_settlement_as_with_stock_or_as_a_named_reason_says(source, stock):
    settled = upstream.run(SETTLED_NODE, source, "ours")

    assert upstream.differences(SETTLED_NODE, source, stock, settled) == [], settled.summary
    assert settled.not_swapped == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("suite", [AGENTS, GRAPHS], ids=["agents", "graphs"])
def test_every_released_test_of_agents_and_graphs_ends_as_with_stock_or_as_a_named_reason_says(suite):
    source = source_of(suite)
    stock, ours = (upstream.run(suite, source, given, suite.tests) for given in ("stock", "ours"))

    assert len(stock.outcomes) > 1000
    assert upstream.differences(suite, source, stock, ours) == [], ours.summary
    assert ours.not_swapped == []
    assert all(ours.made.values())


def report(**outcomes):
    return Report(outcomes, dict.fromkeys(outcomes, "why"), {}, [], "")


@pytest.mark.parametrize(("like", "tried", "left"), [("stock", "passed", []), ("stock", "failed", ["a"])])
def test_a_test_that_ends_otherwise_is_let_through_only_if_its_reason_holds_when_it_is_tried(
    monkeypatch, tmp_path, like, tried, left
):
    asked = []
    monkeypatch.setattr(upstream, "run", lambda *given: asked.append(given) or report(a=tried))
    suite = Suite("x", "x", "x", (), (), differs=(Reason("because", "reads", like, ("a",)),))

    found = upstream.differences(suite, tmp_path, report(a="passed", b="passed"), report(a="failed", b="passed"))

    assert [line.partition(":")[0] for line in found] == left
    assert asked == [(suite, tmp_path, "reads", ["a"])]


def test_a_test_that_ends_otherwise_without_a_reason_is_named_with_both_outcomes(tmp_path):
    suite = Suite("x", "x", "x", (), ())

    found = upstream.differences(suite, tmp_path, report(a="passed"), report(a="failed"))

    assert found == ["a: passed with stock, failed with ours\nwhy"]


def test_an_archive_that_cannot_be_fetched_is_an_error_naming_the_remedy_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.delenv("SETTLEMARK_OFFLINE", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(upstream.FetchError, match="set SETTLEMARK_OFFLINE=1"):
        upstream.fetch(TOOL_NODE.package, "0.0.0", tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_offline_only_the_cached_archive_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("SETTLEMARK_OFFLINE", "1")

    with pytest.raises(upstream.OfflineError, match="unset SETTLEMARK_OFFLINE"):
        upstream.fetch(TOOL_NODE.package, RELEASE, tmp_path)
    assert list(tmp_path.iterdir()) == []

    cached = tmp_path / f"{TOOL_NODE.package}-{RELEASE}"
    cached.mkdir()
    assert upstream.fetch(TOOL_NODE.package, RELEASE, tmp_path) == cached
