"""What is given to the public face is checked before anything is done: what is wrong is named, what is right stays."""

from __future__ import annotations

import math

import pytest
from tests.rooms.ledger import Page

from settlemark import State, UsageError
from settlemark._api import checked as c

NO_NUMBER = (None, True, False, "5", math.nan, [1])
SECONDS = (
    # what checks, what is right, what is wrong
    (c.checked_wait, (0, 0.0, 5, math.inf), (-1, -0.001, -math.inf)),
    (c.checked_age, (0.001, 5), (0, -1)),
    (c.checked_lease, (c.LEAST_LEASE, 30), (0, 0.49, -1)),
    (c.checked_days, (0, 0.5, 365), (-1, -0.001)),
)
WHOLE = (
    (lambda given: c.checked_number(given, "retain", "how many"), (0, 1, 7), (-1, 1.0, 0.5)),
    (c.checked_epoch, (1, 7), (0, -1, 1.0, 1.5)),
)
CHOICES = (
    (c.checked_wait_for, ("scopes", "nobody"), ("", "all", None)),
    (c.checked_park, ("keep", "split"), ("", "street", None)),
    (lambda given: c.checked_failure(given, None), ("abort", "retry", "continue"), ("", "ask", "never", None)),
    (lambda given: c.checked_failure(given, print), ("abort", "ask"), ("never",)),
    (lambda given: c.checked_failure("ask", given), (print,), ()),
)
TEXTS = (
    (lambda given: c.checked_text(given, "give a name"), ("a", " a "), ("", "  ", 7, None, "\ud83d", "a\0b")),
    (lambda given: c.checked_word(given, "give a key", c.NAME), ("a",), ("", "\n", 7, None, "\ud83d")),
)


def test_what_is_right_is_returned_and_what_is_wrong_is_refused():
    for table, more in ((SECONDS, NO_NUMBER), (WHOLE, NO_NUMBER), (CHOICES, ()), (TEXTS, ())):
        for check, right, wrong in table:
            for given in right:
                assert check(given) in (given, "ask")
            for given in (*wrong, *more):
                with pytest.raises(UsageError):
                    check(given)
                    pytest.fail(f"{given!r} was let through")


def test_a_page_is_what_is_asked_for_and_what_is_none_is_refused():
    assert c.checked_page(None, None, None, None) == Page()
    assert c.checked_page(1, 0, "trip", "aborted") == Page(1, 0, "trip", State.ABORTED)
    assert c.checked_page(7, 1.5, None, State.OPEN) == Page(7, 1.5, None, State.OPEN)
    for wrong in (
        {"last": 0}, {"last": -1}, {"last": True}, {"last": 1.0}, {"last": "1"}, {"since": True}, {"since": "today"},
        {"run": ""}, {"run": "\ud83d"}, {"state": "late"}, {"state": ""},
    ):  # fmt: skip # a table of values
        with pytest.raises(UsageError):
            c.checked_page(**{"last": None, "since": None, "run": None, "state": None, **wrong})
            pytest.fail(f"{wrong!r} was let through")


def test_a_refusal_says_which_argument_it_was_what_was_given_and_what_to_give():
    for check, said in (
        (lambda: c.checked_wait(-1, "quarantine"), "quarantine=-1: give seconds, 0 or more"),
        (lambda: c.checked_wait("x"), "wait='x': give seconds, 0 or more"),
        (lambda: c.checked_lease(0.1), "lease=0.1: give 0.5 seconds or more, since a busy process pauses too"),
        (lambda: c.checked_lease(None), "lease=None: give seconds, 0 or more"),
        (lambda: c.checked_days(-1), "retention=-1: give days, 0 or more"),
        (lambda: c.checked_days(-1, "keys"), "keys=-1: give days, 0 or more"),
        (lambda: c.checked_epoch(0), "epoch=0: give a positive integer, as in tx.epoch"),
        (lambda: c.checked_number(-1, "retain", "how many are kept"), "retain=-1: give how many are kept, 0 or more"),
        (lambda: c.checked_failure("ask", 7), "on_failure='ask' and ask=7: give ask=function, which is called with a"),
        (lambda: c.checked_word(" ", "give a key", c.NAME), "give a key, not ' ': nothing was recorded"),
        (lambda: c.checked_park("x"), "park='x': choose one of 'keep', 'split'"),
        (lambda: c.checked_wait_for("x"), "wait_for='x': choose 'scopes' or 'nobody'"),
    ):
        with pytest.raises(UsageError) as refused:
            check()
        assert str(refused.value).startswith(said)
