"""The diagrams of the concepts. That of the states is made of the protocol's own table; the others are drawn here."""

from __future__ import annotations

from tests.reference.drawing import Box, draw
from tests.rooms.protocol import FINISHED, TRANSITIONS, Event

from settlemark import State


def states() -> str:
    """Return the life of a transaction: what commits above, what aborts below."""
    above = [State.OPEN]
    while onward := [to for event, to in TRANSITIONS[above[-1]].items() if event is not Event.ABORT]:
        above.append(onward[0])
    below = [state for state in State if state not in above]
    place = {state: (number, 0) for number, state in enumerate(above)}
    place |= {state: (1 + 2 * number, 1) for number, state in enumerate(below)}
    boxes = {
        state.value: Box(state.value, *place[state], ("good" if state in above else "bad") if state in FINISHED else "")
        for state in State
    }
    arrows = [
        (state.value, to.value, event.value) for state, events in TRANSITIONS.items() for event, to in events.items()
    ]
    return draw("The states of a transaction", boxes, arrows)


def transaction() -> str:
    """Return how a transaction settles."""
    return draw(
        "A transaction settles its effects together",
        {
            "call": Box("a call\nintent on disk", 0, 0.5),
            "now": Box("acts at once\noutcome on disk", 1, 0),
            "held": Box("is held", 1, 1, "held"),
            "seal": Box("the block ends:\nsealed", 2, 0.5),
            "commit": Box("committed:\nwhat was held leaves", 3, 0, "good"),
            "abort": Box("aborted: undone,\nnewest first", 3, 1, "bad"),
        },
        [
            ("call", "now", ""),
            ("call", "held", ""),
            ("now", "seal", ""),
            ("held", "seal", ""),
            ("seal", "commit", "all good"),
            ("seal", "abort", "failed, lost,\nstale, vetoed"),
        ],
    )


def scope() -> str:
    """Return which scopes meet."""
    return draw(
        "A scope is a resource and all below it",
        {
            "all": Box("room:/*", 1, 0),
            "ada": Box("room:/Ada", 0.5, 1),
            "bee": Box("room:/Bee", 1.5, 1),
            "seven": Box("room:/Ada/7", 0, 2),
            "eight": Box("room:/Ada/8", 1, 2),
        },
        [("all", "ada", "meets"), ("all", "bee", "meets"), ("ada", "seven", "meets"), ("ada", "eight", "meets")],
    )


def classes() -> str:
    """Return where each class acts."""
    return draw(
        "When the effects of each class happen",
        {
            "now": Box("in the step, at once", 0, 0),
            "read": Box("read, idempotent,\nreversible, opaque", 1, 0),
            "staged": Box("staged", 1, 1, "held"),
            "irreversible": Box("irreversible", 1, 2, "held"),
            "end": Box("at the commit", 0, 1.5),
            "undone": Box("failed: undone,\nor named", 2, 0, "bad"),
            "dropped": Box("failed: dropped,\nnever left", 2, 1.5, "bad"),
        },
        [
            ("now", "read", ""),
            ("end", "staged", "first"),
            ("end", "irreversible", "last"),
            ("read", "undone", ""),
            ("staged", "dropped", ""),
            ("irreversible", "dropped", ""),
        ],
    )


def order() -> str:
    """Return a scope, three epochs and their frontier."""
    return draw(
        "Epochs of one scope, and its frontier",
        {
            "7": Box("epoch 7\ncommitted", 0, 0, "good"),
            "8": Box("epoch 8: open,\nthe frontier", 1, 0, "held"),
            "9": Box("epoch 9: sealed", 2, 0),
            "scope": Box("board:/hall", 1, 1),
        },
        [
            ("9", "8", "waits for"),
            ("8", "7", ""),
            ("scope", "7", "touched by"),
            ("scope", "8", "touched by"),
            ("scope", "9", "touched by"),
        ],
    )


def gates() -> str:
    """Return what becomes of a call that a person has to agree to."""
    return draw(
        "A call that a person has to agree to",
        {
            "call": Box("a call with\napprove=", 0, 0.5),
            "ask": Box("a person is asked;\nnothing has acted", 1, 0.5, "held"),
            "yes": Box("it acts, or leaves\nat the commit", 2, 0, "good"),
            "no": Box("Rejected: its step\nis undone", 2, 1, "bad"),
        },
        [("call", "ask", ""), ("ask", "yes", "approve,\nedit"), ("ask", "no", "reject")],
    )


def recovery() -> str:
    """Return who settles what a kill leaves."""
    return draw(
        "What a killed process leaves, and what becomes of it",
        {
            "dead": Box("a process ends;\nits lease stands still", 0, 1.5, "bad"),
            "next": Box("another process\ntakes its work up", 1, 1.5),
            "decided": Box("decided: carried out", 2, 0, "good"),
            "sealed": Box("sealed: commits when\nits turn comes", 2, 1, "good"),
            "open": Box("open: undone after\nkeep_open=", 2, 2, "bad"),
            "doubt": Box("outcome unknown:\nprobed, or named", 2, 3, "held"),
        },
        [
            ("dead", "next", ""),
            ("next", "decided", ""),
            ("next", "sealed", ""),
            ("next", "open", ""),
            ("next", "doubt", ""),
        ],
    )


DRAWN = (states, transaction, scope, classes, order, gates, recovery)


def pictures() -> dict[str, str]:
    """Return every picture, by its file's name."""
    return {f"{drawn.__name__}.svg": drawn() for drawn in DRAWN}
