"""A transaction moves along the transition table, and along nothing else."""

from __future__ import annotations

import itertools

import pytest

from settlemark import StateError
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import FINISHED, RETRIED, TRANSITIONS, Event, Reason, State

LEGAL = [(state, event) for state, row in TRANSITIONS.items() for event in row]
ILLEGAL = [pair for pair in itertools.product(State, Event) if pair not in LEGAL]


def transaction_in(state):
    """A protocol with one transaction that the table says is in this state."""
    protocol = Protocol()
    txn = protocol.begin("trip-42")
    txn.state = state
    return protocol, txn


@pytest.mark.parametrize(("state", "event"), LEGAL)
def test_every_transition_of_the_table_is_made(state, event):
    protocol, txn = transaction_in(state)
    protocol._move_state(txn, event)
    assert txn.state is TRANSITIONS[state][event]


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_every_other_transition_is_refused_and_nothing_changed(state, event):
    protocol, txn = transaction_in(state)
    before = protocol.freeze()
    with pytest.raises(StateError, match=f"trip-42 is {state}: it cannot {event}") as refused:
        protocol._move_state(txn, event)
    assert (refused.value.transaction, refused.value.state) == ("trip-42", state)
    assert protocol.freeze() == before


def test_the_table_has_a_row_for_every_state_and_only_finished_states_end():
    assert set(TRANSITIONS) == set(State)
    assert {state for state, row in TRANSITIONS.items() if not row} == FINISHED


def test_every_state_is_reached_from_open_and_reaches_an_end():
    def reached(start):
        found, todo = {start}, [start]
        while todo:
            for following in TRANSITIONS[todo.pop()].values():
                if following not in found:
                    found.add(following)
                    todo.append(following)
        return found

    assert reached(State.OPEN) == set(State)
    assert all(reached(state) & FINISHED for state in State)


def test_a_decided_transaction_never_seals_or_decides_again():
    after = [State.RELEASING, State.ABORTING, *FINISHED]
    assert not any({Event.SEAL, Event.DECIDE} & set(TRANSITIONS[state]) for state in after)


def test_only_lost_races_are_retried():
    assert {Reason.STALE, Reason.WOUNDED, Reason.CASCADED} == RETRIED


@pytest.mark.parametrize("state", [State.COMMITTED, State.ABORTED, State.ABORTING])
def test_an_abort_leaves_a_transaction_past_it_alone(state):
    protocol, txn = transaction_in(state)
    before = protocol.freeze()
    protocol.abort(txn, Reason.FAILED)
    assert protocol.freeze() == before
    assert protocol.take_aborted() == []
