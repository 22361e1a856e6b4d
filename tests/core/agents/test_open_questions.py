"""A shim asks the record which questions to a person are open; what it kept of them itself may be obsolete."""

from __future__ import annotations

import asyncio

import pytest

from settlemark.agents import AgentRun, open_questions, run_async, run_sync

BOOK, PAY = ("book", {"room": "1"}), ("pay", {"amount": 800})
ID = "call-7"


class Waits(Exception):
    """The framework stops here until a person answers."""


@pytest.fixture
def settlement(office):
    office.pay = lambda amount: office.act("pay", str(amount))
    with office.settlement() as settlement:
        settlement.declare("pay", "irreversible", scope="money:/", approve=True, function=office.pay)
        yield settlement


@pytest.fixture
def asked(office, settlement):
    """Have an agent's turn put aside with a question, and return the question's key."""

    async def asked(run="trip", work="clerk", **options):
        keys = []

        def ask(gate):
            keys.append(gate.key)
            raise Waits

        job = AgentRun(settlement, run, let_through=(Waits,), asks=True, **options)
        turn = job.work(work).turn(office.calls(settlement, BOOK, PAY, ids=["call-6", ID]))
        booked, stopped = await asyncio.gather(
            run_async(turn.perform(0, lambda: office.book("1"))),
            run_async(turn.perform(1, lambda: office.pay(800), ask=ask)),
            return_exceptions=True,
        )
        assert (booked, type(stopped)) == ("book 1", Waits)
        turn.abandon(Waits())
        return keys[0]

    return asked


def found(settlement, *keys, run="trip"):
    return run_sync(open_questions(settlement, run, keys))


async def test_a_question_is_open_under_its_key_with_the_call_that_it_is_about(office, settlement, asked):
    key = await asked()
    (question,) = found(settlement, key, "trip#1/9").values()

    assert list(found(settlement, key)) == [key]
    assert (question.key, question.transaction, question.answered) == (key, "trip/clerk/0", False)
    assert (question.is_of("trip", "clerk"), question.is_of("trip", ""), question.is_of("tour", "clerk")) == (
        True,
        False,
        False,
    )
    assert question.is_about(ID, *PAY)
    assert office.log == [("book", "1")]


@pytest.mark.parametrize(
    "call",
    [
        ("call-8", *PAY),
        (ID, "book", PAY[1]),
        (ID, "pay", {"amount": 801}),
        (ID, "pay", {}),
        (ID, "pay", {"amount": b""}),
    ],
)
async def test_a_question_is_about_no_other_call(settlement, asked, call):
    key = await asked()
    assert not found(settlement, key)[key].is_about(*call)


async def test_the_question_of_another_job_is_not_found(settlement, asked):
    key = await asked()
    assert found(settlement, key, run="tour") == {}


@pytest.mark.parametrize(("answer", "because"), [("aapprove", {}), ("areject", {"because": "too dear"})])
async def test_a_question_that_was_answered_elsewhere_is_found_without_its_key(settlement, asked, answer, because):
    key = await asked()
    before = found(settlement)
    await getattr(settlement, answer)(key, by="ada", **because)

    assert before == {}
    assert {key: question.answered for key, question in found(settlement).items()} == {key: True}


async def test_a_question_whose_turn_was_undone_is_not_open(office, settlement, asked):
    key = await asked()
    await settlement.acancel("trip")

    assert found(settlement, key) == {}
    assert office.log == [("book", "1"), ("unbook", "1")]


async def test_a_question_that_was_split_off_is_found_by_the_key_it_was_asked_under(office, settlement, asked):
    key = await asked(park="split")
    questions = found(settlement, key)

    assert {asked: (question.transaction, question.key == key) for asked, question in questions.items()} == {
        key: ("trip/clerk/0!1", False)
    }
    assert questions[key].is_of("trip", "clerk")
    assert questions[key].is_about(ID, *PAY)
    assert office.log == [("book", "1")]


async def test_each_of_two_questions_about_one_tool_that_were_split_off_together_is_told_under_its_own_key(
    office, settlement
):
    keys = []

    def ask(gate):
        keys.append(gate.key)
        raise Waits

    job = AgentRun(settlement, "trip", let_through=(Waits,), park="split", asks=True, asks_together=True)
    more = ("pay", {"amount": 90})
    turn = job.work("clerk").turn(office.calls(settlement, BOOK, PAY, more))
    acts = [lambda: office.book("1"), lambda: office.pay(800), lambda: office.pay(90)]
    await asyncio.gather(
        *(run_async(turn.perform(place, act, ask=ask)) for place, act in enumerate(acts)), return_exceptions=True
    )
    turn.abandon(Waits())

    questions = found(settlement, *keys)
    about = [[question.is_about(None, *pay) for pay in (PAY, more)] for question in questions.values()]
    assert (list(questions), about) == (keys, [[True, False], [False, True]])
    assert len({question.key for question in questions.values()}) == 2
