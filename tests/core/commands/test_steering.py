"""`settlemark steer` says something to a run; `settlemark steering` tells what was said, and what was done about it."""

from __future__ import annotations

import pytest

from settlemark import Settlement, effect
from settlemark.testing import VirtualClock


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


STAYS = (
    "it stays, although it was to be undone on request: irreversible effects of mail have no undo"
    " (ada, 2026-01-01 12:00 UTC: steering 1 of trip)"
)


@pytest.fixture
def plan():
    """A run of two steps, of which the second cannot be undone."""

    def give_back(hotel):
        pass

    @effect("reversible", scope="room:/{hotel}", undo=give_back)
    def reserve(hotel):
        return hotel

    @effect("irreversible", scope="mail:/{to}")
    def mail(to):
        return to

    def plan(run):
        with run.step("1") as tx, tx.decide("the hotel"):
            tx.call(reserve, hotel="Bee" if run.said else "Ada")
        with run.step("2") as tx:
            tx.call(mail, to="ada")

    return plan


def test_nothing_was_said(run, run_json, url):
    Settlement(url).close()
    said = run("steering", url)
    assert (said.exit_code, said.stdout) == (0, "Nothing was said to a run.\n")
    assert run_json("steering", url) == []


def test_what_is_said_waits_is_listed_and_is_taken_by_the_run(run, run_json, url, plan):
    clock = VirtualClock()
    with Settlement(url, **clock.options()) as settlement:
        settlement.steered("trip", plan)
    said = run(
        "steer", "trip", "revise", "another hotel", url, "--scope", "room:/**", "--scope", "day:/y", "--by", "ada"
    )
    assert (said.exit_code, said.stdout.splitlines()) == (
        0,
        ["trip, 1: ada says revise (room:/, day:/y): another hotel", "  waits for the run's next step"],
    )
    assert run("steering", url).exit_code == 1
    with Settlement(url, **clock.options()) as settlement:
        settlement.steered("trip", plan)
        settlement.steer("trip", "retract", "no room", scope="room:/Bee", by="bob")
    listed = run("steering", url, "--run", "trip")
    assert (listed.exit_code, listed.stdout.splitlines()) == (
        1,
        [
            "trip, 1: ada says revise (room:/, day:/y): another hotel",
            "  taken before step 1",
            "  the earliest in conflict: trip/1, the hotel, touched room:/Ada",
            "  undone: trip/1: reserve on room:/Ada",
            f"  STAYS: trip/2: mail on mail:/ada: {STAYS}",
            "  others have said about the same: 2",
            "trip, 2: bob says retract (room:/Bee): no room",
            "  waits for the run's next step",
            "  others have said about the same: 1",
        ],
    )
    (one, two) = run_json("steering", url, "--run", "trip")
    assert (one["run"], one["number"], one["state"], one["told"], one["against"]) == ("trip", 1, "done", "1", [2])
    assert (one["conflict"]["transaction"], one["rewound"]) == ("trip/1", ["trip/2", "trip/1"])
    assert (two["what"], two["by"], two["scopes"], two["state"]) == ("retract", "bob", ["room:/Bee"], "waiting")
    assert run_json("steering", url, "--run", "other") == []


def test_what_cannot_be_said_is_refused_and_nothing_is_recorded(run, run_json, url):
    Settlement(url).close()
    said = run("steer", "trip", "change", "x", url, "--by", "ada")
    assert (said.exit_code, "choose one of 'add', 'revise', 'retract'" in said.stderr) == (1, True)
    assert run_json("steer", "trip", "add", "a seat", url, "--by", "ada")["number"] == 1
    assert len(run_json("steering", url)) == 1
