"""Sixteen ways in which agents are put together, each a graph that runs: six share a channel, ten do not.

The susceptible ones come in two forms: two nodes write what they share, or one writes it and the other reads it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send

from settlemark import effect
from settlemark_langgraph import SequencedToolNode

ACTED: list[str] = []
"""Which nodes have acted, in the outside world, whatever became of the run."""


def acts(name):
    ACTED.append(name)


class Shared(TypedDict, total=False):
    goal: str
    verdict: str
    cell: str
    seen: str


class OnlyGoal(TypedDict):
    goal: str


class OnlyCell(TypedDict):
    cell: str


class OnlySeen(TypedDict):
    seen: str


def write_left(state: OnlyGoal):
    acts("left")
    return {"cell": "left's"}


def write_right(state: OnlyGoal):
    acts("right")
    return {"cell": "right's"}


def read_right(state: OnlyCell):
    acts("right")
    return {"seen": state["cell"]}


def right(writers):
    return write_right if writers == 2 else read_right


def shared(left, right):
    builder = StateGraph(Shared)
    builder.add_node("left", left)
    builder.add_node("right", right)
    return builder


# ---- susceptible


def hierarchical_teams(writers):
    def team(lead, takes, gives):
        inner = StateGraph(Shared, input_schema=takes, output_schema=gives)
        inner.add_node("lead", lead)
        return inner.add_edge(START, "lead").compile()

    schemas = (OnlyGoal, OnlyCell) if writers == 2 else (OnlyCell, OnlySeen)
    builder = shared(team(write_left, OnlyGoal, OnlyCell), team(right(writers), *schemas))
    return builder.add_edge(START, "left").add_edge(START, "right")


def collaboration(writers):
    builder = shared(write_left, right(writers))
    return builder.add_edge(START, "left").add_edge(START, "right")


def swarm(writers):
    def triage(state: OnlyGoal) -> Command[Literal["left", "right"]]:
        return Command(goto=["left", "right"])

    return shared(write_left, right(writers)).add_node("triage", triage).add_edge(START, "triage")


def blackboard(writers):
    builder = shared(write_left, right(writers)).add_node("control", lambda state: {})
    builder.add_conditional_edges("control", lambda state: ["left", "right"], ["left", "right", END])
    return builder.add_edge(START, "control")


def competing_agents_consensus(writers):
    builder = shared(write_left, right(writers)).add_node("vote", lambda state: {"verdict": state["cell"]})
    return builder.add_edge(START, "left").add_edge(START, "right").add_edge(["left", "right"], "vote")


def reducerless_map_reduce(writers):
    def fan_out(state):
        return [Send("left", {"goal": part}) for part in "ab"]

    def fan_out_beside(state):
        return [Send("left", {"goal": "a"}), Send("right", {"cell": state["cell"]})]

    builder = shared(write_left, right(writers))
    builder.add_conditional_edges(START, fan_out if writers == 2 else fan_out_beside, ["left", "right"])
    return builder


SUSCEPTIBLE = [
    hierarchical_teams, collaboration, swarm, blackboard, competing_agents_consensus, reducerless_map_reduce,
]  # fmt: skip # a list of names and values


# ---- immune


class Parts(TypedDict, total=False):
    goal: str
    code: str
    text: str
    result: str


class Task(TypedDict):
    task: int


class Mapped(TypedDict, total=False):
    numbers: list[int]
    squares: Annotated[list[int], operator.add]
    total: int


class Talk(TypedDict, total=False):
    draft: str
    critique: str
    rounds: int
    notes: Annotated[list[str], operator.add]


def write_code(state: OnlyGoal):
    return {"code": f"code for {state['goal']}"}


def write_text(state: OnlyGoal):
    return {"text": f"text for {state['goal']}"}


def square(state: Task):
    return {"squares": [state["task"] ** 2]}


def each_number(state: Mapped):
    return [Send("square", {"task": number}) for number in state["numbers"]]


def sum_up(state: Mapped):
    return {"total": sum(state["squares"])}


def supervisor_fan_out_disjoint():
    builder = StateGraph(Parts)
    builder.add_node("code", write_code).add_node("text", write_text)
    builder.add_node("supervisor", lambda state: {"goal": state["goal"].upper()})
    builder.add_node("merge", lambda state: {"result": f"{state['code']}; {state['text']}"})
    builder.add_edge(START, "supervisor").add_edge("supervisor", "code").add_edge("supervisor", "text")
    return builder.add_edge(["code", "text"], "merge")


def map_reduce_with_reducer():
    builder = StateGraph(Mapped).add_node("square", square).add_node("sum", sum_up)
    builder.add_conditional_edges(START, each_number, ["square"])
    return builder.add_edge("square", "sum")


def orchestrator_workers():
    builder = StateGraph(Mapped).add_node("square", square).add_node("sum", sum_up)
    builder.add_node("plan", lambda state: {"numbers": [*state["numbers"], 3]})
    builder.add_edge(START, "plan").add_conditional_edges("plan", each_number, ["square"])
    return builder.add_edge("square", "sum")


def parallel_tool_calls():
    @tool
    @effect("read", scope="city:/{city}")
    def weather(city: str) -> str:
        """Say how the weather is."""
        return f"sun in {city}"

    turn = [{"name": "weather", "args": {"city": city}, "id": city, "type": "tool_call"} for city in ("Rome", "Oslo")]
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=turn)]})
    builder.add_node("tools", SequencedToolNode([weather]))
    return builder.add_edge(START, "model").add_edge("model", "tools")


def router():
    def route(state: Parts) -> Literal["code", "text"]:
        return "code" if "code" in state["goal"] else "text"

    builder = StateGraph(Parts)
    builder.add_node("code", lambda state: {"result": "code"}).add_node("text", lambda state: {"result": "text"})
    return builder.add_conditional_edges(START, route)


def write_draft(state: Talk):
    return {"draft": f"draft {state['rounds'] + 1}", "rounds": state["rounds"] + 1}


def criticise(state: Talk):
    return {"critique": f"of {state['draft']}"}


def reflection():
    builder = StateGraph(Talk).add_node("generate", write_draft).add_node("reflect", criticise)
    builder.add_edge(START, "generate").add_edge("reflect", "generate")
    return builder.add_conditional_edges("generate", lambda state: END if state["rounds"] > 2 else "reflect")


def evaluator_optimizer():
    def judge(state: Talk) -> Command[Literal["optimize", "__end__"]]:
        return Command(update={"critique": f"of {state['draft']}"}, goto=END if state["rounds"] > 1 else "optimize")

    builder = StateGraph(Talk).add_node("optimize", write_draft).add_node("judge", judge)
    return builder.add_edge(START, "optimize").add_edge("optimize", "judge")


def plan_and_execute():
    builder = StateGraph(Talk)
    builder.add_node("plan", lambda state: {"draft": "plan"})
    builder.add_node("execute", lambda state: {"rounds": state["rounds"] + 1})
    builder.add_node("replan", lambda state: {"draft": f"plan {state['rounds']}"})
    builder.add_edge(START, "plan").add_edge("plan", "execute").add_edge("execute", "replan")
    return builder.add_conditional_edges("replan", lambda state: state["rounds"] > 1, {True: END, False: "execute"})


def sequential_shared_context():
    builder = StateGraph(Talk)
    builder.add_sequence([(name, note(name)) for name in ("research", "write", "edit")])
    return builder.add_edge(START, "research")


def note(name):
    def take_notes(state: Talk):
        return {"draft": f"{state['draft']}, {name}"}

    return take_notes


def memory_chatbot():
    builder = StateGraph(Talk)
    builder.add_node("chat", lambda state: {"notes": [f"answer {len(state['notes'])}"]})
    return builder.add_edge(START, "chat")


@dataclass
class Immune:
    build: Callable[[], Any]
    given: dict[str, Any]
    result: dict[str, Any]


IMMUNE = [
    Immune(
        supervisor_fan_out_disjoint,
        {"goal": "go"},
        {"goal": "GO", "code": "code for GO", "text": "text for GO", "result": "code for GO; text for GO"},
    ),
    Immune(
        map_reduce_with_reducer,
        {"numbers": [1, 2]},
        {"numbers": [1, 2], "squares": [1, 4], "total": 5},
    ),
    Immune(
        orchestrator_workers,
        {"numbers": [1, 2]},
        {"numbers": [1, 2, 3], "squares": [1, 4, 9], "total": 14},
    ),
    Immune(parallel_tool_calls, {"messages": []}, {"texts": ["", "sun in Rome", "sun in Oslo"]}),
    Immune(router, {"goal": "code"}, {"goal": "code", "result": "code"}),
    Immune(reflection, {"rounds": 0}, {"rounds": 3, "draft": "draft 3", "critique": "of draft 2", "notes": []}),
    Immune(
        evaluator_optimizer, {"rounds": 0}, {"rounds": 2, "draft": "draft 2", "critique": "of draft 2", "notes": []}
    ),
    Immune(plan_and_execute, {"rounds": 0}, {"rounds": 2, "draft": "plan 2", "notes": []}),
    Immune(sequential_shared_context, {"draft": "start"}, {"draft": "start, research, write, edit", "notes": []}),
    Immune(memory_chatbot, {"notes": ["hello"]}, {"notes": ["hello", "answer 1"]}),
]


# ---- controls


def sequential_pipeline():
    return shared(write_left, read_right).add_edge(START, "left").add_edge("left", "right")


def racy_shared_cell():
    return shared(write_left, read_right).add_edge(START, "left").add_edge(START, "right")
