"""Commands are values: each comes back from its text, and is taken again as it was or stops whoever takes it."""

from __future__ import annotations

import inspect
import json
import sqlite3
from contextlib import closing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.hand import Hand
from tests.extent import examples
from tests.rooms.protocol import Call, Mode, Txn
from tests.rooms.replica import image, read, replay, written

from settlemark import InternalError, LedgerError, Scope, SettlemarkError, StateError
from settlemark._protocol import commands as c
from settlemark.hosting import Protocol, Reason
from settlemark.ledger import open_ledger

CALL = '[1,1,"cell:/a",2,0,false,0,""]'
WORDS = {
    "begin": (c.Begin, '"name":"trip"'),
    "split": (c.Split, '"name":"trip!0","run":"trip","reads":[]'),
    "cancel": (c.Cancel, '"run":"trip"'),
    "unfence": (c.Unfence, '"runs":[]'),
    "halt": (c.Halt, '"scope":null,"run":null,"by":"ada","because":"","since":0.0'),
    "lift": (c.Lift, '"number":1'),
    "joined": (c.Joined, '"txn":1,"agent":"ada"'),
    "admit": (c.Admit, f'"call":{CALL}'),
    "declare": (c.Declare, '"txn":1,"scopes":[]'),
    "withdraw": (c.Withdraw, f'"call":{CALL}'),
    "acted": (c.Acted, f'"call":{CALL},"happened":true'),
    "resumed": (c.Resumed, '"calls":[]'),
    "released": (c.Released, f'"call":{CALL}'),
    "drop_call": (c.DropCall, f'"call":{CALL}'),
    "undone": (c.Undone, f'"call":{CALL},"clean":true'),
    "refine": (c.Refine, f'"call":{CALL},"to":[]'),
    "seal": (c.Seal, '"txn":1'),
    "commit": (c.Commit, '"txn":1,"releasing":false'),
    "finish": (c.Finish, '"txn":1'),
    "abort": (c.Abort, '"txn":1,"reason":"stale","detail":{}'),
    "revert": (c.Revert, '"txn":1,"reason":"stale","detail":{}'),
    "finish_abort": (c.FinishAbort, '"txn":1'),
    "drop_retry": (c.DropRetry, '"txn":1'),
    "retract": (c.Retract, '"name":"trip","attempt":1'),
    "rebind": (c.Rebind, '"tool":"book","signature":"x"'),
    "revoke": (c.Revoke, '"tool":"book"'),
    "reinstate": (c.Reinstate, '"tool":"book"'),
    "owe": (c.Owe, '"tool":"refund"'),
    "park": (c.Park, '"txn":1,"parked":true'),
    "own": (c.Own, '"txn":1,"worker":"w"'),
    "bury": (c.Bury, '"worker":"w"'),
    "advance": (c.Advance, '"scope":"cell:/a","epoch":1'),
    "skip_epochs": (c.SkipEpochs, '"epochs":1'),
    "tell_time": (c.TellTime, '"seconds":1'),
}
"""The words of a shared log, each with the least that was ever written of it."""

PARAMETER = {c.TxnId: "Txn", c.CallRef: "Call", tuple[c.CallRef, ...]: "Iterable[Call]"}
"""What stands in a rule's method for what a command names."""


def of_each_kind():
    """For each kind of command, one that a hand has taken, and all that it took before."""
    found = {}
    for seed in range(200):
        hand = Hand(seed)
        hand.steps(150)
        for number, command in enumerate(hand.protocol.journal):
            found.setdefault(type(command), (tuple(hand.protocol.journal[:number]), command))
        if len(found) == len(c.COMMANDS):
            break
    return found


TAKEN = of_each_kind()


def after(kind):
    """A replica that has taken all that came before a command of a kind, and that command."""
    before, command = TAKEN[kind]
    protocol = Protocol(plans=3)
    replay(protocol, before, 1)
    return protocol, command


def raising(protocol, kind, error):
    """Have the rule that takes a kind of command raise an error."""

    def rule(**_given):
        raise error

    protocol._parts.__dict__["handlers"] = {**protocol._parts.handlers, kind: rule}


# ---- the alphabet


def test_a_hand_takes_every_command():
    assert set(TAKEN) == set(c.COMMANDS)


def test_every_command_has_a_rule_that_takes_it_and_a_tag_of_its_own():
    assert set(Protocol()._parts.handlers) == set(c.COMMANDS)
    assert len({kind.__struct_config__.tag for kind in c.COMMANDS}) == len(c.COMMANDS) == 34


@pytest.mark.parametrize("kind", c.COMMANDS)
def test_the_fields_of_a_command_are_the_parameters_of_its_rule(kind):
    of_its_own = {"into"}  # an object of the process that begins it, which is to take the place
    parameters = inspect.signature(Protocol()._parts.handlers[kind]).parameters
    parameters = [parameter for name, parameter in parameters.items() if name not in of_its_own]
    fields = msgspec.structs.fields(kind)
    assert [field.name for field in fields] == [parameter.name for parameter in parameters]
    named = {f.name: PARAMETER[f.type] for f in fields if f.type in PARAMETER}
    assert named == {p.name: p.annotation for p in parameters if p.annotation in PARAMETER.values()}


@pytest.mark.parametrize("kind", c.COMMANDS)
def test_a_command_comes_back_from_its_text(kind):
    _, command = TAKEN[kind]
    text = c.encode([command])
    assert c.decode(text) == (command,)
    assert json.loads(text)[0]["do"] == kind.__struct_config__.tag


def test_an_entry_that_another_process_has_written_is_read_by_the_words_that_it_has_there():
    text = "[" + ",".join(f'{{"do":"{word}",{least}}}' for word, (_, least) in WORDS.items()) + "]"
    commands = c.decode(text)
    assert [type(command) for command in commands] == [kind for kind, _ in WORDS.values()]
    assert c.encode(commands) == text


def test_every_command_has_its_word_in_the_log():
    assert {kind for kind, _ in WORDS.values()} == set(c.COMMANDS)


def test_what_an_entry_does_not_say_of_a_beginning_is_a_first_attempt_of_nobody_within_nothing():
    (begun,) = c.decode('[{"do":"begin","name":"trip"}]')
    protocol = Protocol()
    replay(protocol, [begun], 1)
    (txn,) = protocol.live.values()
    assert (txn.name, txn.attempt, txn.owner, txn.parent, txn.group, txn.retry) == ("trip", 1, "", 0, 0, False)


def test_what_is_written_of_a_command_is_what_was_taken_since_nobody_can_change_it():
    commands = [command for _, command in TAKEN.values()]
    before = c.encode(commands)
    for command in commands:
        with pytest.raises(AttributeError, match="immutable"):
            setattr(command, command.__struct_fields__[0], None)
    assert c.encode(commands) == before


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9), count=st.integers(0, 120))
def test_a_journal_comes_back_from_its_text(seed, count):
    hand = Hand(seed)
    hand.steps(count)
    assert read(f"[{written(hand.protocol.journal)}]", 1) == tuple(hand.protocol.journal)


def test_what_is_said_of_an_abort_comes_back_as_it_was():
    one, other = Protocol(), Protocol()
    one.journal = []
    txn = one.begin("trip")
    said = {"scope": Scope.parse("room:/Ada"), "holder": "x\ud83d", "waited": 1.5, "hook": None, "verdict": ["no"]}
    one.abort(txn, Reason.TIMEOUT, **said)
    assert c.decode(c.encode(one.journal)) == tuple(one.journal)
    (abort,) = [command for command in one.journal if isinstance(command, c.Abort)]
    plain = {**said, "holder": "x\\ud83d", "verdict": "['no']"}
    assert c.detail_of(abort.detail) == plain
    replay(other, one.journal[:1], 1)
    (same,) = other.live.values()
    replay(other, one.journal[1:], 2)
    assert same.detail == plain


def test_a_command_says_no_more_than_it_has_to():
    txn = Txn(7, "trip", "trip", 1, (1, ""), retry=False, owner="")
    call = Call(txn, Scope.parse("room:/Ada"), Mode.EAGER, 3)
    assert c.encode([c.Seal(*c.plain([txn])), c.Seal(*c.plain([txn, True]))]) == (
        '[{"do":"seal","txn":7},{"do":"seal","txn":7,"hooked":true}]'
    )
    assert c.encode([c.Admit(*c.plain([call]))]) == '[{"do":"admit","call":[7,0,"room:/Ada",2,3,false,0,""]}]'


# ---- taking what others took


@pytest.mark.parametrize(("kind", "refusal"), [(kind, refusal) for kind in c.COMMANDS for refusal in kind.refusals])
def test_a_refusal_that_a_command_may_answer_with_lets_the_next_one_pass(kind, refusal):
    protocol, command = after(kind)
    raising(protocol, kind, refusal("no"))
    replay(protocol, [command, c.TellTime(77)], 2)
    assert protocol.time == 77


FAULTS = [InternalError("bug"), SettlemarkError("no"), AssertionError("x"), KeyError("x"), LedgerError("away")]


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", c.COMMANDS)
def test_any_other_error_stops_whoever_takes_it_and_says_where_and_what_to_do(kind, error):
    protocol, command = after(kind)
    raising(protocol, kind, error)
    time, first = protocol.time, c.SkipEpochs(1) if kind is not c.SkipEpochs else c.TellTime(protocol.time)
    with pytest.raises(InternalError) as stopped:
        replay(protocol, [first, command, c.TellTime(time + 1)], 9)
    said = str(stopped.value)
    assert said.startswith(f"command 2 of entry 9 of the log, {kind.__name__}, failed when applied here: ")
    assert "keep a copy of it" in said
    assert (stopped.value.__cause__, stopped.value.entry, protocol.time) == (error, 9, time)


@pytest.mark.parametrize("kind", [kind for kind in c.COMMANDS if not issubclass(StateError, kind.refusals)])
def test_a_refusal_of_another_command_stops_too(kind):
    protocol, command = after(kind)
    raising(protocol, kind, StateError("no"))
    with pytest.raises(InternalError, match="StateError: no"):
        replay(protocol, [command], 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Input data was truncated"),
        ("[{", "Input data was truncated"),
        ("{}", "Expected `array`"),
        ('[["seal",[{"t":1}],{}]]', "Expected `object`"),
        ('[{"do":"steal","txn":1}]', "Invalid value 'steal'"),
        ('[{"txn":1}]', "missing required field `do`"),
        ('[{"do":"seal"}]', "missing required field `txn`"),
        ('[{"do":"seal","txn":"1"}]', "Expected `int`"),
        ('[{"do":"seal","txn":1,"hoked":true}]', "unknown field `hoked`"),
        ('[{"do":"advance","scope":"nowhere","epoch":1}]', "has no type"),
        ('[{"do":"abort","txn":1,"reason":"tired","detail":{}}]', "Invalid enum value 'tired'"),
    ],
)
def test_an_entry_of_another_form_is_not_taken(text, told):
    with pytest.raises(InternalError, match="entry 4 of the log cannot be read: ") as refused:
        read(text, 4)
    assert told in str(refused.value)
    assert "keep a copy of it" in str(refused.value)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (c.Seal(c.TxnId(2)), "no transaction has had the number 2"),
        (
            c.Withdraw(c.CallRef(c.TxnId(1), 2, Scope.parse("room:/b"), Mode.READ)),
            "no call of trip has had the number 2",
        ),
    ],
)
def test_a_command_about_what_never_was_stops(command, told):
    protocol = Protocol()
    protocol.begin("trip")
    with pytest.raises(InternalError, match=told):
        replay(protocol, [command], 1)


def test_a_command_about_what_has_ended_moves_nothing():
    protocol = Protocol()
    protocol.journal = []
    protocol.abort(txn := protocol.begin("trip"), Reason.FAILED)
    protocol.abort(txn, Reason.STALE)
    other = Protocol()
    replay(other, protocol.journal, 1)
    assert (image(other), len(protocol.journal)) == (image(protocol), 3)


# ---- ledgers


def never_admitted(protocol, _book):
    txn = protocol.begin("trip")
    protocol.acted(protocol.request(txn, Scope.parse("room:/Ada"), Mode.EAGER), happened=True)


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_step_that_no_replica_could_take_again_is_told_and_nothing_of_it_stays(tmp_path, kind, told, caplog):
    url = "memory:" if kind == "memory" else f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = open_ledger(url)
    before = ledger.protocol.freeze()
    if told:
        with pytest.raises(InternalError, match="returned without having been admitted"):
            ledger.now(never_admitted)
    else:
        ledger.later(never_admitted)
    assert ledger.now(lambda protocol, _book: protocol.begin("next").name) == "next"
    assert list(ledger.protocol.named) == ["next"]
    if kind == "sqlite":
        other = open_ledger(url)
        assert list(other.protocol.named) == ["next"]
        other.close()
    ledger.now(lambda protocol, _book: protocol.abort(protocol.named["next"], Reason.FAILED))
    assert ledger.protocol.freeze() == before
    ledger.close()


def entry(path, steps):
    """Write an entry into the log of a file as another process would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        (number,) = connection.execute("UPDATE settlemark_head SET n = n + 1 RETURNING n").fetchone()
        connection.execute("INSERT INTO settlemark_log VALUES ('default', ?, 'another', ?)", (number, steps))
    return number


def rows(path):
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(f"SELECT * FROM settlemark_{table}").fetchall()
            for table in ("head", "log", "image", "transaction")
        ]


@pytest.mark.parametrize("steps", ['[{"do":"steal"}]', '[{"do":"seal","txn":99}]', '[["seal",[{"t":1}],{}]]'])
def test_an_entry_that_cannot_be_taken_stops_who_is_there_and_who_comes_and_nothing_is_lost(tmp_path, steps):
    path = tmp_path / "ledger.db"
    ledger = open_ledger(f"sqlite:///{path}")
    number = entry(path, steps)
    before = rows(path)
    for _ in range(2):
        with pytest.raises(LedgerError, match=f"entry {number} of (the|its) log"):
            ledger.now(lambda protocol, _book: protocol.begin("trip"))
    with pytest.raises(LedgerError, match=f"entry {number} of the log") as refused:
        open_ledger(f"sqlite:///{path}")
    assert isinstance(refused.value.__cause__, InternalError)
    assert rows(path) == before
    ledger.later(lambda protocol, _book: protocol.begin("later"))

    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE settlemark_log SET steps = '[]' WHERE n = ?", (number,))
    assert ledger.now(lambda protocol, _book: [*protocol.named]) == ["later"]
    ledger.close()
