"""Every odd text by every way that a text comes in from a framework: it is settled or refused, and harms no neighbour.

What a tool was given, what it returned or raised, the ids of its job and of its call, what its model said beside it.
Whatever a framework makes of such a text, what happened is on record or named, nothing is left open, and the jobs
before and behind it in the same settlement are as they would have been.
"""

from __future__ import annotations

import pytest
from tests.integrations.contract.driver import Saying, ScriptedCall
from tests.integrations.contract.world import World, as_is, play, turns, unaccounted, unfinished

from settlemark import Settlement, effect

TEXTS = {
    "a NUL": "a\0b",
    "half a character": "a\ud83d",
    "two halves": "\ud83d\ude00",
    "a control character": "a\x1b[2Jb\x7f",
    "line ends": "a\r\nb\u2028c",
    "right to left": "\u202egnp.exe",
    "invisible": "a\u200d\u2060b",
    "composed another way": "e\u0301",
    "a path": "../../etc/passwd",
    "marks of names": "a/b#c!d,e%2F*{f}",
    "nothing": "",
    "blank": " \t ",
    "long": "l" * 5_000,
    "huge": "h" * 1_000_000,
}


class Odd:
    """What each text comes in by: how a job is played with it there."""

    def __init__(self, text):
        self.text = text
        self.arguments, self.returned, self.raised = "Ada", "booked", None
        self.call, self.run = "call-0-0", "run-odd"


def as_argument(odd, _patch):
    odd.arguments = odd.text


def as_result(odd, _patch):
    odd.returned = odd.text


def as_words_of_an_error(odd, _patch):
    odd.raised = ValueError(odd.text)


def as_id_of_the_job(odd, _patch):
    odd.run = odd.text


def as_id_of_a_call(odd, _patch):
    odd.call = odd.text


def as_words_of_the_model(odd, patch):
    patch.setattr(Saying, "text", odd.text)


INLETS = [
    as_argument, as_result, as_words_of_an_error, as_id_of_the_job, as_id_of_a_call, as_words_of_the_model,
]  # fmt: skip # a list of names and values


@pytest.fixture
def settlement(tmp_path):
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}", wait=20) as settlement:
        yield settlement


def office(world, odd=None):
    """A tool that books, in the world, and returns or raises what it is told."""

    def book(what: str) -> str:
        """Book a room."""
        if odd is not None and odd.raised is not None:
            raise odd.raised
        world.act("book Ada" if odd is not None else f"book {what}")
        return "booked" if odd is None else odd.returned

    def cancel(what: str):
        world.act("cancel Ada" if odd is not None else f"cancel {what}")

    return [
        effect("reversible", scope="room:/" if odd is not None else "room:/{what}", undo=cancel)(as_is(book, "sync"))
    ]


def is_told(played, world):
    """Whether who asked for it hears of it, where it did not happen: an error without words is told without words."""
    return bool(world.log) or played.error is not None or bool(played.answers)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("inlet", INLETS, ids=lambda inlet: inlet.__name__)
@pytest.mark.parametrize("text", TEXTS)
def test_an_odd_text_is_settled_or_refused_and_harms_no_neighbour(driver, settlement, text, inlet, monkeypatch):
    before, ours, behind = World(), World(), World()
    play(driver, office(before), turns([("book", "Bee")]), settlement, run="run-1")
    odd = Odd(TEXTS[text])
    with monkeypatch.context() as patch:
        inlet(odd, patch)
        script = [[ScriptedCall("book", {"what": odd.arguments}, odd.call)]]
        played = play(driver, office(ours, odd), script, settlement, run=odd.run)
    play(driver, office(behind), turns([("book", "Cy")]), settlement, run="run-2")
    assert (before.log, behind.log) == (["book Bee"], ["book Cy"])
    assert is_told(played, ours)
    assert ours.log in ([], ["book Ada"], ["book Ada", "cancel Ada"])
    assert unaccounted(ours, settlement) == []
    assert (unfinished(settlement), settlement.residue(), settlement.in_doubt()) == ([], [], [])
