"""Where what was said to a run, or its pause, cannot be read, nobody acts on it, and nothing of it is lost."""

from __future__ import annotations

import pytest

from settlemark import LedgerError, Paused, Payloads, new_key

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


@pytest.fixture
def keyed(shared_url, open_here):
    """A settlement with the ledger's key."""
    return open_here(shared_url, payloads=Payloads(encrypt=new_key()))


@pytest.fixture
def keyless(keyed, shared_url, open_here):
    """Another on the same ledger, without the key."""
    return open_here(shared_url)


def museum(agency):
    def plan(run):
        with run.step("museum") as tx:
            tx.call(agency.book, place="museum")

    return plan


def test_a_process_without_the_key_stops_at_its_boundary_and_what_was_said_stays_as_it_was(keyed, keyless, agency):
    said = keyed.steer("trip", "retract", "no museum", scope="trip:/museum", by="ada")
    (unread,) = keyless.steering("trip")
    assert (unread.number, unread.state, unread.text, unread.readable) == (1, "waiting", "", False)
    with pytest.raises(LedgerError, match=r"what was said to the run trip \(number 1\) cannot be read: give encrypt="):
        keyless.steered("trip", museum(agency))
    assert (agency.log, keyed.steering("trip")) == ([], [said])
    keyed.steered("trip", museum(agency))
    (heard,) = keyed.steering("trip")
    assert (heard.what, heard.text, heard.scopes, heard.state) == ("retract", "no museum", ("trip:/museum",), "done")


def test_a_step_that_stands_is_a_boundary_there_too(keyed, keyless, agency):
    keyed.steered("trip", museum(agency))
    said = keyed.steer("trip", "retract", "no museum", scope="trip:/museum", by="ada")
    with pytest.raises(LedgerError, match="cannot be read"):
        keyless.steered("trip", museum(agency))
    assert (agency.log, keyed.steering("trip")) == (["book museum"], [said])


def test_what_was_acknowledged_is_not_written_over_where_it_cannot_be_read(keyed, keyless, agency):
    keyed.steered("trip", museum(agency))
    keyed.steer("trip", "retract", "no museum", scope="trip:/museum", by="ada")
    keyed.steered("trip", lambda run: None)
    (done,) = keyed.steering("trip")
    keyless.steered("trip", museum(agency))
    assert keyed.steering("trip") == [done]


def test_the_owner_of_a_paused_run_stays_its_owner(keyed, keyless, agency):
    keyed.pause("trip", by="ada", because="no budget")
    with pytest.raises(LedgerError, match="the pause of the run trip cannot be read: give encrypt="):
        keyless.steered("trip", museum(agency))
    with pytest.raises(Paused):
        keyed.steered("trip", museum(agency))
    pause = keyed.hand_over("trip", to="zoe", by="ada")
    acts = (keyless.go_on, keyless.discard, lambda run, by: keyless.hand_over(run, to="eve", by=by))
    for act in acts:
        with pytest.raises(LedgerError, match="cannot be read"):
            act("trip", by="mallory")
    assert [(each.number, each.state, each.owner, each.readable) for each in keyless.paused()] == [
        (1, "paused", None, False)
    ]
    assert keyed.paused() == [pause]
    assert (pause.owner, agency.log) == ("zoe", [])
