from __future__ import annotations

import contextlib
import io
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.rooms.edges import plain
from tests.rooms.report import sentences as show

from settlemark import EffectClass, Outcome, PartialCommit, Settlement, State, Tag, effect
from settlemark.hosting import Reason
from settlemark.ledger import EffectRow, RecordedEffect, RecordedTransaction, TransactionRow

INTERNAL = re.compile(r"\b(epoch|floor|frontier|ordinal|fence)\b", re.IGNORECASE)


def transaction(name="trip-42", state=State.COMMITTED, reason=None, *, attempt=1, settled=2.0, effects=(), **said):
    row = TransactionRow(name, attempt, name.split("/")[0], State.OPEN, 7, "", "worker", 1.0)
    return RecordedTransaction(row, state, 7, reason, settled, list(effects), **said)


def one_effect(outcome, *, position=0, tag=None, note=None, error=None, rationale=None, scope="room:/Ada"):
    row = EffectRow(
        key=f"trip-42#1/{position}", name="trip-42", attempt=1, position=position, tool="reserve",
        kind=EffectClass.REVERSIBLE, scopes=json.dumps([scope]), held=False, call_id=None, arguments="{}",
        rationale=rationale, handlers="{}", version="1", outcome=Outcome.INTENDED, at=1.0,
    )  # fmt: skip # a table of values
    return RecordedEffect(row, outcome, None, error, tag, note, 2.0)


def printed(renderable, width=200):
    out = io.StringIO()
    Console(file=out, width=width).print(renderable)
    return out.getvalue()


# -- sentences --------------------------------------------------------------------------------------------


def test_an_empty_ledger_says_so_in_sentences_and_in_tables():
    assert show.account([]) == show.EMPTY
    assert printed(show.tables([])).strip() == show.EMPTY


def test_a_committed_transaction_is_told_with_its_effects_in_issuance_order_and_their_reason():
    log = []

    @effect("irreversible", scope="mail:/{to}")
    def send(to):
        log.append(f"mail {to}")

    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: log.append(f"free {hotel}"))
    def reserve(hotel):
        log.append(hotel)

    with Settlement("memory:") as settlement:
        with settlement.transaction("trip-42") as tx, tx.turn(because="Ada wants\n a room") as turn:
            turn.call(send, to="a@b.example")
            turn.call(reserve, hotel="Ada")
        told = settlement.show()

    assert log == ["Ada", "mail a@b.example"]  # what cannot be undone leaves last
    assert told.splitlines() == [
        "trip-42 committed.",
        "  because: Ada wants a room",
        "  1. send on mail:/a@b.example: confirmed",
        "  2. reserve on room:/Ada: confirmed",
    ]


def test_an_aborted_transaction_is_told_with_why_and_what_became_of_each_effect():
    @effect("irreversible", scope="mail:/{to}")
    def send(to): ...

    @effect("reversible", scope="room:/{hotel}", undo=lambda: None)
    def reserve(hotel): ...

    @effect("reversible", scope="flight:/{to}", undo=lambda: None)
    def fly(to):
        raise LookupError("no seats")

    with Settlement("memory:") as settlement:
        with contextlib.suppress(LookupError), settlement.transaction("trip-42") as tx:
            tx.call(reserve, hotel="Ada")
            tx.call(send, to="a@b.example")
            tx.call(fly, to="Lisbon")
        told = settlement.show()

    assert told.splitlines() == [
        "trip-42 was undone, because a call failed (LookupError: no seats).",
        "  1. reserve on room:/Ada: undone",
        "  2. send on mail:/a@b.example: never left",
        "  3. fly on flight:/Lisbon: failed (LookupError: no seats)",
    ]


def test_what_could_not_be_undone_is_named_and_the_abort_is_not_called_an_undo():
    def stuck():
        raise LookupError("no such room")

    @effect("reversible", scope="room:/{hotel}", undo=stuck)
    def reserve(hotel): ...

    with Settlement("memory:") as settlement:
        with contextlib.suppress(ZeroDivisionError), settlement.transaction("trip-42") as tx:
            tx.call(reserve, hotel="Ada")
            raise ZeroDivisionError
        told = settlement.show()

    first, second = told.splitlines()
    assert first == "trip-42 aborted, because a call failed (ZeroDivisionError), and is stuck. 1 effect left to mend."
    assert second == (
        "  1. reserve on room:/Ada: confirmed, and not undone"
        " [unresolved: its undo failed 3 times: LookupError: no such room]"
    )


def test_a_partial_commit_is_called_one():
    @effect("irreversible", scope="mail:/{to}")
    def send(to):
        if to != "first":
            raise LookupError("no such mailbox")

    with Settlement("memory:") as settlement:
        with contextlib.suppress(PartialCommit), settlement.transaction("trip-42") as tx:
            for to in ("first", "second", "third"):
                tx.call(send, to=to)
        told = settlement.show()

    assert told.splitlines() == [
        "trip-42 committed in part. 2 effects left to mend.",
        "  1. send on mail:/first: confirmed",
        (
            "  2. send on mail:/second: failed (LookupError: no such mailbox)"
            " [partial_commit: failed for good after another had left: LookupError: no such mailbox]"
        ),
        "  3. send on mail:/third: never left [partial_commit: not run: send, before it, failed]",
    ]


@pytest.mark.parametrize(
    ("recorded", "sentence"),
    [
        (transaction(state=State.OPEN), "trip-42 is still open."),
        (
            transaction(state=State.SEALED, waits_for="trip-1", waits_on="room:/Ada"),
            "trip-42 is complete, and not settled yet: waiting for trip-1, which holds room:/Ada.",
        ),
        (transaction(state=State.RELEASING), "trip-42 is committed and its held effects are leaving."),
        (
            transaction(state=State.ABORTING, reason=Reason.CANCELLED),
            "trip-42 is being undone, because its run was cancelled.",
        ),
        (
            transaction(state=State.ABORTED, reason=Reason.STALE, attempt=2),
            "trip-42 (attempt 2) was undone, because what it was planned on had changed.",
        ),
        (transaction(state=State.ABORTED, reason=None), "trip-42 was undone, because nobody said why."),
    ],
    ids=lambda value: "" if isinstance(value, str) else value.state.value,
)
def test_where_a_transaction_stands_is_one_sentence(recorded, sentence):
    assert show.headline(recorded) == sentence


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome.INTENDED, "begun, and its outcome is not recorded yet"),
        (Outcome.QUEUED, "queued: leaves when this settles"),
        (Outcome.UNKNOWN, "unknown: do not repeat"),
        (Outcome.FAILED, "did not happen"),
    ],
)
def test_what_became_of_an_effect_is_said_in_plain_words(outcome, words):
    assert show.became(one_effect(outcome)) == words


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("approve", "queued: leaves when this settles (approved by ada)"),
        ("edit", "queued: leaves when this settles (approved with other arguments by ada)"),
        ("reject", "queued: never leaves (rejected by ada)"),
    ],
)
def test_what_was_answered_and_is_not_carried_out_yet_says_whether_it_leaves(verdict, words):
    assert show.became(replace(one_effect(Outcome.QUEUED), verdict=verdict, said="{}", said_by="ada")) == words


def test_each_turns_reason_is_told_once_before_its_effects():
    effects = [one_effect(Outcome.CONFIRMED, position=n, rationale=why) for n, why in enumerate(["a", "a", "b"])]

    assert show.account([transaction(effects=effects)]).splitlines()[1:] == [
        "  because: a",
        "  1. reserve on room:/Ada: confirmed",
        "  2. reserve on room:/Ada: confirmed",
        "  because: b",
        "  3. reserve on room:/Ada: confirmed",
    ]


recorded_transactions = st.builds(
    lambda state, reason, said, attempt, effects: transaction(
        state=state, reason=reason, attempt=attempt, **said, effects=[one_effect(*e[:1], tag=e[1]) for e in effects]
    ),
    st.sampled_from(State),
    st.sampled_from([None, *Reason]),
    st.sampled_from([{}, {"cause": "x"}, {"cause": "[/bold]"}, {"waits_for": "a", "waits_on": "room:/Ada"}]),
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(Outcome), st.sampled_from([None, *Tag])), max_size=3),
)


@given(st.lists(recorded_transactions, max_size=4))
def test_whatever_a_ledger_holds_can_be_told_and_no_inner_word_is_met(recorded):
    told = show.account(recorded)
    shown = printed(show.tables(recorded))

    assert INTERNAL.search(told) is None
    assert INTERNAL.search(show.left_account(recorded)) is None
    assert INTERNAL.search(shown) is None
    assert len(told.split("\n\n")) == max(len(recorded), 1)
    assert json.loads(json.dumps([show.as_values(r) for r in recorded])) == [show.as_values(r) for r in recorded]
    left = [effect for r in recorded for effect in r.effects if effect.tag not in (None, Tag.CLEAN)]
    assert [effect for _, effect in show.left_over(recorded)] == left
    assert len(show.residue_values(recorded)) == len(left)


LONG = f"trip-42/root:{'0' * 60}:abcdef"
SHORT = "trip-42/…00000:abcdef"


def test_a_frameworks_long_name_is_cut_to_its_run_and_its_end_and_whole_in_the_values():
    recorded = transaction(LONG)

    assert show.headline(recorded) == f"{SHORT} committed."
    assert show.as_values(recorded)["name"] == LONG


def test_a_long_name_is_the_same_in_its_heading_where_others_wait_for_it_and_in_what_is_left():
    left = one_effect(Outcome.CONFIRMED, tag=Tag.UNRESOLVED, note="stuck")
    holder = transaction(LONG, State.ABORTED, "failed", effects=[left])
    waiting = transaction("trip-9", State.SEALED, waits_for=LONG, waits_on="room:/Ada", settled=None)

    told, tables = show.account([holder, waiting]), printed(show.tables([holder, waiting]))

    assert told.splitlines() == [
        f"{SHORT} aborted, because a call failed, and is stuck. 1 effect left to mend.",
        "  1. reserve on room:/Ada: confirmed, and not undone [unresolved: stuck]",
        "",
        f"trip-9 is complete, and not settled yet: waiting for {SHORT}, which holds room:/Ada.",
    ]
    assert show.left_account([holder, waiting]).splitlines() == [
        f"{SHORT}, call 1: reserve on room:/Ada: confirmed, and not undone [unresolved: stuck]",
        "  key: trip-42#1/0",
    ]
    assert LONG not in tables
    assert show.as_values(waiting)["waits_for"] == LONG


@given(st.text(min_size=1, max_size=150))
def test_a_shortened_name_fits_a_line_begins_and_ends_as_the_name_and_stays_when_shortened_again(name):
    short, name = show.short(name), plain(name)
    head, _, tail = short.rpartition("…")

    assert len(short) <= 60
    assert short == name or (name.startswith(head) and name.endswith(tail))
    assert show.short(short) == short


def test_calls_are_told_in_issuance_order_with_numbers_that_have_no_gaps():
    effects = [one_effect(Outcome.CONFIRMED, position=n, scope=f"room:/{n}") for n in (7, 2, 4)]
    effects[0].tag = Tag.UNRESOLVED
    recorded = transaction(effects=effects)

    assert show.account([recorded]).splitlines()[1:] == [
        "  1. reserve on room:/2: confirmed",
        "  2. reserve on room:/4: confirmed",
        "  3. reserve on room:/7: confirmed, and not undone [unresolved]",
    ]
    assert show.left_account([recorded]).splitlines()[0].startswith("trip-42, call 3: ")
    assert [effect["position"] for effect in show.as_values(recorded)["effects"]] == [2, 4, 7]
    assert re.findall(r"│ (\d) +│ reserve", printed(show.tables([recorded]))) == ["1", "2", "3"]


def test_texts_of_many_lines_are_told_in_one():
    recorded = transaction(state=State.ABORTED, reason=Reason.FAILED, cause="no\n  seats")

    assert show.headline(recorded) == "trip-42 was undone, because a call failed (no seats)."
    assert show.became(one_effect(Outcome.FAILED, error="no\nseats")) == "failed (no seats)"


# -- tables -----------------------------------------------------------------------------------------------


def test_the_tables_name_who_waits_for_whom_and_on_what():
    waiting = transaction("trip-2", State.SEALED, waits_for="trip, which holds", waits_on="room:/Ada", settled=None)

    assert show.waits(waiting) == ("trip, which holds", "room:/Ada")
    shown = printed(show.tables([waiting]))
    assert "Waiting" in shown
    assert "trip, which holds" in shown
    assert "Nothing is left to mend so far." in shown


def test_a_finished_transaction_waits_for_nobody_whatever_is_on_record():
    assert show.waits(transaction(state=State.ABORTED, waits_for="x", waits_on="room:/Ada")) is None


def test_text_that_looks_like_markup_is_shown_as_it_is():
    left = one_effect(Outcome.CONFIRMED, tag=Tag.UNRESOLVED, note="[red]x[/]", scope="room:/[bold]")

    shown = printed(show.tables([transaction(state=State.ABORTED, reason=Reason.FAILED, cause="[/]", effects=[left])]))

    assert "[red]x[/]" in shown
    assert "room:/[bold]" in shown
    assert "(/])" not in shown


def test_the_values_hold_every_field_with_payloads_decoded():
    values = show.as_values(transaction(effects=[one_effect(Outcome.CONFIRMED)]))

    assert values == {
        "name": "trip-42", "attempt": 1, "run": "trip-42", "agents": [], "state": "committed", "reason": None,
        "epoch": 7,
        "cause": None, "link": None, "waits_for": None, "waits_on": None,
        "ordinal": "", "owner": "worker", "opened_at": 1.0, "sealed_at": None, "decided_at": None,
        "settled_at": 2.0, "waits": [], "stuck": False,
        "effects": [{
            "position": 0, "tool": "reserve", "class": "reversible", "scope": "room:/Ada", "held": False,
            "key": "trip-42#1/0", "call_id": None, "rationale": None, "arguments": {}, "outcome": "confirmed",
            "result": None, "error": None, "tag": None, "note": None, "intended_at": 1.0, "settled_at": 2.0,
            "disposition": None, "link": None, "question": None, "contradicted": False,
            "said": None, "said_by": None, "said_at": None, "dealt_at": None,
        }],
    }  # fmt: skip # a table


def test_what_a_person_rejected_was_undone_since_a_person_said_no(quick):
    pay = effect("irreversible", scope="account:/{to}", approve=True, name="pay")(lambda to: None)
    quick.run("case-7", lambda tx: tx.call(pay, to="ada"))
    quick.reject("case-7", by="eve", because="too much")
    assert str(quick.show()) == (
        "case-7 was undone, because a person said no (too much).\n"
        "  1. pay on account:/ada: never left (rejected by eve: too much)"
    )
