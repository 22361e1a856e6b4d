"""Exact intervals, the command, and the clock under all of it."""

from __future__ import annotations

import asyncio
import json
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evidence.__main__ import app
from tests.evidence._clock import play
from tests.evidence._report import Share
from typer.testing import CliRunner


def at_most(count, of, share):
    return sum(comb(of, n) * share**n * (1 - share) ** (of - n) for n in range(count + 1))


@given(st.integers(1, 60).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_an_interval_ends_where_what_was_seen_is_one_in_forty(drawn):
    count, of = drawn
    low, high = Share(count, of).interval
    assert low <= count / of <= high
    assert (low == 0) if count == 0 else 1 - at_most(count - 1, of, low) == pytest.approx(0.025, rel=1e-4)
    assert (high == 1) if count == of else at_most(count, of, high) == pytest.approx(0.025, rel=1e-4)


def test_the_papers_own_intervals_come_out():
    assert str(Share(150, 200)) == "150/200 = 75.0% [68.4, 80.8]"
    assert str(Share(18, 33)) == "18/33 = 54.5% [36.4, 71.9]"


def test_of_two_who_sleep_equally_long_the_first_wakes_first_and_nobody_waits():
    woken = []

    async def sleeper(name, seconds):
        await asyncio.sleep(seconds)
        woken.append(name)

    async def all_of_them():
        await asyncio.gather(*(sleeper(n, 86_400) for n in range(50)), sleeper("soon", 1))
        await asyncio.to_thread(woken.append, "thread")

    play(all_of_them())
    assert woken == ["soon", *range(50), "thread"]


def test_the_command_writes_figures_and_pictures(tmp_path):
    figures, pictures = tmp_path / "figures.json", tmp_path / "pictures"
    told = CliRunner().invoke(
        app,
        ["anomalies", "--runs", "1", "--jobs", "1", "--only", "aba", "--json", str(figures), "--plots", str(pictures)],
    )
    assert told.exit_code == 0, told.output
    assert "by version" in told.output
    (found,) = json.loads(figures.read_text())
    assert found["name"] == "aba"
    assert found["tables"][0]["rows"][2]["A1"] == {
        "count": 0,
        "of": 30,
        "value": 0.0,
        "interval": pytest.approx([0.0, 0.1157], abs=1e-4),
    }
    assert [path.name for path in pictures.iterdir()] == ["aba.png"]


def test_an_experiment_that_there_is_not_is_refused_and_nothing_is_played(tmp_path):
    told = CliRunner().invoke(app, ["anomalies", "--only", "abba", "--json", str(tmp_path / "figures.json")])
    assert told.exit_code == 2
    assert "there is no 'abba'" in told.output
    assert list(tmp_path.iterdir()) == []
