"""What a job recalls of an earlier beginning: which call repeats what was decided, and which is another one."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from settlemark import InDoubt, Refused, Scope
from settlemark.agents import Call, DoneBefore
from settlemark.agents._record.recalled import Decision, Left, Recalled


@pytest.fixture
def call(settlement):
    """Return a function that makes a call of the room booking, or of another tool."""

    def call(room="1", tool="book", call_id=None):
        return Call(tool, {"room": room}, settlement.declared(tool), call_id)

    return call


def decision(room="1", tool="book", call_id=None, key=None, outcome="confirmed", answer=None):
    def answered(_call, _unpack):
        if isinstance(answer, Exception):
            raise answer
        return answer

    said = json.dumps({"room": room}, separators=(",", ":"))
    scopes = (Scope.parse(f"room:/{room}"),)
    return Decision(tool, call_id, key or f"trip#1/{room}", scopes, said.__eq__, said, outcome, answered)


def claimed(recalled, *calls, on="1", **options):
    return recalled.claim([(each, [Scope.parse(f"room:/{on}")]) for each in calls], **options)


def test_a_decision_answers_one_call_and_the_next_equal_one_is_new(call):
    first = decision()
    recalled = Recalled([first])
    assert claimed(recalled, call(), call(), on="9") == [first, None]
    assert claimed(recalled, call(), on="9") == [None]


def test_of_equal_decisions_that_with_the_calls_own_id_is_taken_and_else_the_oldest(call):
    first, second, third = decision(key="a"), decision(key="b", call_id="id-2"), decision(key="c")
    assert claimed(Recalled([first, second, third]), call(call_id="id-2"), call(), call()) == [second, first, third]
    assert claimed(Recalled([decision(key="a", call_id="id-1"), third]), call(call_id="id-9"))[0].key == "a"


@pytest.mark.parametrize("error", [InDoubt("who knows", tool="book"), Refused("no")])
def test_what_is_in_doubt_or_was_refused_fails_each_call_that_repeats_it(call, error):
    recalled = Recalled([decision(outcome="unknown", answer=error)])
    assert claimed(recalled, call(), call()) == [error, error]


def test_an_error_that_says_nothing_of_the_act_is_no_refusal(call):
    failing = decision(answer=OSError("no disk"))
    with pytest.raises(OSError, match="no disk"):
        failing.refusal(call())
    assert decision(answer="booked").refusal(call()) is None


def test_the_same_act_in_other_words_is_told_once_with_both_and_done_when_it_is_asked_for_again(call):
    known = decision("2")
    recalled = Recalled([known])
    (told,) = claimed(recalled, call("two"), on="2")
    assert isinstance(told, DoneBefore)
    assert (told.key, told.recorded, told.given) == (
        "trip#1/2",
        {"tool": "book", "arguments": '{"room":"2"}'},
        {"tool": "book", "arguments": {"room": "two"}},
    )
    assert claimed(recalled, call("two"), on="2") == [None]
    assert claimed(Recalled([decision("2")]), call("two"), on="3") == [None]
    assert claimed(Recalled([decision("2", tool="look")]), call("two"), on="2") == [None]


def test_what_another_call_of_the_turn_repeats_is_not_taken_for_this_one_in_other_words(call):
    known = decision("2")
    assert claimed(Recalled([known]), call("two"), call("2"), on="2") == [None, known]


def test_a_tool_is_known_by_the_names_that_it_had(settlement, call):
    settlement.declare("reserve", "reversible", scope="room:/{room}", undo=print, aliases=["book"])
    known = decision()
    assert claimed(Recalled([known]), call(tool="reserve")) == [known]
    (told,) = claimed(Recalled([decision("2")]), call("two", tool="reserve"), on="2")
    assert told.recorded["tool"] == "book"


def test_what_a_program_issues_is_answered_each_time_and_is_never_another_in_other_words(call):
    known = decision()
    recalled = Recalled([known, decision("2")])
    assert claimed(recalled, call(), call("two"), call(), on="2", once=True) == [known, None, known]
    doubt = InDoubt("who knows", tool="book")
    assert claimed(Recalled([decision(answer=doubt)]), call(), once=True) == [doubt]


def test_what_a_call_has_claimed_and_lets_go_is_there_for_the_next(call):
    known, alike = decision(), decision("2")
    recalled = Recalled([known, alike])
    recalled.let_go(claimed(recalled, call())[0])
    assert claimed(recalled, call()) == [known]
    (told,) = claimed(recalled, call("two"), on="2")
    for other in (None, Refused("no"), DoneBefore("other", key="trip#1/9", recorded={}, given={})):
        recalled.let_go(other)
    assert claimed(recalled, call("two"), on="2") == [None]
    recalled.let_go(told)
    assert isinstance(claimed(recalled, call("two"), on="2")[0], DoneBefore)


def test_calls_are_a_repetition_when_each_has_a_decision_of_its_own_and_asking_takes_none(call):
    recalled = Recalled([decision(key="a"), decision(key="b"), decision("2")])
    assert [recalled.repeats(each) for each in ([], [call()], [call(), call("2"), call()])] == [True] * 3
    assert not recalled.repeats([call(), call(), call()])
    assert not recalled.repeats([call("3"), call()])
    assert [each.claimed for each in recalled.decisions] == [False] * 3


def test_a_decision_is_known_once_by_its_key(call):
    recalled = Recalled([decision(key="a")])
    recalled.add([decision("9", key="a"), decision("2", key="b")])
    assert [each.key for each in recalled.decisions] == ["a", "b"]
    assert recalled.decisions[0].shown == '{"room":"1"}'


def untrue(call_id="id-1", tool="book", room="1"):
    said = json.dumps({"room": room}, separators=(",", ":"))
    return SimpleNamespace(call_id=call_id, tool=tool), said.__eq__, f"{tool} {room} was undone"


def test_of_an_answer_that_was_undone_since_its_very_call_is_told(call):
    recalled = Recalled([decision("7", call_id="id-7")], untrue=[untrue(), untrue("id-7"), untrue(None)])
    answered = {
        0: call(call_id="id-1"),
        1: call(call_id="id-2"),
        2: call("2", call_id="id-1"),
        3: call(tool="look", call_id="id-1"),
        4: call(),
        5: call(call_id="id-7"),  # done again, under its id
    }
    assert recalled.undone_of(answered) == {0: "book 1 was undone"}


def left(*effects, parked=False, scopes=("room:/1",)):
    rows = [
        SimpleNamespace(
            row=SimpleNamespace(
                decision=path,
                tool=tool,
                arguments=json.dumps({"room": room}, separators=(",", ":")),
                fingerprint="",
                key="",
            )
        )
        for path, tool, room in effects
    ]
    payloads = SimpleNamespace(plain=True, same=lambda *_, **__: False)
    return Left("trip/0", rows, payloads, "trip/0", tuple(map(Scope.parse, scopes)), parked)


def test_of_a_turn_that_was_left_it_is_known_what_it_had_not_begun_to_do(call):
    first, second, third = calls = [call("1"), call("2"), call("3")]
    assert left(((1,), "book", "2")).rest_of(calls) == [first, third]
    assert left(((0,), "book", "1"), ((0, 0), "look", "9"), ((2,), "book", "3")).rest_of(calls) == [second]
    assert left(*(((place,), "book", str(place + 1)) for place in range(3))).rest_of(calls) == []


@pytest.mark.parametrize(
    "effect", [((3,), "book", "1"), ((0,), "look", "1"), ((0,), "book", "2"), ((0, 0), "book", "1")]
)
def test_a_turn_that_was_left_with_other_calls_or_with_none_is_not_gone_on_with(call, effect):
    assert left(effect).rest_of([call("1"), call("2"), call("3")]) is None


def test_a_turn_is_gone_on_with_by_its_calls_unless_one_of_the_others_was_decided_before(call):
    turn = left(((0,), "book", "1"))
    assert Recalled([decision("1")]).goes_on(turn, [call("1"), call("2")])
    assert not Recalled([decision("2")]).goes_on(turn, [call("1"), call("2")])
    assert not Recalled([]).goes_on(turn, [call("3")])


def test_what_nobody_ends_is_in_the_way_of_calls_on_its_scopes_and_what_waits_for_a_person_is_not():
    here, elsewhere = [Scope.parse("room:/9"), Scope.parse("room:/1/bed")], [Scope.parse("room:/2")]
    held = ("room:/5", "room:/1")
    assert left(scopes=held).is_in_the_way_of(here)
    assert not left(scopes=held).is_in_the_way_of(elsewhere)
    assert not left(scopes=held, parked=True).is_in_the_way_of(here)
