"""A middleware that ends the run before a call comes to its tool fails the call's turn: no mail leaves such a run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel._runner import FuturesDict
from tests.integrations.langgraph.world import THREAD, answers, trip, turn
from tests.rooms.langgraph import ending

from settlemark import State
from settlemark_langgraph import SettlementMiddleware

TURN = [("book", {"hotel": "Ada"}), ("mail", {"to": "ada"}), ("rent", {"plate": "X"})]
GO = {"messages": [("human", "go")]}


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


class Guard(AgentMiddleware):
    """Does not let one tool be called, `times` times: it raises, or answers in the tool's place."""

    def __init__(self, tool, *, times=1, answer=None):
        super().__init__()
        self._tool, self._times, self._answer = tool, times, answer

    def _stop(self, request):
        if request.tool_call["name"] != self._tool or self._times == 0:
            return None
        self._times -= 1
        if self._answer is None:
            raise RuntimeError("not allowed")
        return ToolMessage(self._answer, tool_call_id=request.tool_call["id"])

    def wrap_tool_call(self, request, handler):
        return self._stop(request) or handler(request)

    async def awrap_tool_call(self, request, handler):
        return self._stop(request) or await handler(request)


@pytest.fixture(params=["guard first", "guard last"])
def agent(request, world, settlement):
    """Make an agent with a guard around the settlement, or within it."""

    def make(guard):
        ours = SettlementMiddleware(settlement)
        middleware = [guard, ours] if request.param == "guard first" else [ours, guard]
        model = Model(messages=iter([turn(*TURN), AIMessage("Done.")]))
        return create_agent(model, trip(world), middleware=middleware, checkpointer=InMemorySaver())

    return make


@pytest.mark.parametrize("tool", ["book", "mail", "rent"])
def test_a_middleware_that_raises_undoes_the_calls_beside(agent, world, settlement, invoke, tool):
    with pytest.raises(RuntimeError, match="not allowed"):
        invoke(agent(Guard(tool)), GO, THREAD)

    assert world.log in ([], ["book Ada", "cancel Ada"], ["book Ada", "rent X", "cancel Ada"])
    assert {each.state for each in settlement.transactions()} <= {State.ABORTED}


@pytest.mark.parametrize("tool", ["book", "mail", "rent"])
def test_a_middleware_that_answers_in_a_tools_place_lets_the_others_settle(agent, world, settlement, invoke, tool):
    told = answers(invoke(agent(Guard(tool, answer="I have done it")), GO, THREAD))

    done = {"book": "book Ada", "rent": "rent X", "mail": "mail ada"}  # what is irreversible leaves last
    assert world.log == [entry for name, entry in done.items() if name != tool]
    assert [text for _, text in told].count("I have done it") == 1
    assert [each.state for each in settlement.transactions()] == [State.COMMITTED]


@pytest.fixture
def late_writes(monkeypatch):
    """LangGraph writes what a call came to when its run waits for that, or else takes no more of it."""
    told = threading.Event()
    on_done, shutdown, wait = FuturesDict.on_done, ThreadPoolExecutor.shutdown, ending.wait

    def late(self, task, future):
        if task.name == "tools" and not told.is_set() and future.exception() is None:
            assert told.wait(60), "the run neither waited nor ended"
        on_done(self, task, future)

    def closing(self, wait=True, **options):
        if threading.current_thread() is threading.main_thread():
            shutdown(self, wait=False, **options)
            told.set()
        shutdown(self, wait=wait, **options)

    def waiting(futures):
        told.set()
        return wait(futures)

    monkeypatch.setattr(FuturesDict, "on_done", late)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", closing)
    monkeypatch.setattr(ending, "wait", waiting)


@pytest.mark.usefixtures("late_writes")
def test_a_resume_does_nothing_anew_that_was_answered_beside_a_call_that_raised(agent, world, settlement):
    graph = agent(Guard("rent"))
    with pytest.raises(RuntimeError, match="not allowed"):
        graph.invoke(GO, THREAD)
    undone = list(world.log)

    graph.invoke(None, THREAD)

    assert undone in ([], ["book Ada", "cancel Ada"])
    assert world.log == [*undone, "rent X"]  # the call that raised is the one that runs again: no half a turn
    assert {each.state for each in settlement.transactions()} == {State.ABORTED, State.COMMITTED}
