"""A transaction moves along the transition table, and along nothing else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.hand import Hand
from tests.extent import examples

from settlemark import State, StateError
from settlemark._protocol.states import FINISHED, FLAGS, RETRIED, TRANSITIONS, Event, illegal
from settlemark.hosting import Protocol, Reason

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
    protocol.board.move_state(txn, event)
    assert txn.state is TRANSITIONS[state][event]


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_every_other_transition_is_refused_and_nothing_changed(state, event):
    protocol, txn = transaction_in(state)
    before = protocol.freeze()
    with pytest.raises(StateError, match=f"trip-42 is {state}: it cannot {event}") as refused:
        protocol.board.move_state(txn, event)
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


# ---- the flags beside the state


def flags_of(txn):
    return {name: getattr(txn, name) for name in FLAGS}


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10**9), count=st.integers(50, 400))
def test_no_step_leaves_a_transaction_with_flags_that_do_not_go_together(seed, count):
    hand = Hand(seed)
    for _ in range(count):
        hand.try_step()
        wrong = {txn.name: found for txn in hand.known.values() if (found := illegal(txn.state, flags_of(txn)))}
        assert wrong == {}


def test_every_flag_is_reached_in_each_state_in_which_the_table_allows_it():
    reached = set()
    for seed in range(150):
        hand = Hand(seed)
        for _ in range(400):
            hand.try_step()
            reached |= {(name, txn.state) for txn in hand.known.values() for name, on in flags_of(txn).items() if on}
    assert reached == {(name, state) for name, flag in FLAGS.items() for state in flag.states}


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_in_a_state_that_the_table_does_not_name_for_it_is_told(name):
    flag = FLAGS[name]
    for state in State:
        on = dict.fromkeys((name, *flag.needs, *FLAGS["wrote"].needs, *flag.while_open), True)
        on |= dict.fromkeys(flag.excludes, False)
        said = [text for text in illegal(state, on) if text.startswith(f"{name} while")]
        assert said == ([] if state in flag.states else [f"{name} while {state}"])


@pytest.mark.parametrize(
    ("state", "on", "wrong"),
    [
        (State.OPEN, {"wrote"}, ["wrote without writes"]),
        (State.COMMITTED, {"released"}, ["released without wrote"]),
        (State.OPEN, {"judged"}, ["judged without parked"]),
        (State.OPEN, {"hooked"}, ["hooked without parked"]),
        (State.SEALED, {"hooked"}, []),
        (State.OPEN, {"begins_again", "writes"}, ["begins_again with writes"]),
    ],
)
def test_flags_that_do_not_go_together_are_told(state, on, wrong):
    assert illegal(state, dict.fromkeys(on, True)) == wrong
