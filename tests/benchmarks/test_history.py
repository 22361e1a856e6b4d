"""Looking for anomalies costs the same a record, however many there are and whatever they are like."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from settlemark.history import HistoryFile, OpRecord, analyze, read

PER_SECOND = 100_000
FROM_A_FILE = 60_000


def ordinary(place, chance):
    """Agents on a thousand cells, which read a few operations ago."""
    cell = f"cell:/{chance.randrange(1_000)}"
    return cell, max(0, place - 1 - chance.randrange(5)), chance.randrange(50)


def hot(place, chance):
    """All agents on one cell, each writing a value of its own, with windows that stay open for very long."""
    return "cell:/hot", max(0, place - 1 - chance.randrange(5_000)), place


def history(size, kind):
    """Records as an engine writes them; a generator, so that one is in memory at a time."""
    chance = random.Random(1)
    for place in range(1, size + 1):
        cell, began, value = kind(place, chance)
        yield OpRecord(
            id=str(place), agent=f"agent{chance.randrange(8)}", read_time=began, write_time=place,
            read_values={cell: value}, write_values={cell: value}, io=[("mail", 1), ("room", place)],
            co=[("mail", 1), ("room", place)], planned_tool="book", read_registry={"book": "1"},
            write_registry={"book": "1"}, preds=[str(place - 1)] if place > 1 else [],
        )  # fmt: skip # a table of values


@pytest.mark.parametrize("kind", [ordinary, hot])
def test_all_detectors_over_a_history(gauge, kind):
    sizes = (1_000, 10_000, 100_000, 1_000_000) if gauge.full else (10, 50)

    def look(records):
        return analyze(records).records

    built = gauge.across(
        f"all detectors, {kind.__name__} history, a record",
        sizes,
        lambda size: list(history(size, kind)),
        look,
        rounds=3,
        aim=1e6 / PER_SECOND,
    )
    for size, records in built:
        assert len(records) == size
        assert (analyze(records)["A1"].count > size / 2) is (kind is hot)


@pytest.mark.parametrize("kind", [ordinary, hot])
def test_all_detectors_over_a_file(gauge, kind, tmp_path):
    size = gauge.scale(100_000, 50)
    path = tmp_path / "history.jsonl"
    with HistoryFile(path) as file:
        for record in history(size, kind):
            file.write(record)
    lines = path.read_bytes().splitlines()

    gauge.beside(
        f"from a file, {kind.__name__} history, a record",
        lambda: analyze(read(path)).records,
        {"counting its lines": lambda: len(path.read_bytes().splitlines())},
        rounds=3,
        aim=1e6 / FROM_A_FILE,
    )
    assert len(lines) == size


def test_a_hot_cell_is_remembered_by_a_handful_of_its_writes(gauge, benchmark):
    size = gauge.scale(100_000, 50)
    benchmark.pedantic(lambda: None, rounds=1)
    tracemalloc.start()
    assert analyze(history(size, writes_only)).records == size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    gauge.count("bytes that a hot cell's history needs at most", peak, "B", size=size)


def writes_only(place, chance):
    """One cell and few values: what is remembered is bounded, however long it goes on."""
    return "cell:/hot", place - 1, place % 7
