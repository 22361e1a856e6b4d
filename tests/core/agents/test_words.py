"""What a model is told of a call that it was answered, and whose transaction was undone then."""

from __future__ import annotations

import pytest

from settlemark import Outcome, Tag
from settlemark.agents._words import became

GONE, STAYS = (Outcome.UNDONE, Outcome.DROPPED), (Outcome.UNDONE, Outcome.CONFIRMED)


def told(outcome, tag=None, *, held=False, note=None, made=()):
    said = became("book", outcome, because="mail failed", held=held, tag=tag, note=note, made=made)
    return None if said is None else said.partition(":")[0]


def test_what_was_undone_cleanly_is_undone_whatever_it_had_made():
    assert [told(Outcome.UNDONE, Tag.CLEAN, made=made) for made in ((), GONE, STAYS)] == ["undone"] * 3


@pytest.mark.parametrize("outcome", [Outcome.CONFIRMED, Outcome.UNKNOWN, Outcome.UNDONE])
def test_what_stays_of_a_call_that_made_others_may_be_nothing_but_is_named_as_long_as_anybody_has_to_look(outcome):
    assert told(outcome, Tag.UNRESOLVED, made=GONE) == "undone"
    assert [told(outcome, Tag.UNRESOLVED, made=made) for made in ((), STAYS)] == ["could not be undone"] * 2


def test_of_what_was_undone_in_part_it_is_told_that_only_a_part_stays():
    said = became(
        "trip",
        Outcome.CONFIRMED,
        because="mail failed",
        held=False,
        tag=Tag.UNRESOLVED,
        note="pay stays",
        made=iter([Outcome.DROPPED, Outcome.CONFIRMED]),
    )
    assert said == (
        "could not be undone: a part of what trip had done stays (pay stays), although mail failed;"
        " it is on record: settlement.residue()"
    )


def test_what_happened_and_that_nobody_has_to_look_at_stays_whatever_it_had_made():
    for tag in (None, Tag.LEAKED):
        assert [told(Outcome.CONFIRMED, tag, made=made) for made in ((), GONE)] == ["could not be undone"] * 2


def test_what_was_held_never_left_and_of_what_failed_nothing_is_told():
    assert [told(Outcome.DROPPED, held=held) for held in (True, False)] == ["never left", None]
    assert [told(Outcome.FAILED, held=held) for held in (True, False)] == ["never left", None]


def test_why_it_stays_is_told_where_that_is_known():
    known = {"because": "mail failed", "held": False, "tag": Tag.UNRESOLVED}
    assert became("book", Outcome.UNKNOWN, note="no undo", **known) == (
        "could not be undone: book had succeeded and stays (no undo), although mail failed;"
        " it is on record: settlement.residue()"
    )
    assert "stays, although" in became("book", Outcome.UNKNOWN, note=None, **known)
