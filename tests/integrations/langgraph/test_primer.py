"""LangGraph: the model of a thread that is taken up again is told what the record says; the thread stays as it is."""

from __future__ import annotations

import asyncio

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from settlemark import Settlement, effect
from settlemark_langgraph import SettlementMiddleware

THREAD = {"configurable": {"thread_id": "trip-42"}}
DONE = "Done, and not to be done again:"


class Model(BaseChatModel):
    """Calls `mail` once, and keeps what it was told."""

    seen: list

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        self.seen.append(messages)
        if any(isinstance(message, AIMessage) for message in messages):
            answer = AIMessage("done")
        else:
            answer = AIMessage("", tool_calls=[{"name": "mail", "args": {"to": "ada"}, "id": "call-1"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


@pytest.fixture
def model():
    return Model(seen=[])


@pytest.fixture
def agent(model):
    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Send a mail."""
        return "sent"

    def made(prompt=None, **options):
        with_it = SettlementMiddleware(settlement, primer=True)
        return create_agent(model, [mail], middleware=[with_it], system_prompt=prompt, **options)

    with Settlement("memory:", wait=20) as settlement:
        yield made


def systems(model):
    return [[m.content for m in messages if isinstance(m, SystemMessage)] for messages in model.seen]


def go(agent, *, by="invoke", config=THREAD):
    given = {"messages": [HumanMessage("go")]}
    return agent.invoke(given, config) if by == "invoke" else asyncio.run(agent.ainvoke(given, config))


@pytest.mark.parametrize("by", ["invoke", "ainvoke"])
def test_each_request_of_a_later_invocation_is_told_behind_its_system_message_and_none_of_the_first(agent, model, by):
    made = agent("Be kind.", checkpointer=InMemorySaver())
    go(made, by=by)
    assert systems(model) == [["Be kind."], ["Be kind."]]
    state = go(made, by=by)
    ((told,),) = systems(model)[2:]
    assert told.startswith("Be kind.\n\nYou take up the job trip-42 again.")
    assert DONE in told
    assert not any(DONE in str(message.content) for message in state["messages"])


def test_a_system_message_in_blocks_keeps_them(agent, model):
    made = agent(SystemMessage([{"type": "text", "text": "Be kind."}]), checkpointer=InMemorySaver())
    go(made)
    go(made)
    blocks = systems(model)[2][0]
    assert [block["type"] for block in blocks] == ["text", "text"]
    assert (blocks[0]["text"], DONE in blocks[1]["text"]) == ("Be kind.", True)


def test_an_agent_without_a_thread_is_told_nothing(agent, model):
    made = agent()
    go(made, config={})
    go(made, config={})
    assert systems(model) == [[]] * 4
