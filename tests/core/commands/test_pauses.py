"""`settlemark pause`, `pauses`, `go-on`, `hand-over` and `discard`: runs that stand, and what becomes of them."""

from __future__ import annotations

import pytest

from settlemark import Paused, Settlement, effect
from settlemark.testing import VirtualClock


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def play(url):
    """Play a run of two steps, of which the first is a mail."""

    @effect("irreversible", scope="mail:/{to}")
    def mail(to):
        return to

    def plan(run):
        with run.step("1") as tx:
            tx.call(mail, to="ada")
        run.keep(environment="sandbox-7")
        with Settlement(url, **VirtualClock().options()) as other:
            other.pause("trip", by="eve", because="no budget")
        with run.step("2"):
            pass

    def play():
        with Settlement(url, **VirtualClock().options()) as settlement, pytest.raises(Paused):
            settlement.steered("trip", plan)

    return play


def test_no_run_is_paused(run, run_json, url):
    Settlement(url).close()
    said = run("pauses", url)
    assert (said.exit_code, said.stdout) == (0, "No run is paused.\n")
    assert run_json("pauses", url) == []


def test_a_run_that_is_paused_is_listed_with_its_progress_is_handed_over_and_gone_on_with(run, run_json, url, play):
    play()
    said = run("pauses", url)
    assert (said.exit_code, said.stdout.splitlines()) == (
        1,
        [
            "trip is paused: 2026-01-01 12:00:00 UTC by eve: no budget",
            "  1 step stands; next: 2",
            "  to go on: settlemark go-on trip [LEDGER] --by NAME",
        ],
    )
    (found,) = run_json("pauses", url)
    assert (found["state"], found["stands"], found["environment"]) == ("paused", ["trip/1"], "sandbox-7")
    assert run_json("hand-over", "trip", url, "--to", "bob", "--by", "eve")["owner"] == "bob"
    refused = run("go-on", "trip", url, "--by", "eve")
    assert (refused.exit_code, "was handed over to bob" in refused.stderr) == (1, True)
    assert run_json("go-on", "trip", url, "--by", "bob")["state"] == "gone_on"
    assert (run_json("pauses", url), len(run_json("pauses", url, "--all"))) == ([], 1)


def test_a_run_is_paused_and_discarded_from_a_shell(run, run_json, url):
    Settlement(url).close()
    said = run("pause", "trip", url, "--by", "eve", "--because", "no budget")
    assert (said.exit_code, said.stdout.splitlines()[0].split(":")[0]) == (0, "trip stops at its next boundary")
    over = run_json("discard", "trip", url, "--by", "eve")
    assert (over["state"], over["undone"], over["bound"]) == ("discarded", [], [])
    again = run("discard", "trip", url, "--by", "eve")
    assert (again.exit_code, "is not paused" in again.stderr) == (1, True)
