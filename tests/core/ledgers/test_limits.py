"""Until when a thread waits for its store: as long as its caller said, and a little once the ledger is to be closed."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace

import pytest
from tests.rooms.ledger import LateError, Limit, _limits


@pytest.fixture
def now(monkeypatch):
    """The moment that limits go by, in a list of one; a store that is to be closed has five seconds."""
    moment = [100.0]
    monkeypatch.setattr(_limits, "time", SimpleNamespace(monotonic=lambda: moment[0]))
    monkeypatch.setattr(_limits, "CLOSE_SECONDS", 5.0)
    return moment


def test_a_wait_without_a_limit_has_no_end(now):
    assert (Limit().remaining(), _limits.remaining()) == (inf, inf)


def test_a_wait_ends_at_its_moment_and_is_late_behind_it(now):
    limit = Limit()
    limit.begin(110.0)
    assert (limit.since, limit.remaining()) == (100.0, 10.0)
    now[0] = 112.0
    assert limit.remaining() == -2.0
    limit.begin(115.0)
    assert (limit.since, limit.remaining()) == (112.0, 3.0)


def test_each_wait_for_a_store_that_is_to_be_closed_has_five_seconds_and_no_more_than_its_own(now):
    closing = 98.0
    assert Limit(200.0, 90.0, closing).remaining() == 3.0  # from when it was to be closed on
    assert Limit(200.0, 99.0, closing).remaining() == 4.0  # this wait began behind that
    assert Limit(101.0, 90.0, closing).remaining() == 1.0  # its caller does not wait for as long


def test_a_thread_waits_for_so_many_seconds_within_the_block_and_as_before_behind_it(now):
    with _limits.within(7.0):
        assert _limits.remaining() == 7.0
        with pytest.raises(ValueError, match="failed"), _limits.within(Limit(103.0)):
            assert _limits.remaining() == 3.0
            raise ValueError("failed")
        assert _limits.remaining() == 7.0
    assert _limits.remaining() == inf


def test_a_limit_that_another_moves_holds_for_the_thread_within_it(now):
    limit = Limit(110.0)
    with _limits.within(limit):
        limit.at = 102.0
        assert _limits.remaining() == 2.0


def test_a_store_has_as_long_as_a_transaction_and_not_less_than_it_needs(monkeypatch):
    monkeypatch.setattr(_limits, "LEAST_SECONDS", 1.0)
    assert [_limits.patience(seconds) for seconds in (0, 1.0, 600)] == [1.0, 1.0, 600]


def test_late_is_what_says_so_itself_or_is_wrapped_by_a_driver():
    class WrappedError(Exception):
        def __init__(self, orig):
            super().__init__()
            self.orig = orig

    class Ends(BaseException):
        orig = LateError()

    found = [
        LateError(),
        WrappedError(LateError()),
        WrappedError(ValueError()),
        WrappedError(None),
        ValueError(),
        Ends(),
    ]
    assert [_limits.is_late(error) for error in found] == [True, True, False, False, False, False]
