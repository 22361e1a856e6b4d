"""LangGraph's released `ToolNode` tests say what a drop-in is: they end alike with ours in its place."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
from tests.integrations import upstream

try:
    RELEASE = version(upstream.PACKAGE)
except PackageNotFoundError:
    pytest.skip("langgraph is not installed: there is nothing to compare with", allow_module_level=True)


@pytest.fixture(scope="module")
def source():
    try:
        return upstream.fetch(RELEASE)
    except upstream.OfflineError as offline:
        pytest.skip(str(offline))


@pytest.fixture(scope="module")
def stock(source):
    return upstream.run(source)


@pytest.fixture(scope="module")
def ours(source):
    return upstream.run(source, upstream.SWAP)


def test_the_stock_node_passes_all_of_its_released_tests(stock):
    assert stock.not_passed() == {}, stock.output
    assert len(stock.outcomes) > 200


def test_every_released_test_ends_with_the_sequenced_node_as_it_does_with_the_stock_one(stock, ours):
    assert upstream.differences(stock, ours) == [], ours.summary


def test_the_released_tests_built_sequenced_nodes_and_none_of_the_stock_ones(stock, ours):
    assert ours.not_swapped == []
    assert ours.constructed == stock.constructed > 0


def test_an_archive_that_cannot_be_fetched_is_an_error_naming_the_remedy_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.delenv("SETTLEMARK_OFFLINE", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(upstream.FetchError, match="set SETTLEMARK_OFFLINE=1"):
        upstream.fetch("0.0.0", tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_offline_only_the_cached_archive_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("SETTLEMARK_OFFLINE", "1")

    with pytest.raises(upstream.OfflineError, match="unset SETTLEMARK_OFFLINE"):
        upstream.fetch(RELEASE, tmp_path)
    assert list(tmp_path.iterdir()) == []

    cached = tmp_path / f"{upstream.PACKAGE}-{RELEASE}"
    cached.mkdir()
    assert upstream.fetch(RELEASE, tmp_path) == cached
