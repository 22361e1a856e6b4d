"""What is written fits its columns in every store: a name or number that does not is refused, a text is made to."""

from __future__ import annotations

import math

import pytest
from tests.rooms.ledger import OwedChange, OwedRow, Said, storable
from tests.rooms.payloads import Packed, Unreadable

from settlemark import EffectClass, LedgerError, Outcome, State, Tag
from settlemark.ledger import EffectRow, Fence, OutcomeChange, StateChange, TransactionRow

INTENT = EffectRow(
    "trip#1/0", "trip", 1, 0, "pay", EffectClass.IRREVERSIBLE, '["mail:/a"]', True, "call", '{"to":"a"}', "why",
    '{"undo":"unpay"}', "2", Outcome.QUEUED, 5.0, "f" * 8, 9.0,
)  # fmt: skip # a table of values
OUTCOME = OutcomeChange(
    "trip#1/0", Outcome.CONFIRMED, '{"id":7}', "no rooms", Tag.CLEAN, "noted", 6.0, link="trip#1/1", question=3
)
OPENED = TransactionRow("trip", 1, "run", State.OPEN, 4, "0.1", "worker", 5.0, ("ada", "bob"))
MOVED = StateChange(
    "trip", 1, State.ABORTED, 4, None, 6.0, 5.0, 5.5, (), "no rooms", "tour", "tour", "room:/a", ("ada",)
)
CANCELLED = Fence("run", 5.0)
SAID = Said("trip#1/0", '{"decision":"approve"}', "ada", 6.0, dealt=True)
OWED = OwedRow("o1", "trip", 1, "run", 1, "customer:/7", "refund", "customer:/7", '{"text":"refund"}', 5.0, 9.0)
NEWS = OwedChange("o1", 6.0, fulfilled="trip#2/0", waived_by="ada", note="paid in cash")
CHANGES = (INTENT, OUTCOME, OPENED, MOVED, CANCELLED, SAID, OWED, NEWS)

# Of each change its names, each as an error calls it, and the most characters that its column has.
NAMES = [
    (INTENT, {
        "key": ("key", 1_024), "name": ("name", 512), "tool": ("tool", 255), "version": ("version", 64),
        "fingerprint": ("fingerprint", 64), "call_id": ("call id", 512),
    }),
    (OUTCOME, {"key": ("key", 1_024), "link": ("link", 1_024)}),
    (OPENED, {"name": ("name", 512), "run": ("run", 512), "ordinal": ("ordinal", 512), "owner": ("owner", 255)}),
    (MOVED, {"name": ("name", 512), "link": ("link", 1_024)}),
    (CANCELLED, {"run": ("run", 512)}),
    (SAID, {"key": ("key", 1_024)}),
    (OWED, {"name": ("name", 512), "run": ("run", 512), "tool": ("tool", 255)}),
    (NEWS, {"fulfilled": ("key", 1_024), "waived_by": ("by", 255)}),
]  # fmt: skip # a list of names and values
NUMBERS = [
    (INTENT, {"attempt": 31, "position": 31}),
    (OUTCOME, {"question": 31}),
    (OPENED, {"attempt": 31, "epoch": 63}),
    (MOVED, {"attempt": 31, "epoch": 63}),
    (OWED, {"attempt": 31}),
]
TIMES = [
    (INTENT, ("at", "window")), (OUTCOME, ("at",)), (OPENED, ("at",)),
    (MOVED, ("at", "sealed_at", "decided_at")), (CANCELLED, ("at",)), (SAID, ("at",)), (OWED, ("at", "due")),
    (NEWS, ("at",)),
]  # fmt: skip # a list of names and values


def kept(change, *, short_ascii=False):
    """Return what is written of a change."""
    (found,) = storable([change], short_ascii=short_ascii)
    return found


def refused(change):
    """Return why a change is refused."""
    with pytest.raises(LedgerError) as error:
        storable([change], short_ascii=False)
    assert str(error.value).endswith("nothing was recorded")
    return error.value


def each(table):
    return [(change, field, what) for change, fields in table for field, what in fields.items()]


def test_what_fits_is_written_as_it_is():
    assert storable(CHANGES, short_ascii=False) == list(CHANGES)


def test_a_name_has_as_many_characters_as_its_column_and_one_more_is_refused_by_what_it_is():
    for change, field, (what, most) in each(NAMES):
        fits = change._replace(**{field: "a" * most})
        assert kept(fits) == fits
        error = refused(change._replace(**{field: "a" * (most + 1)}))
        assert (str(error).partition(" ")[0], error.field) == ("the", what)
        assert f"has {most + 1:,} characters, and {most:,} are the most: shorten it" in str(error)


@pytest.mark.parametrize("bad", ["a\0", "a\ud83d", 7], ids=["a NUL", "half a character", "no text"])
def test_a_name_that_no_store_can_hold_is_refused_by_what_it_is(bad):
    assert [refused(change._replace(**{field: bad})).field for change, field, _ in each(NAMES)] == [
        what for _, _, (what, _) in each(NAMES)
    ]


def test_the_name_of_each_agent_is_one():
    for change in (OPENED, MOVED):
        fits = change._replace(agents=("ada", "b" * 480))
        assert kept(fits) == fits
        assert refused(change._replace(agents=("ada", "b" * 481))).field == "agent"


def test_what_is_not_said_is_no_name():
    silent = [
        INTENT._replace(call_id=None, window=None, rationale=None),
        OUTCOME._replace(link=None, question=None),
        OPENED._replace(agents=(), ordinal="", owner=""),
        OWED._replace(tool=""),
        MOVED._replace(link=None, sealed_at=None, decided_at=None, agents=()),
        NEWS._replace(fulfilled=None, note=None),
        NEWS._replace(waived_by=None),
    ]
    assert storable(silent, short_ascii=False) == silent


def test_a_number_fits_up_to_the_last_one_of_its_column_on_either_side():
    for change, field, bits in each(NUMBERS):
        for number in (-(1 << bits), (1 << bits) - 1):
            fits = change._replace(**{field: number})
            assert kept(fits) == fits
        for number in (-(1 << bits) - 1, 1 << bits):
            assert "does not fit into its column" in str(refused(change._replace(**{field: number})))


def test_what_a_clock_says_is_a_time_in_whole_seconds_or_not_and_nothing_else():
    for change, fields in TIMES:
        for field in fields:
            for time in (0.0, -1.5, 7, math.nextafter(2.0**63, 0), math.nextafter(-(2.0**63), 0)):
                fits = change._replace(**{field: time})
                assert kept(fits) == fits
            for time in (math.nan, math.inf, -math.inf, 2.0**63, -(2.0**63), 1 << 63, "7"):
                assert "which is not a time: give clock=" in str(refused(change._replace(**{field: time})))


@pytest.mark.parametrize("bad", ["a\0", "a\ud83d"], ids=["a NUL", "half a character"])
def test_arguments_scopes_handlers_and_what_is_owed_are_whole_or_refused(bad):
    found = [
        *[refused(INTENT._replace(**{field: bad})).field for field in ("arguments", "scopes", "handlers")],
        *[refused(OWED._replace(**{field: bad})).field for field in ("payload", "to", "scope")],
    ]
    assert found == ["arguments", "scopes", "handlers", "obligation", "scopes", "scopes"]
    assert kept(INTENT._replace(arguments='{"to":"Zoë"}')).arguments == '{"to":"Zoë"}'


def test_what_a_call_returned_and_what_a_person_said_are_json_whatever_they_were():
    result = '{"id":"Zoë"}'
    assert kept(OUTCOME._replace(result=result)) == OUTCOME._replace(result=result)
    assert kept(OUTCOME._replace(result='"a\ud83d"')).result == '{"$repr":"\\"a\\\\ud83d\\""}'
    assert (kept(SAID._replace(text=result)).text, kept(SAID._replace(text="")).text) == (result, "{}")


def test_a_text_for_people_is_written_in_letters_that_every_store_can_hold():
    bad, told = "so\0 long\ud83d", "so\\x00 long\\ud83d"
    assert kept(INTENT._replace(rationale=bad)) == INTENT._replace(rationale=told)
    for field in ("error", "note"):
        other = {"error": "note", "note": "error"}[field]
        alone = OUTCOME._replace(**{field: bad, other: None})
        assert kept(alone) == alone._replace(**{field: told})
    for field in ("cause", "waits_for", "waits_on"):
        assert kept(MOVED._replace(**{field: bad})) == MOVED._replace(**{field: told})
    alone = MOVED._replace(cause=None, waits_for=bad, waits_on=bad)
    assert kept(alone) == alone._replace(waits_for=told, waits_on=told)
    assert kept(SAID._replace(by=bad)) == SAID._replace(by=told)
    assert kept(NEWS._replace(note=bad)) == NEWS._replace(note=told)


def test_what_was_packed_or_cannot_be_read_is_written_as_it_is():
    packed = Packed.of("a\0", ())
    assert kept(OUTCOME._replace(result=packed)).result is packed
    assert kept(SAID._replace(text=packed)).text is packed
    assert kept(INTENT._replace(rationale=packed)).rationale is packed
    unread = Unreadable.of("note", "its key is gone\0")
    assert kept(OUTCOME._replace(result=unread, note=unread))[2:6] == (unread, "no rooms", Tag.CLEAN, unread)


def test_a_cause_is_cut_where_its_column_ends_and_sooner_where_the_store_has_refused_it():
    long = MOVED._replace(cause="a" * 20_000)
    assert [len(kept(long, short_ascii=short).cause) for short in (False, True)] == [1 << 14, 1_000]
    fits = MOVED._replace(cause="a" * (1 << 14))
    assert kept(fits) == fits


def test_an_outcome_that_its_store_has_refused_is_written_all_the_same_without_what_may_be_at_fault():
    whole = OUTCOME._replace(result='{"id":"Zoë"}', error="Zoë", note="b" * 2_000, at=math.nan)
    told = kept(whole, short_ascii=True)
    assert told == whole._replace(
        result='{"$repr":"its store refused its result"}', error="Zo\\xeb", note="b" * 1_000, at=0.0
    )
    assert kept(OUTCOME, short_ascii=True).at == 6.0
    for outcome in (Outcome.FAILED, Outcome.UNKNOWN):  # what it says of these is no result
        assert kept(OUTCOME._replace(outcome=outcome), short_ascii=True).result == '{"id":7}'
    bare = OUTCOME._replace(result=None, error=None, note=None)
    assert kept(bare, short_ascii=True) == bare
    with pytest.raises(
        LedgerError, match="the key .* has 2,000 characters"
    ):  # a name is none of that: whose outcome would it be?
        storable([OUTCOME._replace(key="a" * 2_000)], short_ascii=True)
