"""What a model says is stored as every store can hold it; a call's id that none can hold is refused."""

from __future__ import annotations

import pytest
from tests.integrations.contract.driver import Saying, ScriptedCall
from tests.integrations.contract.world import World, desk, play, turns, unaccounted, unfinished

from settlemark import Settlement

HALF = "I will book \ud83d, and \0 more"


@pytest.fixture
def settlement(tmp_path):
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}", wait=20) as settlement:
        yield settlement


def effects(settlement):
    return [effect for recorded in settlement.transactions() for effect in recorded.effects]


@pytest.mark.parametrize("text", [HALF, "so long " * 300_000], ids=["half a character and a NUL", "huge"])
def test_what_the_model_says_is_the_reason_on_record_and_keeps_nothing_from_being_done(
    driver, settlement, text, monkeypatch
):
    monkeypatch.setattr(Saying, "text", text)
    ours = World()
    settled = play(driver, desk(ours), turns([("book", "Ada"), ("mail", "ada")]), settlement)
    assert settled.error is None
    assert ours.log == ["book Ada", "mail ada"]
    assert (unaccounted(ours, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])
    said = {effect.row.rationale for effect in effects(settlement)}
    legible = {"I will book \\ud83d, and \\x00 more", text[:50]}
    assert all(why is None or any(part in why for part in legible) for why in said)
    assert said != {None} or driver.name in ("crewai", "toy")  # these have no place for it beside their calls
    again = World()
    play(driver, desk(again), turns([("book", "Ada"), ("mail", "ada")]), settlement, run="run-2")
    assert again.log == ["book Ada", "mail ada"]


@pytest.mark.parametrize("bad", ["call-\ud83d\0", "c" * 5_000], ids=["half", "long"])
def test_a_call_whose_id_no_store_can_hold_does_nothing_and_harms_no_other_job(driver, settlement, bad):
    script = [[ScriptedCall("book", {"what": "Ada"}, bad)]]
    ours, others = World(), World()
    settled = play(driver, desk(ours), script, settlement)
    play(driver, desk(others), turns([("book", "Bee"), ("mail", "bee")]), settlement, run="run-2")
    assert others.log == ["book Bee", "mail bee"]
    assert (unfinished(settlement), settlement.residue()) == ([], [])
    assert unaccounted(others, settlement) == []
    told = " ".join([*settled.texts, str(settled.error)])
    if ours.log:  # the framework gave it an id of its own
        assert (ours.log, unaccounted(ours, settlement)) == (["book Ada"], [])
    else:
        assert "no store can hold" in told or "are the most" in told or "surrogates not allowed" in told
