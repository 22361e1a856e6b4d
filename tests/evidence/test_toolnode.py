"""ToolNode on turns of several calls."""

from __future__ import annotations

import pytest
from tests.evidence._report import Share

pytest.importorskip("langgraph.prebuilt")

RUNS = 10


def test_the_stock_node_reorders_by_latency_and_ours_does_not(found):
    stock, ours = (found.tables[0].row("drawn", name) for name in ("stock ToolNode", "SequencedToolNode"))
    several = stock["A6"].of
    assert stock["A6"] == stock["reordered in the log"]
    assert stock["A6"].count > 0
    assert stock["by latency"] == Share(several, several)
    assert ours["A6"] == ours["reordered in the log"] == Share(0, several)


def test_equal_latencies_reorder_nothing(found):
    for name in ("stock ToolNode", "SequencedToolNode"):
        row = found.tables[0].row("equal", name)
        assert (row["A6"].count, row["reordered in the log"].count) == (0, 0)


def test_the_transcript_is_in_order_whatever_happened_and_every_call_acted_once(found):
    for row in found.tables[0].rows:
        assert row["transcript in order"].count == row["transcript in order"].of
        assert row["complete"] == "30/30"
