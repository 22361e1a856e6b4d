"""What waits for somebody outside ends the run with `DeferredToolRequests`; issuance order is kept until he answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pydantic_ai import (
    ApprovalRequired,
    CallDeferred,
    CombinedToolset,
    DeferredToolRequests,
    DeferredToolResults,
    ExternalToolset,
    FunctionToolset,
    ModelRetry,
    RunContext,
    ToolApproved,
    ToolDenied,
    ToolFailed,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.tools import ToolDefinition
from tests.integrations.contract.world import desk, turns, unaccounted, unfinished
from tests.integrations.pydantic_ai.world import agent, answers, texts

from settlemark import Refused, Settlement, UsageError, effect
from settlemark_pydantic_ai import Settled

SCRIPT = turns([("book", "Ada"), ("pay", "hotel"), ("mail", "ada")])
IN_ORDER = ["book Ada", "pay hotel", "mail ada"]
HAPPENED = ["book Ada: number 1", "pay hotel: number 2", "mail ada: number 3"]


def clean(world, settlement):
    return unaccounted(world, settlement) == [] and unfinished(settlement) == []


def asked(result):
    """What somebody outside is asked: tools, by the kind of the question."""
    requests = result.output
    assert isinstance(requests, DeferredToolRequests)
    return [call.tool_name for call in requests.approvals], [call.tool_name for call in requests.calls]


def answered(**answers):
    """An answer for the calls with these ids of the first turn, by tool and place: `pay_1=True`."""
    ids = {f"call-0-{name.rpartition('_')[2]}": answer for name, answer in answers.items()}
    return DeferredToolResults(approvals=ids)


async def again(clerk, result, results):
    return await clerk.run(message_history=result.all_messages(), deferred_tool_results=results)


# ---- the ways in which a call comes to wait


def declared(world):
    return desk(world)


def required(world):
    """`requires_approval=True`: the framework puts it aside itself, and runs the others first."""

    @effect("irreversible", scope="bill:/{what}")
    def pay(what: str) -> str:
        return f"pay {what}: number {world.act(f'pay {what}')}"

    toolset = FunctionToolset([tool for tool in desk(world) if tool.__name__ != "pay"])
    toolset.add_function(pay, requires_approval=True)
    return toolset


def by_a_toolset(world):
    plain = FunctionToolset([tool for tool in desk(world) if tool.__name__ != "pay"])

    @plain.tool_plain
    @effect("reversible", scope="bill:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    def pay(what: str) -> str:
        return f"pay {what}: number {world.act(f'pay {what}')}"

    return plain.approval_required(lambda ctx, tool_def, args: tool_def.name == "pay")


def by_a_toolset_as_it_leaves(world):
    """What is irreversible is known to need a yes before anything is decided, whatever its toolset is wrapped in."""
    renamed = FunctionToolset()

    @renamed.tool_plain
    @effect("irreversible", scope="bill:/{what}")
    def settle(what: str) -> str:
        return f"pay {what}: number {world.act(f'pay {what}')}"

    def asks(ctx, tool_def, args):
        return (ctx.tool_name, tool_def.name, args["what"], ctx.tool_call_id) == (
            "settle",
            "settle",
            "hotel",
            "call-0-1",
        )

    rest = FunctionToolset([tool for tool in desk(world) if tool.__name__ != "pay"])
    return CombinedToolset([renamed.approval_required(asks).prefixed("my").renamed({"pay": "my_settle"}), rest])


def in_its_body(world):
    @effect("reversible", scope="bill:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    def pay(ctx: RunContext, what: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"why": "dear"})
        return f"pay {what}: number {world.act(f'pay {what}')}"

    return [*(tool for tool in desk(world) if tool.__name__ != "pay"), pay]


def in_its_body_as_it_leaves(world):
    """Whether what is irreversible asks turns out as it is to leave, when all before it is decided."""

    @effect("irreversible", scope="bill:/{what}")
    def pay(ctx: RunContext, what: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"why": "dear"})
        return f"pay {what}: number {world.act(f'pay {what}')}"

    return [*(tool for tool in desk(world) if tool.__name__ != "pay"), pay]


def by_its_arguments(world):
    """A validator asks: the framework never comes to the tool."""

    def check(ctx: RunContext, what: str) -> None:
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    @effect("irreversible", scope="bill:/{what}")
    def pay(ctx: RunContext, what: str) -> str:
        return f"pay {what}: number {world.act(f'pay {what}')}"

    toolset = FunctionToolset([tool for tool in desk(world) if tool.__name__ != "pay"])
    toolset.add_function(pay, args_validator=check)
    return toolset


BEFORE = [declared, required, by_a_toolset, by_a_toolset_as_it_leaves, in_its_body, by_its_arguments]
WAYS = pytest.mark.parametrize("way", [*BEFORE, in_its_body_as_it_leaves], ids=lambda way: way.__name__)
IN_TIME = pytest.mark.parametrize("way", BEFORE, ids=lambda way: way.__name__)


def clerk_with(way, world, settlement, script=SCRIPT, **options):
    found = way(world)
    given = {"tools": found} if isinstance(found, list) else {"toolsets": [found]}
    more = options.pop("capabilities", ())
    return agent(script, **given, capabilities=[Settled(settlement, **options), *more])


@WAYS
async def test_no_call_behind_one_that_waits_acts_before_it_is_answered_and_then_all_do_in_order(
    world, settlement, way
):
    clerk = clerk_with(way, world, settlement)

    first = await clerk.run("go")

    assert asked(first) == (["pay"], [])
    assert world.log == ["book Ada"]
    assert texts(first) == ["book Ada: number 1"]

    last = await again(clerk, first, answered(pay_1=True))

    assert (last.output, texts(last), world.log) == ("done", HAPPENED, IN_ORDER)
    assert clean(world, settlement)


@IN_TIME
async def test_a_no_undoes_the_turn_and_the_model_is_told_so_of_each_call(world, settlement, way):
    clerk = clerk_with(way, world, settlement)
    first = await clerk.run("go")

    last = await again(clerk, first, answered(pay_1=ToolDenied("too dear")))

    assert world.log == ["book Ada", "cancel Ada"]
    booked, paid, mailed = answers(last)
    assert booked[0] == "failed"
    assert booked[1].startswith("undone: book had succeeded, and was undone because pay")
    assert paid == ("denied", "too dear")
    assert mailed[0] == "failed"
    assert "mail was not run" in mailed[1]
    assert clean(world, settlement)


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_no_to_what_asks_as_it_leaves_drops_it_and_what_was_behind_it_and_what_had_settled_stays(
    world, tmp_path, elsewhere
):
    """Its question comes when the turn is decided: a transaction of its own waits for the answer."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Settlement(url, wait=600) as here, Settlement(url, wait=600) as there:
        first = await clerk_with(in_its_body_as_it_leaves, world, here).run("go")
        assert (asked(first), world.log, texts(first)) == ((["pay"], []), ["book Ada"], ["book Ada: number 1"])
        assert first.output.metadata == {"call-0-1": {"why": "dear"}}

        clerk = clerk_with(in_its_body_as_it_leaves, world, there if elsewhere else here)
        last = await again(clerk, first, answered(pay_1=ToolDenied("too dear")))

        assert world.log == ["book Ada"]
        booked, paid, mailed = answers(last)
        assert (booked, paid) == (("success", "book Ada: number 1"), ("denied", "too dear"))
        assert (mailed[0], "mail was not run" in mailed[1]) == ("failed", True)
        assert clean(world, here)


async def test_what_asks_twice_as_it_leaves_is_asked_twice_and_leaves_once(world, settlement):
    @effect("irreversible", scope="bill:/{what}")
    def pay(ctx: RunContext, what: str) -> str:
        if len(asks) < 2:
            asks.append(ctx.tool_call_approved)
            raise ApprovalRequired
        return f"pay {what}: number {world.act(f'pay {what}')}"

    asks = []
    clerk = agent(
        SCRIPT,
        [*(tool for tool in desk(world) if tool.__name__ != "pay"), pay],
        capabilities=[Settled(settlement, run="trip")],
    )
    first = await clerk.run("go")
    second = await again(clerk, first, answered(pay_1=True))
    assert (asked(second), world.log) == ((["pay"], []), ["book Ada"])
    last = await again(clerk, second, answered(pay_1=True))

    assert (asks, texts(last), world.log) == ([False, True], HAPPENED, IN_ORDER)
    assert clean(world, settlement)


@pytest.mark.parametrize("settle", ["agent", "run"])
async def test_what_settles_as_a_whole_and_asks_as_it_leaves_can_ask_nobody_and_all_of_it_is_undone(
    world, settlement, settle
):
    clerk = clerk_with(in_its_body_as_it_leaves, world, settlement, settle=settle, run="trip")

    with pytest.raises(Exception, match="ApprovalRequired|was undone"):
        await clerk.run("go")

    assert world.log == ["book Ada", "cancel Ada"]
    assert clean(world, settlement)


@WAYS
async def test_with_other_arguments_the_call_happens_with_these(world, settlement, way):
    clerk = clerk_with(way, world, settlement)
    first = await clerk.run("go")

    last = await again(clerk, first, answered(pay_1=ToolApproved(override_args={"what": "half"})))

    assert world.log == ["book Ada", "pay half", "mail ada"]
    assert texts(last) == ["book Ada: number 1", "pay half: number 2", "mail ada: number 3"]
    assert clean(world, settlement)
    (paid,) = [e for found in settlement.transactions() for e in found.effects if e.result and "pay half" in e.result]
    assert paid.row.arguments == '{"what":"half"}'


@pytest.mark.parametrize(("elsewhere", "paid"), [(None, "hotel"), ({"what": "half"}, "half")])
@pytest.mark.parametrize("here", [True, ToolApproved(override_args={"what": "third"})], ids=["a yes", "others"])
async def test_what_was_approved_elsewhere_before_is_what_happens_and_what_is_on_record(
    world, settlement, elsewhere, paid, here
):
    clerk = clerk_with(declared, world, settlement)
    first = await clerk.run("go")
    (question,) = settlement.approvals()
    await settlement.aapprove(question.key, by="ada", arguments=elsewhere)

    last = await again(clerk, first, answered(pay_1=here))

    assert world.log == ["book Ada", f"pay {paid}", "mail ada"]
    assert texts(last) == ["book Ada: number 1", f"pay {paid}: number 2", "mail ada: number 3"]
    acted = [e for found in settlement.transactions() for e in found.effects if e.result and "pay" in e.result]
    assert [effect.row.arguments for effect in acted] == [f'{{"what":"{paid}"}}']
    assert clean(world, settlement)


async def test_arguments_from_elsewhere_that_the_tool_does_not_take_run_nothing(world, settlement):
    clerk = clerk_with(declared, world, settlement)
    first = await clerk.run("go")
    (question,) = settlement.approvals()
    await settlement.aapprove(question.key, by="ada", arguments={"what": {"no": "text"}})

    last = await again(clerk, first, answered(pay_1=True))

    assert world.log == ["book Ada", "cancel Ada"]
    assert answers(last)[1] == ("failed", "UsageError: pay does not take {'what': {'no': 'text'}}; nothing was run")
    assert clean(world, settlement)


@WAYS
async def test_in_a_new_process_the_message_history_is_all_that_is_needed(world, tmp_path, way):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Settlement(url, wait=600) as settlement:
        first = await clerk_with(way, world, settlement).run("go")
        history = first.all_messages_json()
        assert asked(first) == (["pay"], [])
    with Settlement(url, wait=600) as settlement:
        clerk = clerk_with(way, world, settlement)
        last = await clerk.run(
            message_history=ModelMessagesTypeAdapter.validate_json(history), deferred_tool_results=answered(pay_1=True)
        )
        assert (texts(last), world.log) == (HAPPENED, IN_ORDER)
        assert clean(world, settlement)


@IN_TIME
@pytest.mark.parametrize("yes", [True, False])
async def test_a_handler_may_answer_during_the_run(world, settlement, way, yes):
    requested = []

    def handle(ctx, requests):
        requested.append(sorted(call.tool_name for call in requests.approvals))
        answer = True if yes else ToolDenied("too dear")
        return requests.build_results(
            approvals={c.tool_call_id: answer for c in requests.approvals if c.tool_name == "pay"}
        )

    clerk = clerk_with(way, world, settlement, capabilities=[HandleDeferredToolCalls(handle)])
    result = await clerk.run("go")

    assert requested == [["mail", "pay"]]  # it is shown what waits behind, and need not say anything of it
    assert result.output == "done"
    assert world.log == (IN_ORDER if yes else ["book Ada", "cancel Ada"])
    outcomes = sorted(outcome for outcome, _ in answers(result))
    assert outcomes == (["success"] * 3 if yes else ["denied", "failed", "failed"])
    assert clean(world, settlement)


# ---- who is asked, and about what


async def test_what_is_asked_says_what_the_call_would_do(world, settlement):
    first = await clerk_with(declared, world, settlement, run="trip-42").run("go")

    metadata = first.output.metadata["call-0-1"]
    assert (
        metadata["would"]
        == 'pay would act on bill:/hotel with what="hotel" when its step settles; that cannot be undone'
    )
    assert (metadata["rationale"], metadata["transaction"]) == ("I act.", "trip-42/clerk/0")
    assert list(first.output.metadata) == ["call-0-1"]


async def test_the_metadata_of_a_tools_own_question_is_its_own(world, settlement):
    first = await clerk_with(in_its_body, world, settlement).run("go")

    assert first.output.metadata == {"call-0-1": {"why": "dear"}}


async def test_an_answer_that_is_missing_is_an_error_as_with_stock_and_nothing_acts(world, settlement):
    clerk = clerk_with(declared, world, settlement)
    first = await clerk.run("go")

    with pytest.raises(UserError, match="need to be provided for all deferred tool calls"):
        await again(clerk, first, answered(mail_2=True))

    assert world.log == ["book Ada"]


def tipping(world):
    @effect("reversible", scope="tip:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    def tip(ctx: RunContext, what: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return str(world.act(f"tip {what}"))

    return tip


@pytest.mark.parametrize("yes", [True, False])
async def test_a_call_behind_a_gated_one_that_asks_in_its_own_body_asks_with_it_and_what_is_held_waits_for_both(
    world, settlement, yes
):
    clerk = agent(
        turns([("pay", "hotel"), ("tip", "porter"), ("mail", "ada")]),
        [*desk(world), tipping(world)],
        capabilities=[Settled(settlement)],
    )

    first = await clerk.run("go")
    assert (asked(first), world.log) == ((["pay", "tip"], []), [])
    await again(clerk, first, answered(pay_0=True, tip_1=yes))

    assert world.log == (["tip porter", "pay hotel", "mail ada"] if yes else [])
    assert clean(world, settlement)


async def test_with_order_issued_what_asks_in_its_own_body_behind_a_gated_one_asks_when_that_has_left_and_then_leaves(
    world, settlement
):
    """A yes to one call is none to another that waited behind it."""
    clerk = agent(
        turns([("pay", "hotel"), ("tip", "porter"), ("mail", "ada")]),
        [*desk(world), tipping(world)],
        capabilities=[Settled(settlement, order="issued")],
    )

    first = await clerk.run("go")
    assert (asked(first), world.log) == ((["pay"], []), [])
    second = await again(clerk, first, answered(pay_0=True))
    assert (asked(second), world.log) == ((["tip"], []), ["pay hotel"])
    last = await again(clerk, second, answered(tip_1=True))

    assert world.log == ["pay hotel", "tip porter", "mail ada"]
    assert [outcome for outcome, _ in answers(last)] == ["success"] * 3
    assert clean(world, settlement)


SIX = turns([("book", "Ada"), ("pay", "a"), ("book", "Bo"), ("pay", "b"), ("mail", "ada"), ("pay", "c")])


@pytest.mark.parametrize("park", ["keep", "split"])
@pytest.mark.parametrize("where", ["here", "in a new process"])
@pytest.mark.parametrize("way", [declared, required, by_a_toolset, by_its_arguments], ids=lambda way: way.__name__)
async def test_all_questions_of_a_turn_are_asked_at_once_each_under_its_calls_id(world, tmp_path, way, where, park):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    script = [
        [replace(call, arguments={"what": f"hotel {call.id}"}) if call.tool == "pay" else call for call in SIX[0]]
    ]
    with Settlement(url, wait=600) as here, Settlement(url, wait=600) as there:
        first = await clerk_with(way, world, here, script=script, park=park, run="trip").run("go")
        assert [call.tool_call_id for call in first.output.approvals] == ["call-0-1", "call-0-3", "call-0-5"]
        # What acts at once need not wait for what is held: it comes behind that which acts at once itself.
        assert world.log == (["book Ada"] if way is by_a_toolset else ["book Ada", "book Bo"])

        clerk = clerk_with(way, world, here if where == "here" else there, script=script, park=park, run="trip")
        last = await again(clerk, first, answered(pay_1=True, pay_3=True, pay_5=True))

        assert (last.output, [outcome for outcome, _ in answers(last)]) == ("done", ["success"] * 6)
        assert sorted(world.log) == sorted(
            ["book Ada", "book Bo", "mail ada", *(f"pay hotel call-0-{n}" for n in (1, 3, 5))]
        )
        assert [entry for entry in world.log if entry.startswith("pay")] == [f"pay hotel call-0-{n}" for n in (1, 3, 5)]
        assert clean(world, here)


@pytest.mark.parametrize("no", [1, 2])
async def test_a_no_to_one_of_the_questions_of_a_turn_undoes_all(world, settlement, no):
    clerk = agent(turns([("book", "Ada"), ("pay", "a"), ("pay", "b")]), desk(world), capabilities=[Settled(settlement)])

    first = await clerk.run("go")
    assert [call.tool_call_id for call in first.output.approvals] == ["call-0-1", "call-0-2"]
    last = await again(clerk, first, answered(pay_1=no != 1, pay_2=no != 2))

    assert world.log == ["book Ada", "cancel Ada"]
    assert last.output == "done"
    assert [outcome for outcome, _ in answers(last)] == [
        "failed",
        *(["denied", "failed"] if no == 1 else ["failed", "denied"]),
    ]
    assert clean(world, settlement)


@pytest.mark.parametrize("first_answer", [1, 2])
async def test_one_of_two_questions_may_be_answered_elsewhere_and_is_used_once(world, settlement, first_answer):
    clerk = agent(turns([("pay", "a"), ("pay", "b")]), desk(world), capabilities=[Settled(settlement, run="trip")])
    first = await clerk.run("go")
    questions = settlement.approvals()
    assert [question.arguments for question in questions] == [{"what": "a"}, {"what": "b"}]
    await settlement.aapprove(questions[first_answer - 1].key, by="ada", arguments={"what": "half"})

    await again(clerk, first, answered(pay_0=True, pay_1=True))

    assert world.log == (["pay half", "pay b"] if first_answer == 1 else ["pay a", "pay half"])
    assert clean(world, settlement)


async def test_a_read_does_not_wait_for_an_answer(world, settlement):
    clerk = agent(turns([("pay", "hotel"), ("look", "Ada")]), desk(world), capabilities=[Settled(settlement)])

    first = await clerk.run("go")

    assert texts(first) == ["look Ada: number 1"]
    assert asked(first) == (["pay"], [])


async def test_with_the_order_of_scopes_what_overlaps_no_question_acts_at_once(world, settlement):
    clerk = agent(
        turns([("pay", "hotel"), ("book", "Ada")]), desk(world), capabilities=[Settled(settlement, order="scopes")]
    )

    first = await clerk.run("go")
    assert (world.log, texts(first)) == (["book Ada"], ["book Ada: number 1"])
    last = await again(clerk, first, answered(pay_0=True))

    assert world.log == ["book Ada", "pay hotel"]
    assert texts(last) == ["book Ada: number 1", "pay hotel: number 2"]
    assert clean(world, settlement)


async def test_what_is_settled_before_an_answer_may_be_split_off(world, settlement):
    clerk = clerk_with(declared, world, settlement, park="split")

    first = await clerk.run("go")
    committed = [found.state.value for found in settlement.transactions() if found.row.name.endswith("/0")]
    last = await again(clerk, first, answered(pay_1=True))

    assert committed == ["committed"]
    assert (texts(last), world.log) == (HAPPENED, IN_ORDER)
    assert clean(world, settlement)


# ---- what waits with all that settles together

TOGETHER = turns([("book", "Ada")], [("pay", "hotel")], [("mail", "ada")])
WHOLE = pytest.mark.parametrize("settle", ["agent", "run"])
NAMED = pytest.mark.parametrize("run", ["trip", None])


@WHOLE
@NAMED
async def test_what_settles_as_a_whole_stays_open_for_an_answer_and_leaves_with_the_run_that_brings_it(
    world, settlement, settle, run
):
    clerk = clerk_with(declared, world, settlement, script=TOGETHER, settle=settle, run=run)
    first = await clerk.run("go")
    assert (asked(first), world.log) == ((["pay"], []), ["book Ada"])

    last = await again(clerk, first, DeferredToolResults(approvals={"call-1-0": True}))

    assert (last.output, world.log) == ("done", IN_ORDER)
    assert clean(world, settlement)


@WHOLE
async def test_a_no_to_what_settles_as_a_whole_undoes_all_of_it(world, settlement, settle):
    clerk = clerk_with(declared, world, settlement, script=TOGETHER, settle=settle, run="trip")
    first = await clerk.run("go")

    await again(clerk, first, DeferredToolResults(approvals={"call-1-0": ToolDenied("too dear")}))

    assert world.log == ["book Ada", "cancel Ada", "mail ada"]  # the model's next turn is told, and begins anew
    assert clean(world, settlement)


async def test_a_no_to_the_last_call_of_a_turn_undoes_the_turn(world, settlement):
    clerk = clerk_with(declared, world, settlement, script=turns([("book", "Ada"), ("pay", "hotel")]))
    first = await clerk.run("go")

    await again(clerk, first, answered(pay_1=ToolDenied("too dear")))

    assert world.log == ["book Ada", "cancel Ada"]
    assert clean(world, settlement)


@WHOLE
async def test_a_question_outlasts_answers_that_the_framework_refuses(world, settlement, settle):
    clerk = clerk_with(declared, world, settlement, script=TOGETHER, settle=settle, run="trip")
    first = await clerk.run("go")
    with pytest.raises(UserError, match="need to be provided for all deferred tool calls"):
        await again(clerk, first, DeferredToolResults(approvals={"call-1-7": True}))
    assert world.log == ["book Ada"]

    await again(clerk, first, DeferredToolResults(approvals={"call-1-0": True}))

    assert world.log == IN_ORDER
    assert clean(world, settlement)


@WHOLE
async def test_a_job_that_is_held_stays_open_for_an_answer_behind_its_end(world, settlement, settle):
    async with Settled(settlement, run="trip", settle=settle) as settled:
        clerk = agent(TOGETHER, desk(world), capabilities=[settled])
        first = await clerk.run("go")
    assert world.log == ["book Ada"]

    await again(clerk, first, DeferredToolResults(approvals={"call-1-0": True}))

    assert world.log == IN_ORDER
    assert clean(world, settlement)


async def test_two_runs_of_one_agent_that_wait_at_a_time_each_get_their_own_answer(world, settlement):
    settled, met = Settled(settlement, run="trip", settle="agent"), asyncio.Barrier(2)

    @effect("read")
    async def meet(what: str) -> str:
        await met.wait()
        return what

    clerks = [
        agent(turns([("meet", who), ("book", who)], [("pay", who)]), [*desk(world), meet], capabilities=[settled])
        for who in ("Ada", "Bo")
    ]
    ada, bo = await asyncio.gather(*(clerk.run("go") for clerk in clerks))
    with pytest.raises(Refused, match="book on room:/Bo"):  # all of what was to settle with it is undone
        await again(clerks[1], bo, DeferredToolResults(approvals={"call-1-0": ToolDenied("no")}))
    await again(clerks[0], ada, DeferredToolResults(approvals={"call-1-0": True}))

    assert world.standing() == {"book Ada": 1, "pay Ada": 1}
    assert clean(world, settlement)


@WHOLE
@NAMED
async def test_another_process_refuses_an_answer_to_what_settles_as_a_whole_and_nothing_acts(
    world, tmp_path, settle, run
):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Settlement(url, wait=600) as settlement:
        clerk = clerk_with(declared, world, settlement, script=TOGETHER, settle=settle, run=run)
        first = await clerk.run("go")
    before = list(world.log)
    with Settlement(url, wait=600) as settlement:
        clerk = clerk_with(declared, world, settlement, script=TOGETHER, settle=settle, run=run)
        with pytest.raises(UsageError, match='answered in another process only with settle="turn"'):
            await again(clerk, first, DeferredToolResults(approvals={"call-1-0": True}))
        assert world.log == before


# ---- calls that somebody outside carries out


def with_external(world, settlement):
    schema = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    elsewhere = ExternalToolset([ToolDefinition(name="sign", parameters_json_schema=schema)])
    return agent(
        turns([("book", "Ada"), ("sign", "form"), ("mail", "ada")]),
        desk(world),
        toolsets=[elsewhere],
        capabilities=[Settled(settlement)],
    )


def with_deferred(world, settlement):
    @effect("idempotent", scope="form:/{what}")
    def sign(what: str) -> str:
        raise CallDeferred(metadata={"task": 7})

    return agent(
        turns([("book", "Ada"), ("sign", "form"), ("mail", "ada")]),
        [*desk(world), sign],
        capabilities=[Settled(settlement)],
    )


ELSEWHERE = pytest.mark.parametrize("made", [with_external, with_deferred], ids=lambda made: made.__name__)


@ELSEWHERE
async def test_a_call_that_is_carried_out_elsewhere_keeps_its_place_in_the_order(world, settlement, made):
    clerk = made(world, settlement)

    first = await clerk.run("go")
    assert asked(first) == ([], ["sign"])
    assert world.log == ["book Ada"]
    last = await again(clerk, first, DeferredToolResults(calls={"call-0-1": "signed"}))

    assert texts(last) == ["book Ada: number 1", "signed", "mail ada: number 2"]
    assert world.log == ["book Ada", "mail ada"]
    assert clean(world, settlement)


@ELSEWHERE
@pytest.mark.parametrize("failure", [ToolFailed("no ink"), ModelRetry("which form?")])
async def test_one_that_failed_elsewhere_undoes_its_turn(world, settlement, made, failure):
    clerk = made(world, settlement)
    first = await clerk.run("go")

    last = await again(clerk, first, DeferredToolResults(calls={"call-0-1": failure}))

    assert world.log == ["book Ada", "cancel Ada"]
    booked, signed, mailed = answers(last)
    assert "undone: book had succeeded" in booked[1]
    assert failure.message in signed[1]
    assert "mail was not run" in mailed[1]
    assert clean(world, settlement)


async def test_with_stock_what_was_issued_behind_a_question_happens_before_it_is_answered(world):
    clerk = agent(SCRIPT, toolsets=[required(world)])

    first = await clerk.run("go")

    assert asked(first) == (["pay"], [])
    assert sorted(world.log) == ["book Ada", "mail ada"]
