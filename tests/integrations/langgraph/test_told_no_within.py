"""An agent that another's tool runs, and that a person tells no in its middle: it goes on as it would by itself."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from tests.integrations.contract.world import World, desk, turns, unaccounted, unfinished
from tests.integrations.langgraph.driver import GO, Script
from tests.integrations.langgraph.world import THREAD, answers

from settlemark import Settlement, effect
from settlemark_langgraph import SettlementMiddleware, reject

INNER = turns(
    [("book", "Ada"), ("pay", "ada")],
    [("look", "Ada"), ("mail", "ada")],
    [("book", "Bee"), ("pay", "bee")],
    [("book", "Dee"), ("mail", "dee")],
)
"""What the innermost agent does, turn by turn; a person is asked before it pays."""
OUTER, BETWEEN = turns([("task", "it"), ("book", "Cee")]), turns([("task", "it")])
NO = [("ada",), ("bee",), ("ada", "bee")]
"""The bills that a person says no to: the first turn's, the third's, or both."""


class OurGate:
    """The question is the tool's own: it is declared with `approve=True`."""

    def before(self, world):
        return desk(world), []

    def answer(self, question, no):
        return reject("too dear") if question["arguments"]["what"] in no else "approve"


class LangChains:
    """The question is LangChain's, which knows nothing of us."""

    def before(self, world):
        @effect("irreversible", scope="bill:/{what}")
        def pay(what: str) -> str:
            """Pay a bill."""
            return f"pay {what}: number {world.act(f'pay {what}')}"

        return [*desk(world)[:3], pay], [HumanInTheLoopMiddleware(interrupt_on={"pay": True})]

    def answer(self, question, no):
        (asked,) = question["action_requests"]
        said = {"type": "reject", "message": "too dear"} if asked["args"]["what"] in no else {"type": "approve"}
        return {"decisions": [said]}


def delegating(world, settlement, asks, *, deep, settle="node", told=None, script=OUTER):
    """Return the tools, the script and the middleware of an agent that has it done so many levels deep."""
    tools, before = asks.before(world)
    middleware = [SettlementMiddleware(settlement, settle=settle), *before]
    if deep == 0:
        return tools, INNER, middleware
    given = {"settle": settle, "told": told, "script": BETWEEN}
    inner = agent(*delegating(world, settlement, asks, deep=deep - 1, **given))

    def found(state):
        if told is not None and deep == 1:
            told[:] = answers(state)
        return f"level {deep} is done"

    def task(what: str) -> str:
        """Have it done."""
        return found(inner.invoke(GO))

    async def task_soon(what: str) -> str:
        """Have it done."""
        return found(await inner.ainvoke(GO))

    both = StructuredTool.from_function(task, coroutine=task_soon, name="task")
    return [both, *tools], script, middleware


def agent(tools, script, middleware, *, saver=None):
    known = [tool if isinstance(tool, StructuredTool) else _both(tool) for tool in tools]
    return create_agent(Script(turns=script, final="done"), known, middleware=middleware, checkpointer=saver)


def _both(function):
    async def coroutine(**arguments):
        return function(**arguments)

    return StructuredTool.from_function(function, coroutine=coroutine, name=function.__name__)


def to_its_end(built, invoke, asks, no, *, elsewhere=None):
    """Answer each question by itself, in a new process where one is given, and return the state and how many."""
    state, asked = invoke(built, GO, THREAD), 0
    while questions := state.get("__interrupt__"):
        asked += 1
        assert asked < 20
        built = built if elsewhere is None else elsewhere()
        given = {question.id: asks.answer(question.value, no) for question in questions}
        state = invoke(built, Command(resume=given), THREAD)
    return state, asked


def alone(asks, invoke, no, settle):
    """Return what the innermost agent does and is told by itself."""
    world = World()
    with Settlement("memory:") as settlement:
        built = agent(*delegating(world, settlement, asks, deep=0, settle=settle), saver=InMemorySaver())
        state, _ = to_its_end(built, invoke, asks, no)
    return world.standing(), [status for status, _ in answers(state)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("no", NO, ids="-".join)
@pytest.mark.parametrize("settle", ["node", "call", "run"])
@pytest.mark.parametrize("asks", [OurGate(), LangChains()], ids=lambda asks: type(asks).__name__)
@pytest.mark.parametrize("deep", [1, 2])
def test_an_agent_that_is_told_no_in_its_middle_goes_on_as_it_would_by_itself(
    settlement, invoke, deep, asks, settle, no
):
    world, told = World(), []
    built = agent(*delegating(world, settlement, asks, deep=deep, settle=settle, told=told), saver=InMemorySaver())

    state, asked = to_its_end(built, invoke, asks, no)

    stands, statuses = alone(asks, invoke, no, settle)
    assert asked == 2
    assert world.standing() == {**stands, "book Cee": 1}
    assert [status for status, _ in told] == statuses
    assert [status for status, _ in answers(state)] == ["success", "success"]
    assert not {f"pay {what}" for what in no}.intersection(world.log)
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("no", NO, ids="-".join)
@pytest.mark.parametrize("asks", [OurGate(), LangChains()], ids=lambda asks: type(asks).__name__)
@pytest.mark.parametrize("deep", [1, 2])
def test_an_agent_that_is_told_no_in_another_process_goes_on_there(tmp_path, invoke, deep, asks, no):
    url, world, saver, opened = f"sqlite:///{tmp_path / 'ledger.db'}", World(), InMemorySaver(), []

    def process():
        for before in opened:
            before.close()
        opened.append(Settlement(url))
        return agent(*delegating(world, opened[-1], asks, deep=deep), saver=saver)

    _, asked = to_its_end(process(), invoke, asks, no, elsewhere=process)

    stands, _ = alone(asks, invoke, no, "node")
    assert asked == 2
    assert world.standing() == {**stands, "book Cee": 1}
    assert not {f"pay {what}" for what in no}.intersection(world.log)
    assert (unaccounted(world, opened[-1]), unfinished(opened[-1]), opened[-1].residue()) == ([], [], [])
    opened[-1].close()
