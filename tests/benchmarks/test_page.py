"""The page of figures says first what is missed, and nothing that was not measured."""

from __future__ import annotations

from dataclasses import asdict

from tests.benchmarks.gauge import Row
from tests.benchmarks.page import page


def run(*rows):
    """What pytest-benchmark writes of a run with these figures."""
    return {
        "datetime": "2026-12-01T10:00:00+00:00",
        "machine_info": {
            "cpu": {"count": 2, "brand_raw": "A Processor"},
            "system": "Linux",
            "release": "6.1",
            "python_implementation": "CPython",
            "python_version": "3.11.7",
        },
        "benchmarks": [
            {
                "fullname": "tests/benchmarks/test_transactions.py::test_a_transaction",
                "extra_info": {"figures": [asdict(row) for row in rows]},
            },
            {"fullname": "tests/benchmarks/test_memory.py::test_nothing_told", "extra_info": {}},
        ],
    }


SLOW = Row("a call", None, 30.0, "µs", aim=10.0, ratio=12.0, control="the bare call")
FAST = Row("a read", None, 4.0, "µs", aim=10.0)
FEW = Row("throughput", 64, 5_000.0, "/s", aim=20_000.0, at_least=True)


def test_what_is_missed_stands_first_with_how_far_it_is_from_its_aim():
    told = page(run(FAST, SLOW, FEW))
    assert told.index("## What is missed") < told.index("## The machine") < told.index("## Transactions")
    assert told.partition("## The machine")[0].partition("## What is missed")[2] == (
        "\n\n2 of 3 aims:\n\n"
        "| what | measured | aim | beside the aim |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| a call | 30 µs | ≤ 10 | 3 x |\n"
        "| throughput | 5,000 /s | ≥ 20,000 | 4 x |\n\n"
    )


def test_where_every_aim_is_met_it_says_so():
    assert "## What is missed\n\nNothing: every aim is met (1).\n" in page(run(FAST))


def test_a_figure_with_two_controls_is_missed_once_and_has_a_line_for_each():
    beside = Row("a call", None, 30.0, "µs", aim=10.0, ratio=2.0, control="a | lock")
    told = page(run(SLOW, beside))
    assert told.count("| a call |") == 2  # what is missed, and its section
    assert "|  |  |  |  |  | 2 x | a \\| lock |  |" in told
    assert "1 of 1 aims" in told


def test_the_machine_and_the_versions_are_named_and_what_has_no_figure_has_no_section():
    told = page(run(SLOW))
    assert "2 cores of A Processor, Linux 6.1, CPython 3.11.7; 2026-12-01; settlemark " in told
    assert "## Memory" not in told


def test_a_page_of_a_part_names_what_was_not_measured():
    assert "Not measured in this run: durable, memory.\n" in page(run(SLOW), ["durable", "memory"])
    assert "Not measured" not in page(run(SLOW))
