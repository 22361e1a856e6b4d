"""What is old: when keys may go, and what stays on record however old it is."""

from __future__ import annotations

from settlemark import Outcome, Tag
from settlemark.ledger._age import forget_at, is_kept


def test_keys_stay_for_the_longest_window_and_where_one_says_none_for_as_long_as_the_ledger_keeps_keys():
    assert forget_at(100.0, None, 365.0, unsaid=False) == 100.0  # it has no effects
    assert forget_at(100.0, 30.0, 365.0, unsaid=False) == 130.0
    assert forget_at(100.0, None, 365.0, unsaid=True) == 465.0
    assert [forget_at(100.0, window, 365.0, unsaid=True) for window in (30.0, 400.0)] == [465.0, 500.0]


def test_what_an_operator_has_to_look_at_stays_and_what_there_may_still_be_news_of():
    news = {Outcome.UNKNOWN, Outcome.INTENDED}
    for outcome in Outcome:
        assert [is_kept(tag, outcome) for tag in (None, Tag.CLEAN)] == [outcome in news] * 2
        assert all(is_kept(tag, outcome) for tag in Tag if tag is not Tag.CLEAN)
