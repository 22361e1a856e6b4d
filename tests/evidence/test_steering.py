"""A revision in the middle of a run repeats less than starting over, and leaves no more behind."""

from __future__ import annotations

import pytest
from tests.evidence.steering import Counted, measured

pytestmark = pytest.mark.long


def test_what_came_before_the_conflict_is_not_repeated():
    assert measured(mails=False) == {
        "steered": Counted(calls=24, repeated=5, cancelled=6, mails=0, strays=0, complete=True),
        "stopped, all undone, started over": Counted(30, 8, 9, 0, 0, complete=True),
        "stopped, started over": Counted(21, 8, 0, 0, 9, complete=True),
    }


def test_what_cannot_be_undone_is_not_repeated():
    assert measured(mails=True) == {
        "steered": Counted(calls=22, repeated=4, cancelled=5, mails=1, strays=0, complete=True),
        "stopped, all undone, started over": Counted(29, 8, 8, 2, 0, complete=True),
        "stopped, started over": Counted(21, 8, 0, 2, 8, complete=True),
    }
