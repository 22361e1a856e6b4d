"""What a word on an effect means for its record: laws that hold for every record and every word."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.model import Disposed
from tests.rooms.protocol import FINISHED

from settlemark import EffectClass, Outcome, State, Tag, UsageError
from settlemark._report.verdicts import Word, is_in_doubt, is_to_undo, judge, resolve
from settlemark.hosting import Disposition
from settlemark.ledger import EffectRow, RecordedEffect, RecordedTransaction, TransactionRow

NOON = 1_767_268_800.0


def a_record(outcome, state, tag=None, *, held=False, note=None, result=None, others=()):
    row = EffectRow(
        "trip#1/0", "trip", 1, 0, "book", EffectClass.REVERSIBLE, '["room:/a"]', held, None, "{}", None, "{}", "1",
        Outcome.INTENDED, NOON,
    )  # fmt: skip # a table of values
    effect = RecordedEffect(row, outcome, result, None, tag, note)
    siblings = [RecordedEffect(row._replace(key=f"trip#1/{n}", position=n), o) for n, o in enumerate(others, 1)]
    opened = TransactionRow("trip", 1, "trip", state, 1, "", "worker", NOON)
    return RecordedTransaction(opened, state, 1, effects=[effect, *siblings]), effect


def told(recorded, effect, change):
    """The record after a change."""
    if change is None:
        return recorded, effect
    after = replace(
        effect,
        outcome=change.outcome,
        result=change.result,
        error=change.error,
        tag=change.tag,
        **change.disposed._asdict(),
    )
    siblings = [e for e in recorded.effects if e is not effect]
    return RecordedTransaction(recorded.row, recorded.state, 1, effects=[after, *siblings]), after


def words(*found):
    return st.builds(Word, found=st.sampled_from(found), by=st.just("ada"), at=st.just(NOON))


YES, NO = words(True, {"id": 1}, {"id": 2}, "w1"), words(None)
WORDS = YES | NO
CONTRADICTIONS = st.tuples(YES, NO) | st.tuples(NO, YES)
TAGS = st.sampled_from([None, *Tag])
OTHERS = st.lists(st.sampled_from(Outcome), max_size=2)
SENT = st.builds(
    a_record,
    st.sampled_from([outcome for outcome in Outcome if outcome not in (Outcome.QUEUED, Outcome.SUSPENDED)]),
    st.sampled_from(State),
    TAGS,
    held=st.booleans(),
    note=st.sampled_from([None, "nobody can tell"]),
    result=st.sampled_from([None, '{"id":1}']),
    others=OTHERS,
)


def doubts(states=State):
    """Records of effects in doubt, of transactions in one of these states."""
    return st.builds(
        a_record, st.just(Outcome.UNKNOWN), st.sampled_from(states), TAGS, held=st.booleans(), others=OTHERS
    )


@given(SENT, WORDS, st.booleans())
def test_hearing_a_word_twice_is_hearing_it_once(found, word, undoable):
    change = judge(*found, word, undoable=undoable)
    assert judge(*told(*found, change), word, undoable=undoable) is None


@given(doubts(), WORDS, WORDS, st.booleans())
def test_of_two_words_the_first_stays(found, first, second, undoable):
    once = told(*found, judge(*found, first, undoable=undoable))
    twice = told(*once, judge(*once, second, undoable=undoable))
    assert twice[1].outcome is once[1].outcome
    if once[1].result is not None:
        assert twice[1].result == once[1].result


@given(doubts(), CONTRADICTIONS, st.booleans())
def test_a_contradiction_is_named_whatever_it_is_about(found, words, undoable):
    first, second = words
    once = told(*found, judge(*found, first, undoable=undoable))
    twice = told(*once, judge(*once, second, undoable=undoable))
    assert twice[1].tag not in (None, Tag.CLEAN)
    assert "told otherwise" in twice[1].note


@given(doubts(), CONTRADICTIONS, st.booleans(), st.sampled_from(["confirmed", "absent"]))
def test_between_words_that_contradict_each_other_an_operator_decides(found, words, undoable, verdict):
    for word in words:
        found = told(*found, judge(*found, word, undoable=undoable))
    happened = verdict == "confirmed"
    recorded, effect = told(
        *found, resolve(*found, verdict, Word(True if happened else None, "eve", NOON), undoable=undoable)
    )
    if happened:
        late = recorded.state is State.ABORTED or (recorded.state is State.ABORTING and found[1].tag is not None)
        assert effect.outcome is Outcome.CONFIRMED
        assert is_to_undo(recorded, effect) is (late and undoable and not effect.row.held)
        assert effect.tag in ((Tag.LEAKED, Tag.UNRESOLVED) if late else (None, Tag.CLEAN))
    else:
        assert effect.outcome in (Outcome.FAILED, Outcome.UNDONE)
        assert effect.tag is Tag.CLEAN
    assert "eve, 2026-01-01 12:00 UTC" in effect.note


@given(doubts(), WORDS, st.booleans())
def test_a_word_on_what_is_in_doubt_ends_the_doubt_and_says_who_and_when(found, word, undoable):
    _, after = told(*found, judge(*found, word, undoable=undoable))
    assert not is_in_doubt(after)
    assert after.outcome is (Outcome.FAILED if word.found is None else Outcome.CONFIRMED)
    assert "ada, 2026-01-01 12:00 UTC" in after.note


@given(doubts([State.ABORTED]), YES, st.booleans())
def test_what_happened_in_a_transaction_that_was_undone_is_undone_or_named(found, word, undoable):
    recorded, after = told(*found, judge(*found, word, undoable=undoable))
    assert after.tag is (Tag.LEAKED if after.row.held else Tag.UNRESOLVED)
    assert is_to_undo(recorded, after) is (undoable and not after.row.held)


@given(doubts([State.ABORTED]), st.booleans())
def test_what_did_not_happen_in_a_transaction_that_was_undone_leaves_nothing(found, undoable):
    _, after = told(*found, judge(*found, Word(None, "ada", NOON), undoable=undoable))
    assert (after.outcome, after.tag) == (Outcome.FAILED, Tag.CLEAN)


@given(doubts(), st.sampled_from(["confirmed", "absent", "give_up"]), st.booleans())
def test_an_operators_verdict_ends_the_doubt_or_is_refused_and_says_who(found, verdict, undoable):
    word = Word(True if verdict == "confirmed" else None, "ada", NOON, "called them")
    try:
        change = resolve(*found, verdict, word, undoable=undoable)
    except UsageError:
        assert verdict == "give_up"
        assert found[0].state not in FINISHED or found[1].tag in (None, Tag.CLEAN)
        return
    _, after = told(*found, change)
    assert not is_in_doubt(after)
    assert "ada, 2026-01-01 12:00 UTC: called them" in after.note
    if verdict == "give_up":
        assert (after.outcome, after.tag) == (Outcome.UNKNOWN, found[1].tag)


@pytest.mark.parametrize("outcome", [Outcome.QUEUED, Outcome.SUSPENDED])
def test_nobody_knows_anything_of_what_was_not_sent(outcome):
    recorded, effect = a_record(outcome, State.OPEN, held=True)
    for found in (None, {"id": 1}):
        with pytest.raises(UsageError, match="has not been sent yet: nothing was recorded"):
            judge(recorded, effect, Word(found, "a webhook", NOON), undoable=True)


def test_a_word_goes_before_a_call_that_was_only_seen_to_fail_and_not_before_another_word():
    told_otherwise = Word({"id": 1}, "a webhook", NOON)
    failed = a_record(Outcome.FAILED, State.COMMITTED, Tag.PARTIAL_COMMIT, held=True, note="failed for good")
    change = judge(*failed, told_otherwise, undoable=False)
    assert (change.outcome, change.tag, change.result) == (Outcome.CONFIRMED, Tag.UNRESOLVED, '{"id":1}')
    for verdict in ("absent", "confirmed"):
        word = Word(True if verdict == "confirmed" else None, "ada", NOON)
        found = told(*failed, resolve(*failed, verdict, word, undoable=False))
        contrary = told_otherwise if verdict == "absent" else Word(None, "a webhook", NOON)
        change = judge(*found, contrary, undoable=False)
        assert (change.outcome, change.tag) == (found[1].outcome, Tag.UNRESOLVED)
        assert change.note.startswith(found[1].note)
        assert "told otherwise" in change.note


def test_a_release_under_way_may_be_confirmed_before_its_answer_comes_and_is_not_called_off():
    recorded, effect = a_record(Outcome.QUEUED, State.RELEASING, held=True)
    change = judge(recorded, effect, Word({"id": 1}, "a webhook", NOON), undoable=False)
    assert (change.outcome, change.tag, change.result) == (Outcome.CONFIRMED, None, '{"id":1}')
    assert judge(recorded, effect, Word(None, "a webhook", NOON), undoable=False) is None


def test_details_that_come_later_are_added_and_are_no_contradiction():
    found = a_record(Outcome.UNKNOWN, State.COMMITTED, Tag.UNRESOLVED)
    found = told(*found, judge(*found, Word(True, "ada", NOON), undoable=False))
    found = told(*found, judge(*found, Word({"id": 1}, "a webhook", NOON), undoable=False))
    assert (found[1].outcome, found[1].tag, found[1].result) == (Outcome.CONFIRMED, None, '{"id":1}')


@pytest.mark.parametrize("told_before", [False, True])
def test_who_told_first_stays_on_record_whatever_details_another_tells_later(told_before):
    found, first = a_record(Outcome.CONFIRMED, State.COMMITTED), Word({"id": 1}, "ada", NOON)
    if told_before:
        first, found = Word(True, "bob", NOON), a_record(Outcome.UNKNOWN, State.COMMITTED)
        found = told(*found, judge(*found, first, undoable=False))
    change = judge(*found, Word({"id": 1}, "ada", NOON), undoable=False)
    assert change is not None
    assert change.disposed == Disposed(Disposition.HAPPENED, f"({first})")


def test_what_redaction_took_out_of_a_result_contradicts_nothing():
    found = a_record(Outcome.CONFIRMED, State.COMMITTED, result='{"id":1,"token":{"$redacted":null}}')
    assert judge(*found, Word({"id": 1, "token": "s3cret"}, "a webhook", NOON), undoable=False) is None
    assert judge(*found, Word({"id": 2, "token": "s3cret"}, "a webhook", NOON), undoable=False) is not None


@pytest.mark.parametrize(
    ("outcome", "tag", "verdict", "becomes"),
    [
        (Outcome.CONFIRMED, Tag.UNRESOLVED, "absent", (Outcome.UNDONE, Tag.CLEAN)),
        (Outcome.UNDONE, Tag.UNRESOLVED, "absent", (Outcome.UNDONE, Tag.CLEAN)),
        (Outcome.UNDONE, Tag.UNRESOLVED, "confirmed", (Outcome.UNDONE, Tag.CLEAN)),
        (Outcome.FAILED, Tag.PARTIAL_COMMIT, "confirmed", (Outcome.CONFIRMED, Tag.CLEAN)),
        (Outcome.FAILED, Tag.PARTIAL_COMMIT, "absent", (Outcome.FAILED, Tag.CLEAN)),
        (Outcome.CONFIRMED, Tag.UNRESOLVED, "give_up", (Outcome.CONFIRMED, Tag.UNRESOLVED)),
    ],
)
def test_residue_is_an_operators_to_close(outcome, tag, verdict, becomes):
    found = a_record(outcome, State.COMMITTED, tag, held=True)
    word = Word(True if verdict == "confirmed" else None, "ada", NOON)
    change = resolve(*found, verdict, word, undoable=False)
    assert (change.outcome, change.tag) == becomes
