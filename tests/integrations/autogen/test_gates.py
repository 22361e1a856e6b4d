"""A call that needs a person's yes acts as it was approved, or not at all."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.conditions import HandoffTermination, TextMessageTermination
from autogen_agentchat.messages import HandoffMessage
from autogen_agentchat.teams import Swarm
from tests.integrations.autogen.world import Scripted, answers, soon, turn

from settlemark import Settlement, UsageError, effect
from settlemark.agents import AgentRun
from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench, approve, edit, reject

PAY = turn(("book", {"hotel": "Ada"}), ("pay", {"amount": 800}), ("mail", {"to": "a"}))


def desk(world, *, kind="irreversible"):
    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: world.act(f"cancel {hotel}"))
    async def book(hotel: str) -> str:
        """Book a room."""
        world.act(f"book {hotel}")
        return "booked"

    @effect(kind, scope="money:/{purpose}", approve=lambda amount: amount >= 500)
    def pay(amount: int, purpose: str = "deposit") -> str:
        """Pay."""
        world.act(f"pay {amount} {purpose}")
        return f"paid {amount}"

    @effect("irreversible", scope="mail:/{to}")
    async def mail(to: str) -> str:
        """Send a mail."""
        world.act(f"mail {to}")
        return "sent"

    return [book, pay, mail]


def played(world, settlement, *, both=True, kind="irreversible", message=PAY, **options):
    workbench = SettledWorkbench(desk(world, kind=kind), settlement, run="trip-42", unsettled="allow", **options)
    model = Scripted(message)
    client = SettledChatCompletionClient(model, settlement) if both else model
    return AssistantAgent("agent", client, workbench=workbench, max_tool_iterations=3)


class Person:
    """Answers what it is asked, when it is let."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []
        self.may = asyncio.Event()
        self.may.set()

    async def __call__(self, gate):
        self.asked.append((gate.tool, dict(gate.arguments), gate.would))
        await self.may.wait()
        return self.answer


@pytest.mark.parametrize("kind", ["irreversible", "idempotent"])
@pytest.mark.parametrize("asks", ["settlement", "workbench"])
async def test_an_approved_call_acts_as_it_was_shown_and_nothing_issued_after_it_acts_before(world, kind, asks):
    person = Person(approve())
    person.may.clear()
    options = {"approver": person} if asks == "workbench" else {}
    with Settlement("memory:", approver=person if asks == "settlement" else None) as settlement:
        job = asyncio.create_task(played(world, settlement, kind=kind, **options).run(task="go"))
        await soon(lambda: person.asked)
        before = list(world.log)
        person.may.set()
        result = await job

    assert before == ["book Ada"]
    assert world.log == ["book Ada", "pay 800 deposit", "mail a"]
    assert answers(result) == [(False, "booked"), (False, "paid 800"), (False, "sent")]
    ((tool, arguments, would),) = person.asked
    assert (tool, arguments) == ("pay", {"amount": 800})
    assert "pay would act on money:/deposit" in would


@pytest.mark.parametrize("both", [True, False], ids=["both", "workbench alone"])
async def test_a_rejected_call_never_acts_and_the_model_is_told_why(world, settlement, both):
    result = await played(world, settlement, both=both, approver=Person(reject("too much"))).run(task="go")

    assert answers(result)[1][0]
    assert "pay was rejected by a human: too much" in answers(result)[1][1]
    assert world.log == (["book Ada", "cancel Ada"] if both else ["book Ada", "mail a"])


async def test_an_edited_call_acts_with_the_arguments_it_was_given(world, settlement):
    result = await played(world, settlement, approver=Person(edit({"amount": 300, "purpose": "rent"}))).run(task="go")

    assert world.log == ["book Ada", "pay 300 rent", "mail a"]
    assert answers(result)[1] == (False, "paid 300")


@pytest.mark.parametrize("given", [{"amount": "much"}, {"amount": 1, "to": "me"}])
async def test_an_edit_that_the_tool_cannot_take_is_asked_about_again_with_what_was_wrong(world, settlement, given):
    asked = []

    def person(gate):
        asked.append(gate.error)
        return edit(given) if gate.error is None else reject()

    await played(world, settlement, approver=person).run(task="go")

    (first, again) = asked
    assert first is None
    assert "pay does not take" in again
    assert "nothing was run" in again
    assert world.log == ["book Ada", "cancel Ada"]


async def test_what_needs_no_yes_asks_nobody(world, settlement):
    person = Person(reject())
    message = turn(("pay", {"amount": 100}))

    await played(world, settlement, approver=person, message=message).run(task="go")

    assert (person.asked, world.log) == ([], ["pay 100 deposit"])


async def test_with_nobody_to_ask_nothing_runs_and_it_says_what_to_give(world, settlement):
    result = await played(world, settlement).run(task="go")

    assert world.log == []
    assert all("there is nobody to ask" in text for _, text in answers(result))
    assert "approver=" in answers(result)[1][1]


# ---- questions that are handed off


def team(world, settlement, model):
    workbench = SettledWorkbench(desk(world), settlement, run="trip-42", unsettled="allow", approver="handoff")
    client = SettledChatCompletionClient(model, settlement)
    booker = AssistantAgent(
        "booker", client, workbench=workbench, handoffs=[Handoff(target="person")], max_tool_iterations=4
    )
    return workbench, Swarm(
        [booker], termination_condition=HandoffTermination("person") | TextMessageTermination("booker")
    )


ASKS = (PAY, turn(("transfer_to_person", {}), ids=["call-9"]))


def the_answer():
    return HandoffMessage(content="I have answered.", source="person", target="booker")


@pytest.mark.parametrize("another_process", [False, True])
@pytest.mark.parametrize(
    ("answer", "acts", "told_of_pay"),
    [
        (approve(), ["pay 800 deposit", "mail a"], "paid 800"),
        (edit({"amount": 300}), ["pay 300 deposit", "mail a"], "paid 300"),
        (reject("too much"), ["cancel Ada"], "pay was rejected by a human: too much"),
    ],
    ids=["approve", "edit", "reject"],
)
async def test_a_question_that_is_handed_off_stops_the_team_and_its_answer_goes_on_with_the_turn(
    world, tmp_path, another_process, answer, acts, told_of_pay
):
    with ExitStack() as open_ones:

        def settled():
            return open_ones.enter_context(Settlement(f"sqlite:///{tmp_path / 'ledger.db'}"))

        model = Scripted(*ASKS, ASKS[0])
        workbench, played = team(world, settled(), model)
        stopped = await played.run(task="go")
        (question,) = workbench.questions
        before = list(world.log)
        if another_process:
            state = await played.save_state()
            open_ones.close()
            workbench, played = team(world, settled(), model)
            await played.load_state(state)
        workbench.answer(question.key, answer)
        model.turns = ASKS[:2]
        result = await played.run(task=the_answer())

    assert isinstance(stopped.messages[-1], HandoffMessage)
    assert (question.tool, dict(question.arguments), before) == ("pay", {"amount": 800}, ["book Ada"])
    assert "pay waits for a person's yes, and has not run" in answers(stopped)[1][1]
    assert world.log == ["book Ada", *acts]
    assert told_of_pay in answers(result)[1][1]
    assert workbench.questions == []
    assert result.messages[-1].content == "done"


async def test_while_nobody_answers_nothing_acts_and_the_model_is_asked_as_ever(world, tmp_path):
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        model = Scripted(*ASKS)
        workbench, played = team(world, settlement, model)
        await played.run(task="go")
        result = await played.run(task=the_answer())

    assert world.log == ["book Ada"]
    assert [question.tool for question in workbench.questions] == ["pay"]
    assert result.messages[-1].content == "done"


async def test_an_answer_that_is_none_is_refused_and_the_question_stands(world, tmp_path):
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        workbench, played = team(world, settlement, Scripted(*ASKS))
        await played.run(task="go")

        with pytest.raises(UsageError, match="is not a decision"):
            workbench.answer(workbench.questions[0].key, "perhaps")

    assert [question.tool for question in workbench.questions] == ["pay"]
    assert world.log == ["book Ada"]


def alone(world, settlement, *, kind="irreversible", message=PAY, run="trip-42", **options):
    """An agent that hands off, outside of a team; its workbench, and its model."""
    workbench = SettledWorkbench(desk(world, kind=kind), settlement, run=run, approver="handoff", **options)
    model = Scripted(message)
    client = SettledChatCompletionClient(model, settlement)
    return workbench, model, AssistantAgent("booker", client, workbench=workbench, max_tool_iterations=4)


async def test_a_question_that_was_answered_takes_no_second_answer_and_nothing_acts_twice(world, settlement):
    workbench, model, booker = alone(world, settlement)
    await booker.run(task="go")
    (question,) = workbench.questions
    workbench.answer(question.key, approve())
    await booker.run(task="answered")
    done, asked = list(world.log), len(model.requests)

    with pytest.raises(UsageError, match="there is no open question about") as refused:
        workbench.answer(question.key, approve())
    result = await booker.run(task="something new")

    assert refused.value.key == question.key
    assert world.log == done == ["book Ada", "pay 800 deposit", "mail a"]
    assert (answers(result), workbench.questions, len(model.requests) - asked) == ([], [], 1)


async def test_what_is_answered_at_the_settlement_alone_goes_on_with_the_turn_and_is_no_question_any_more(
    world, settlement, caplog
):
    workbench, model, booker = alone(world, settlement)
    await booker.run(task="go")
    (question,) = workbench.questions
    await settlement.aapprove(question.key, by="ada")
    asked, standing = len(model.requests), workbench.questions
    result = await booker.run(task="well?")

    assert (standing, workbench.questions, len(model.requests) - asked) == ([], [], 1)
    assert world.log == ["book Ada", "pay 800 deposit", "mail a"]
    assert answers(result) == [(False, "booked"), (False, "paid 800"), (False, "sent")]
    assert caplog.messages == []


async def test_an_answer_that_comes_behind_one_at_the_settlement_changes_nothing_and_that_is_said(
    world, settlement, caplog
):
    workbench, _, booker = alone(world, settlement)
    await booker.run(task="go")
    (question,) = workbench.questions
    await settlement.areject(question.key, because="too dear", by="ada")
    workbench.answer(question.key, approve())
    result = await booker.run(task="well?")

    assert world.log == ["book Ada", "cancel Ada"]
    assert "pay was rejected by a human: too dear" in answers(result)[1][1]
    assert [text for text in caplog.messages if "was answered already, by ada: reject" in text] != []


async def test_an_answer_at_the_settlement_is_no_other_agents_and_no_other_jobs(world, settlement):
    workbench, _, booker = alone(world, settlement, agent="clerk")
    await booker.run(task="go")
    await settlement.aapprove(workbench.questions[0].key, by="ada")
    for others in ({"run": "trip-43", "agent": "clerk"}, {"agent": "cashier"}):
        _, model, other = alone(world, settlement, message=turn(("mail", {"to": "b"})), **others)
        await other.run(task="go")
        assert len(model.requests) == 2

    assert world.log == ["book Ada", "mail b", "mail b"]
    assert [question.tool for question in settlement.approvals()] == ["pay"]


@pytest.mark.parametrize("run", ["trips/42", "trip 42!1"])
@pytest.mark.parametrize("agent", [None, "the clerk/2"])
async def test_an_answer_finds_its_turn_whatever_the_job_and_the_agent_are_called(world, settlement, run, agent):
    workbench, _, booker = alone(world, settlement, run=run, agent=agent)
    await booker.run(task="go")
    workbench.answer(workbench.questions[0].key, approve())
    await booker.run(task="answered")

    assert (world.log, workbench.questions) == (["book Ada", "pay 800 deposit", "mail a"], [])


async def test_the_last_answer_before_the_turn_goes_on_is_the_one_that_counts(world, settlement):
    workbench, _, booker = alone(world, settlement)
    await booker.run(task="go")
    (question,) = workbench.questions
    workbench.answer(question.key, approve())
    workbench.answer(question.key, reject("too much"))
    await booker.run(task="answered")

    assert (world.log, workbench.questions) == (["book Ada", "cancel Ada"], [])


@pytest.mark.parametrize("key", ["trip-42/0#1/0:call-0", "trip-42/0#2/1:call-1", "trip-43/0#1/1:call-1", "pay"])
async def test_an_answer_that_nobody_asked_for_is_refused_and_the_question_stands(world, settlement, key):
    workbench, model, booker = alone(world, settlement)
    await booker.run(task="go")
    questions, asked = workbench.questions, len(model.requests)

    with pytest.raises(UsageError, match="there is no open question about"):
        workbench.answer(key, approve())
    result = await booker.run(task="well?")

    assert (answers(result), world.log, len(model.requests) - asked) == ([], ["book Ada"], 1)
    assert workbench.questions == questions


async def test_an_answer_whose_turn_was_undone_meanwhile_is_let_go_of_and_the_model_is_asked_as_ever(world, settlement):
    workbench, model, booker = alone(world, settlement)
    await booker.run(task="go")
    (question,) = workbench.questions
    workbench.answer(question.key, approve())
    settlement.cancel("trip-42")
    asked = len(model.requests)
    result = await booker.run(task="answered")

    assert (answers(result), workbench.questions, len(model.requests) - asked) == ([], [], 1)
    assert "pay 800 deposit" not in world.log
    assert "mail a" not in world.log


@pytest.mark.parametrize("park", ["keep", "split"])
@pytest.mark.parametrize("kind", ["irreversible", "idempotent"])
@pytest.mark.parametrize("answered", ["together", "one by one"])
async def test_all_questions_of_a_turn_are_asked_at_once_and_it_acts_in_its_order_however_they_are_answered(
    world, settlement, kind, park, answered
):
    message = turn(
        ("book", {"hotel": "Ada"}),
        ("pay", {"amount": 800}),
        ("pay", {"amount": 900, "purpose": "rent"}),
        ("mail", {"to": "a"}),
    )
    workbench, _, booker = alone(world, settlement, kind=kind, message=message, park=park)
    result = await booker.run(task="go")
    assert [question.arguments["amount"] for question in workbench.questions] == [800, 900]
    assert world.log == ["book Ada"]
    for _ in range(1 if answered == "together" else 2):
        for question in workbench.questions if answered == "together" else workbench.questions[:1]:
            workbench.answer(question.key, approve())
        result = await booker.run(task="answered")

    assert workbench.questions == []
    assert world.log == ["book Ada", "pay 800 deposit", "pay 900 rent", "mail a"]
    assert answers(result) == [(False, "booked"), (False, "paid 800"), (False, "paid 900"), (False, "sent")]


@pytest.mark.parametrize("no", [0, 1])
async def test_a_no_to_one_of_the_questions_of_a_turn_undoes_all_of_it(world, settlement, no):
    message = turn(("book", {"hotel": "Ada"}), ("pay", {"amount": 800}), ("pay", {"amount": 900, "purpose": "rent"}))
    workbench, _, booker = alone(world, settlement, kind="irreversible", message=message)
    await booker.run(task="go")
    for number, question in enumerate(workbench.questions):
        workbench.answer(question.key, reject("too dear") if number == no else approve())
    await booker.run(task="answered")

    assert world.log == ["book Ada", "cancel Ada"]
    assert workbench.questions == []


def test_to_hand_off_takes_an_id_for_the_job(world, settlement):
    with pytest.raises(UsageError, match='approver="handoff" needs run='):
        SettledWorkbench(desk(world), settlement, approver="handoff")
    with pytest.raises(UsageError, match='approver="handoff" needs run='):
        SettledWorkbench(desk(world), settlement, approver="handoff", run=AgentRun(settlement, "trip-42"))
