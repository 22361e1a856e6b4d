"""What a process left is revived as it was recorded, by whoever ends it: nothing of it is forgotten or made up."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from tests.rooms.acts import CUT_OFF, SILENT
from tests.rooms.attempt import revive
from tests.rooms.model import Disposed

from settlemark import Declaration, Effect, EffectClass, Erased, Outcome, Scope, Tag, effect
from settlemark.hosting import Disposition, declaration_of
from settlemark.ledger import EffectRow, RecordedEffect

ROW = EffectRow(
    key="trip#2/3.1:call-7", name="trip", attempt=2, position=5, tool="book", kind=EffectClass.REVERSIBLE,
    scopes='["room:/a","day:/1"]', held=True, call_id="call-7", arguments='{"room":"a"}', rationale="it is cheap",
    handlers='{"undo":"cancel","probe":"ask"}', version="2", outcome=Outcome.INTENDED, at=12.0, fingerprint="f00d",
    window=9.0, leaves=2,
)  # fmt: skip # a table of values
DONE = RecordedEffect(
    ROW, Outcome.CONFIRMED, '{"id":7}', "late", Tag.UNRESOLVED, "why", 20.0, "ghost",
    disposition=Disposition.EDITED, link="trip#2/4", question=3, contradicted=True,
)  # fmt: skip # a table of values
AS_RECORDED = {
    "scopes": (Scope.parse("room:/a"), Scope.parse("day:/1")),
    "arguments": {"room": "a"},
    "call_id": "call-7",
    "rationale": "it is cheap",
    "key": "trip#2/3.1:call-7",
    "payload": '{"room":"a"}',
    "position": 5,
    "path": (3, 1),
    "called": 1,
    "kept": ({"id": 7},),
    "held": True,
    "outcome": Outcome.CONFIRMED,
    "result": {"id": 7},
    "stored": True,
    "error": "late",
    "tag": Tag.UNRESOLVED,
    "disposed": Disposed(Disposition.EDITED, "why", "trip#2/4", 3, contradicted=True),
    "at": 12.0,
    "missing": "book (version 2)",
    "fingerprint": "f00d",
    "leaves": 2,
    "sender": "ghost",
    "keyless": True,
}
"""What it is, beside what an effect is that nobody has told anything of."""
OWN = ("declaration", "run", "calls")


def told(revived):
    """What is told of an effect, beside what any has."""
    plain = Effect(revived.declaration, (), {}, revived.run)
    every = {each.name: getattr(revived, each.name) for each in fields(Effect) if each.name not in OWN}
    needed = ("scopes", "arguments")
    return {name: value for name, value in every.items() if name in needed or value != getattr(plain, name)}


def test_all_that_is_on_record_of_an_effect_is_revived():
    assert told(revive(DONE, None)) == AS_RECORDED
    declaration = revive(DONE, None).declaration
    assert (declaration.tool, declaration.kind, declaration.version) == ("book", EffectClass.REVERSIBLE, "2")


def test_an_intent_without_an_outcome_may_have_happened_and_it_is_said_why_nobody_knows():
    intended = RecordedEffect(ROW, Outcome.INTENDED)
    assert (revive(intended, None).outcome, revive(intended, None).error) == (Outcome.UNKNOWN, CUT_OFF)
    silent = replace(intended, sender="ghost")
    assert (revive(silent, None).outcome, revive(silent, None).error) == (Outcome.UNKNOWN, SILENT)
    refused = replace(intended, outcome=Outcome.FAILED, error="full")
    assert (revive(refused, None).outcome, revive(refused, None).error) == (Outcome.FAILED, "full")
    lost = replace(intended, outcome=Outcome.UNKNOWN, error="lost")
    assert (revive(lost, None).outcome, revive(lost, None).error) == (Outcome.UNKNOWN, "lost")


@pytest.mark.parametrize(
    ("kind", "handlers", "keyless", "unsigned"),
    [
        ("reversible", '{"undo":"cancel"}', True, True),
        ("reversible", '{"undo":"cancel","probe":"ask"}', True, False),
        ("reversible", '{"undo":"cancel","keyed":true}', False, False),
        ("idempotent", "{}", False, False),
    ],
)
def test_a_tool_that_was_not_keyed_when_it_was_called_is_not_asked_by_a_key_whatever_it_is_declared_now(
    kind, handlers, keyless, unsigned
):
    row = ROW._replace(kind=EffectClass(kind), handlers=handlers)
    now = Declaration(tool="book", kind=EffectClass(kind), keyed=True)
    for outcome in (Outcome.INTENDED, Outcome.UNKNOWN):
        doubtful = revive(RecordedEffect(row, outcome), now)
        assert (doubtful.keyless, doubtful.unsigned, doubtful.declaration.keyed) == (keyless, unsigned, not keyless)


def test_only_what_had_a_handler_that_nobody_declares_here_misses_one():
    assert revive(replace(DONE, row=ROW._replace(version="1")), None).missing == "book"
    assert revive(replace(DONE, row=ROW._replace(handlers='{"keyed":true}')), None).missing is None
    assert revive(DONE, Declaration(tool="book", kind=EffectClass.REVERSIBLE)).missing is None


def test_a_result_that_cannot_be_read_is_no_result_and_is_written_back_as_it_is():
    gone = Erased.of("result", "its key is gone")
    revived = revive(replace(DONE, result=gone), None)
    assert (revived.kept, revived.unread) == (None, ({"$erased": "its key is gone"}, gone))
    assert (revive(replace(DONE, result=None), None).kept, revive(DONE, None).unread) == (None, None)


def test_a_handler_whose_arguments_are_gone_must_not_run():
    @effect("reversible", scope="room:/{room}", undo=lambda room: room)
    def book(room):
        return room

    gone = ROW._replace(arguments=Erased.of("arguments", "its key is gone"))
    assert revive(replace(DONE, row=gone), declaration_of(book)).withheld.keys() == {"undo"}
    assert revive(DONE, declaration_of(book)).withheld == {}


def test_what_was_held_runs_as_it_was_recorded_and_without_its_tool_says_what_to_declare():
    @effect("irreversible", scope="mail:/{to}")
    def send(to):
        return f"sent to {to}"

    row = ROW._replace(tool="send", kind=EffectClass.IRREVERSIBLE, arguments='{"to":"x"}', handlers="{}", version="1")
    assert revive(RecordedEffect(row, Outcome.QUEUED), declaration_of(send)).run() == "sent to x"
    with pytest.raises(LookupError, match="send is not declared in this process: declare it"):
        revive(RecordedEffect(row, Outcome.QUEUED), None).run()
