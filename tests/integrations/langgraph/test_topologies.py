"""The sixteen topologies: what the analysis says of each, and that stock LangGraph does just that."""

from __future__ import annotations

import pytest
from langgraph.errors import InvalidUpdateError
from tests.integrations.langgraph.topologies import (
    ACTED,
    IMMUNE,
    SUSCEPTIBLE,
    racy_shared_cell,
    reducerless_map_reduce,
    sequential_pipeline,
)

from settlemark_langgraph import Kind, analyze

GIVEN = {"goal": "go", "cell": "old"}


@pytest.fixture(autouse=True)
def nobody_acted():
    ACTED.clear()


def told(report):
    return [(found.kind, found.channel, frozenset(found.nodes)) for found in report.findings]


def test_there_are_six_susceptible_and_ten_immune():
    assert (len(SUSCEPTIBLE), len(IMMUNE)) == (6, 10)


@pytest.mark.parametrize("build", SUSCEPTIBLE, ids=lambda build: build.__name__)
def test_two_writers_of_a_plain_channel_are_a_fail_stop_and_stock_stops_after_both_have_acted(build):
    report = analyze(build(2))

    # Sent to twice, one node is both writers.
    both = ["left", "left"] if build is reducerless_map_reduce else ["left", "right"]
    assert [(found.kind, found.channel, list(found.nodes)) for found in report.findings] == [
        (Kind.FAIL_STOP, "cell", both)
    ]
    assert report.complete
    with pytest.raises(InvalidUpdateError, match="Can receive only one value per step"):
        build(2).compile().invoke(GIVEN)
    assert sorted(ACTED) == both


@pytest.mark.parametrize("build", SUSCEPTIBLE, ids=lambda build: build.__name__)
def test_one_writer_beside_a_reader_is_a_stale_read_and_stock_commits_what_comes_of_the_old_value(build):
    report = analyze(build(1))

    assert told(report) == [(Kind.STALE_READ, "cell", frozenset({"left", "right"}))]
    assert report.complete
    final = build(1).compile().invoke(GIVEN)
    assert (final["cell"], final["seen"]) == ("left's", "old")


@pytest.mark.parametrize("immune", IMMUNE, ids=lambda immune: immune.build.__name__)
def test_the_immune_ones_have_no_finding_and_run_to_the_result_of_one_node_after_the_other(immune):
    report = analyze(immune.build())

    assert report.findings == ()
    assert report.complete
    final = immune.build().compile().invoke(immune.given)
    if "texts" in immune.result:
        final = {"texts": [message.text for message in final["messages"]]}
    assert final == immune.result


def test_the_controls_one_node_after_the_other_reads_what_is_new_and_beside_it_what_is_old():
    assert told(analyze(sequential_pipeline())) == []
    assert sequential_pipeline().compile().invoke(GIVEN)["seen"] == "left's"
    assert told(analyze(racy_shared_cell())) == [(Kind.STALE_READ, "cell", frozenset({"left", "right"}))]
    assert racy_shared_cell().compile().invoke(GIVEN)["seen"] == "old"
