"""What many ask for at once is made by one of them, and given to all."""

from __future__ import annotations

import pytest

from settlemark._acts.once import Once
from settlemark.hosting import Ticket, Wait


@pytest.fixture
def once():
    return Once("the digest of room:/Ada")


class Making:
    """Makes a value, and takes its time: until it is told what came of it."""

    def __init__(self):
        self.begun = 0

    def __call__(self):
        self.begun += 1
        made = yield Wait(Ticket(), 1.0, "", "")
        if isinstance(made, BaseException):
            raise made
        return made


def end(program, came=None):
    """Go on with a program that is at its end, and return what it returns."""
    with pytest.raises(StopIteration) as ended:
        program.send(came)
    return ended.value.value


def test_what_is_being_made_is_waited_for_and_made_once(once):
    make = Making()
    first, second = once.get(make), once.get(make)
    next(first)
    waiting = next(second)
    assert (make.begun, waiting.ticket.fired, waiting.scope) == (1, False, "the digest of room:/Ada")
    assert end(first, "blue") == "blue"
    assert (waiting.ticket.fired, end(second, True), end(once.get(make))) == (True, "blue", "blue")
    assert make.begun == 1


def test_what_could_not_be_made_is_told_to_all_that_ask_and_not_tried_again(once):
    make = Making()
    first, second = once.get(make), once.get(make)
    next(first)
    waiting = next(second)
    for program, came in ((first, OSError("away")), (second, True), (once.get(make), None)):
        with pytest.raises(OSError, match="away"):
            program.send(came)
    assert (waiting.ticket.fired, make.begun) == (True, 1)


def test_one_that_was_interrupted_leaves_it_to_the_next_that_waits(once):
    make = Making()
    first, second, third = once.get(make), once.get(make), once.get(make)
    next(first)
    told = next(second), next(third)
    with pytest.raises(KeyboardInterrupt):
        first.send(KeyboardInterrupt())
    assert [each.ticket.fired for each in told] == [True, True]
    second.send(True)
    again = third.send(True)
    assert (make.begun, again.ticket.fired) == (2, False)
    assert (end(second, "blue"), again.ticket.fired, end(third, True)) == ("blue", True, "blue")
