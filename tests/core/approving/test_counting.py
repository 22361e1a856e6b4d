"""A question by itself: until when it stands, who may answer and is told, and what one more answer comes to."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.rooms.lifecycle import ApprovalRecord, ApprovalState, Count, Refusal, Vote, count

from settlemark import Approval, Escalation, UsageError

ASKED = ApprovalRecord(
    "k", ApprovalState.WAITING, "d", {"usd": "7"}, 100.0, by=("ada",), deadline=200.0, remind=30.0,
    escalate=((("cfo", "ada"), 150.0), (("ceo",), 170.0)),
)  # fmt: skip # a table of values
ANYONE = ApprovalRecord("k", ApprovalState.WAITING, "d", {}, 100.0)
BOARD = replace(ANYONE, by=("ada", "role:board"), quorum=2)
ENDED = [state for state in ApprovalState if state is not ApprovalState.WAITING]
CENTURY = 100 * 365 * 86_400.0


def vote(by, decision="approve", *roles, digest="d", at=110.0):
    return Vote(by, roles, decision, digest, at)


# ---- time


def test_it_stands_until_its_deadline_and_is_late_from_then_on_unless_it_has_ended():
    assert [ASKED.is_late(at) for at in (199.9, 200.0, 200.1)] == [False, True, True]
    assert not any(replace(ASKED, state=state).is_late(300.0) for state in ENDED)
    assert not ANYONE.is_late(1e9)


def test_it_is_due_at_its_deadline_while_it_waits():
    assert (ASKED.due, ANYONE.due) == (200.0, None)
    assert [replace(ASKED, state=state).due for state in ENDED] == [None] * len(ENDED)


def test_who_it_is_escalated_to_may_answer_too_from_that_moment_on_and_each_is_named_once():
    assert [ASKED.may_answer(at) for at in (149.9, 150.0, 169.9, 170.0)] == [
        ("ada",),
        ("ada", "cfo"),
        ("ada", "cfo"),
        ("ada", "cfo", "ceo"),
    ]
    assert replace(ASKED, by=()).may_answer(180.0) == ()  # anyone may, later no fewer


def test_there_is_something_to_tell_at_once_at_each_step_and_each_reminder_and_nothing_from_the_deadline_on():
    told = {
        None: 100.0,
        100.0: 130.0,
        129.9: 130.0,
        130.0: 150.0,
        150.0: 160.0,
        160.0: 170.0,
        170.0: 190.0,
        190.0: None,
    }
    assert {at: replace(ASKED, told=at).next_telling() for at in told} == told
    assert replace(ASKED, told=190.0, deadline=None).next_telling() == 220.0
    assert replace(ASKED, told=150.0, remind=50.0, escalate=()).next_telling() is None  # it would be the deadline
    assert [replace(ASKED, told=at, remind=None).next_telling() for at in (100.0, 150.0, 170.0)] == [150.0, 170.0, None]
    assert [replace(ASKED, state=state).next_telling() for state in ENDED] == [None] * len(ENDED)


def test_who_is_told_what_by_a_time():
    def to_tell(told, at):
        return replace(ASKED, told=told).to_tell(at)

    assert [to_tell(None, at) for at in (99.9, 200.0)] == [[], []]
    assert [to_tell(None, at) for at in (100.0, 150.0)] == [[("asked", ("ada",))], [("asked", ("ada", "cfo"))]]
    assert [to_tell(100.0, at) for at in (129.9, 130.0)] == [[], [("reminded", ("ada",))]]
    first, second = ("escalated", ("cfo", "ada")), ("escalated", ("ceo",))
    assert [to_tell(130.0, at) for at in (149.9, 150.0, 169.9, 170.0)] == [[], [first], [first], [first, second]]
    assert [to_tell(150.0, at) for at in (160.0, 170.0)] == [[("reminded", ("ada", "cfo"))], [second]]
    assert (to_tell(170.0, 199.9), to_tell(170.0, 200.0)) == ([("reminded", ("ada", "cfo", "ceo"))], [])


def test_it_is_told_whole_as_json():
    whole = replace(
        ASKED,
        told=100.0,
        votes=(Vote("ada", ("board",), "approve", "d", 110.0, "cheap"),),
        refused=(Refusal("eve", "none of them", 105.0),),
        policy=("v7", "digest"),
        round=2,
    )
    assert whole.to_json() == {
        "state": "waiting", "digest": "d", "spends": {"usd": "7"}, "asked": 100.0, "by": ["ada"], "quorum": 1,
        "deadline": 200.0, "remind": 30.0, "told": 100.0, "round": 2, "policy": "v7",
        "escalate": [{"to": ["cfo", "ada"], "at": 150.0}, {"to": ["ceo"], "at": 170.0}],
        "answers": [
            {"by": "ada", "roles": ["board"], "decision": "approve", "digest": "d", "at": 110.0, "because": "cheap"},
        ],
        "refused": [{"by": "eve", "why": "none of them", "at": 105.0}],
    }  # fmt: skip # a table
    assert ANYONE.to_json()["policy"] is None


# ---- answers


def test_a_yes_without_a_name_counts_where_anyone_may_answer_and_a_no_without_one_everywhere():
    assert count(ANYONE, vote(None)) == count(BOARD, vote(None, "reject")) == Count(decided=True)
    assert count(BOARD, vote(None)).refused == "nobody says who answers: it has to be one of ada, role:board"
    assert count(replace(ANYONE, quorum=2), vote(None)).refused == (
        "nobody says who answers: it has to be somebody with a name"
    )
    assert count(replace(BOARD, quorum=1), vote(None)).refused.startswith("nobody says who answers")


def test_who_may_answer_is_who_is_named_or_has_a_role_that_is():
    one = replace(BOARD, quorum=1)
    assert [count(one, each) for each in (vote("ada"), vote("bo", "approve", "staff", "board"))] == [
        Count(decided=True)
    ] * 2
    for by, roles in (("eve", ()), ("eve", ("staff",)), ("role:board", ()), ("board", ())):
        refused = count(one, vote(by, "approve", *roles)).refused
        assert refused == f"{by} is none of those who may answer: ada, role:board"
    assert count(ANYONE, vote("eve")) == Count(decided=True)


def test_who_it_is_escalated_to_is_refused_a_moment_before():
    assert count(ASKED, vote("cfo", at=149.9)).refused == "cfo is none of those who may answer: ada"
    assert count(ASKED, vote("cfo", at=150.0)) == Count(decided=True)


def test_one_person_counts_once_however_the_name_is_written():
    given = replace(BOARD, votes=(vote("Cy ", "approve", "board"),))
    assert count(given, vote("cy", "approve", "board")) == Count(news=False, more=1)
    assert count(given, vote("ada")) == Count(decided=True)


def test_who_has_answered_otherwise_has_answered_already():
    given = replace(BOARD, votes=(vote("ada"),))
    for again in (vote("ada", "reject"), vote("ada", "edit"), vote("ada", digest="other")):
        assert count(given, again) == Count("ada has answered already: approve")


def test_one_no_is_enough_and_is_no_news_the_second_time():
    assert count(BOARD, vote("ada", "reject")) == Count(decided=True)
    assert count(replace(BOARD, votes=(vote("ada", "reject"),)), vote("ada", "reject")) == Count(
        decided=True, news=False
    )


def test_so_many_different_people_have_to_say_yes_to_the_same_arguments():
    board = replace(BOARD, quorum=3)
    first = vote("bo", "approve", "board")
    assert count(board, vote("ada")) == Count(more=2)
    assert count(replace(board, votes=(first,)), vote("ada")) == Count(more=1)
    assert count(replace(board, votes=(first, vote("cy", "edit", "board"))), vote("ada")) == Count(decided=True)
    for other in (vote("cy", "edit", "board", digest="other"), vote("cy", "reject", "board")):
        assert count(replace(board, votes=(first, other)), vote("ada")) == Count(more=1)
    enough = (first, vote("cy", "approve", "board"), vote("di", "approve", "board"))
    assert count(replace(board, votes=enough), vote("ada")) == Count(decided=True)


def test_an_answer_after_which_nobody_could_make_up_the_number_is_refused_and_a_no_or_the_same_is_not():
    pair = replace(ASKED, by=("ada", "bo"), quorum=2, escalate=(), votes=(vote("ada", "edit", digest="other"),))
    refused = "nobody would be left to make 2 who say the same: say what others have said, or no"
    assert count(pair, vote("bo")) == Count(refused, more=1)
    assert count(pair, vote("bo", "edit", digest="other")) == Count(decided=True)
    assert count(pair, vote("bo", "reject")) == Count(decided=True)
    assert count(replace(pair, by=("ada", "bo", "cy")), vote("bo")) == Count(more=1)
    assert count(replace(pair, escalate=((("cfo",), 150.0),)), vote("bo")) == Count(more=1)
    assert count(replace(pair, by=("ada", "bo", "role:board")), vote("bo")) == Count(more=1)
    assert count(replace(pair, by=()), vote("bo")) == Count(more=1)


# ---- what may be asked for


def test_a_quorum_is_of_one_person_to_sixty_four():
    assert [Approval(quorum=many).quorum for many in (1, 64)] == [1, 64]
    for many in (0, 65, True, 1.0, "2"):
        with pytest.raises(UsageError, match="give how many people have to say yes, 1 to 64"):
            Approval(quorum=many)


def test_a_quorum_that_those_who_may_answer_can_never_be_is_refused():
    assert Approval(by=("ada", "bo"), quorum=2).names == ("ada", "bo")
    assert Approval(by=("ada", "role:board"), quorum=3).quorum == 3
    for by in ("ada", ("ada", "Ada ")):
        with pytest.raises(UsageError, match="alone may answer: name more, or a role"):
            Approval(by=by, quorum=2)


def test_a_time_is_more_than_nothing_and_at_most_a_century():
    for seconds in (math.ulp(0.0), 1, CENTURY):
        asked = Approval(within=seconds, remind=seconds)
        assert (asked.within, asked.remind, Escalation("cfo", seconds).after) == (seconds, seconds, seconds)
        assert (type(asked.within), Approval(escalate=Escalation("cfo", seconds)).steps[0].after) == (float, seconds)
    for seconds in (0, -1.0, math.nextafter(CENTURY, math.inf), math.inf, math.nan, True, "7"):
        for options in ({"within": seconds}, {"remind": seconds}, {"escalate": Escalation("cfo", seconds)}):
            with pytest.raises(UsageError, match="give seconds"):
                Approval(**options)


def test_it_is_escalated_before_it_is_a_no_the_earliest_first():
    steps = (Escalation("ceo", 9.5), Escalation(("cfo", "role:board", "cfo"), 5))
    assert Approval(within=10, escalate=steps).steps == (
        Escalation(("cfo", "role:board"), 5.0),
        Escalation(("ceo",), 9.5),
    )
    with pytest.raises(UsageError, match="is escalated after 10 s, and is a no after within=10 s: escalate it earlier"):
        Approval(within=10, escalate=Escalation("cfo", 10))
    assert Approval(escalate=Escalation("cfo", 10)).within is None


def test_names_are_names_up_to_sixty_four_of_them():
    many = tuple(f"n{number}" for number in range(65))
    assert Approval(by=many[:64]).names == many[:64]
    for options, wrong in (
        ({"by": many}, "by= of an Approval has 65 names: 64 are the most; use a role"),
        ({"by": ("ada", "role:")}, "by= of an Approval has a role without a name"),
        ({"by": 7}, "by= of an Approval is 7: give a name"),
        ({"by": {"ada": 1}}, "by= of an Approval is"),
        ({"by": b"ada"}, "by= of an Approval is"),
        ({"escalate": Escalation((), 5)}, "escalate= of an Approval names nobody"),
        ({"escalate": ("cfo",)}, "escalate='cfo' of an Approval"),
        ({"escalate": (Escalation("cfo", 5),) * 65}, "escalate= of an Approval has 65 steps: 64 are the most"),
        ({"when": "always"}, "when='always' of an Approval: give a function"),
    ):
        with pytest.raises(UsageError, match=wrong):
            Approval(**options)
    assert len(Approval(escalate=(Escalation("cfo", 5),) * 64).steps) == 64
