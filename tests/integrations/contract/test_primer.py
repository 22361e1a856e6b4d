"""A job that is taken up again by a model that has forgotten it: the model is told what the record says."""

from __future__ import annotations

import json

import pytest
from tests.integrations.contract.conftest import driver_of
from tests.integrations.contract.world import desk, play, turns

from settlemark import UsageError, effect

DONE = "Done, and not to be done again:"
SCRIPT = turns([("book", "7")], [("mail", "ada"), ("book", "8")])


class EndedError(RuntimeError):
    """The model's provider is gone, and so is the job."""


class Model:
    """What a model makes of what it is told: it repeats nothing that it is told was done, or may have been."""

    def __init__(self, *, ends_after=None):
        self.heard = []
        self._ends_after = ends_after
        self._is_gone = False

    def __call__(self, text, script, said):
        self.heard.append(text)
        self._is_gone = self._is_gone or said == self._ends_after
        if self._is_gone:
            raise EndedError
        left = [[call for call in turn if not is_told(call, text)] for turn in script]
        return [turn for turn in left if turn]


def is_told(call, text):
    given = json.dumps(call.arguments, separators=(",", ":"))
    return f"- {call.tool}({given})" in text


def taken_up(driver, tools, settlement, *, primer, face="run", first=SCRIPT, script=SCRIPT):
    """Play a job until its model is gone, and again by an agent that remembers nothing; return the second play."""
    driver.primer = primer
    driver.heed = ended = Model(ends_after=len(first))
    play(driver, tools, first, settlement, face=face)
    again = driver_of(driver.name)
    again.primer = primer
    again.heed = model = Model()
    return ended, model, play(again, tools, script, settlement, face=face)


def test_a_model_that_would_have_repeated_what_was_done_is_told_of_it_and_does_not(
    driver, world, settlement, face, sort
):
    ended, model, played = taken_up(driver, desk(world, sort), settlement, primer=True, face=face)
    assert not any(DONE in text for text in ended.heard[: len(SCRIPT) + 1])  # it was new
    assert DONE in model.heard[0]
    assert (played.error, played.answers) == (None, [])  # it has issued no call
    assert sorted(world.log) == ["book 7", "book 8", "mail ada"]


def test_without_it_the_model_is_told_nothing_and_issues_its_calls_again(driver, world, settlement, face):
    _, model, played = taken_up(driver, desk(world), settlement, primer=False, face=face)
    assert not any(DONE in text for text in model.heard)
    assert len(played.answers) == sum(map(len, SCRIPT))


def test_what_is_in_doubt_is_not_repeated_and_what_is_left_is_done(driver, world, settlement, face):
    @effect("opaque", scope="bank:/{what}")
    def wire(what: str) -> str:
        """Wire money."""
        world.act(f"wire {what}")
        raise TimeoutError

    first = turns([("book", "7")], [("wire", "ops")])
    script = turns([("book", "7")], [("wire", "ops")], [("mail", "ada")])
    tools = [*desk(world), wire]
    _, model, played = taken_up(driver, tools, settlement, primer=True, face=face, first=first, script=script)
    assert "In doubt: it may have happened." in model.heard[0]
    assert (played.error, len(played.answers)) == (None, 1)
    assert sorted(world.log) == ["book 7", "mail ada", "wire ops"]


@pytest.mark.parametrize("wrong", ["yes", 1, None])
def test_a_primer_that_is_neither_asked_for_nor_not_is_refused_and_nothing_runs(driver, world, settlement, wrong):
    driver.primer = wrong
    played = play(driver, desk(world), SCRIPT, settlement)
    assert isinstance(played.error, UsageError)
    assert (world.log, settlement.transactions()) == ([], [])
