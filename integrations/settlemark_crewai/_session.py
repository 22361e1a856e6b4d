"""One invocation of an agent: its work, and its model's calls.

CrewAI tells a tool nothing of the call it runs for. Its hooks see the executor before each request to a model, and each
call before it is run; the model's answer is in the executor's messages.
"""

# The messages of CrewAI are open dictionaries.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import json
import threading
import weakref
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, cast

from crewai.agents.parser import AgentAction
from crewai.hooks.dispatch import HookAborted
from crewai.tools import BaseTool
from crewai.utilities.agent_utils import convert_tools_to_openai_schema
from crewai.utilities.string_utils import sanitize_tool_name

from settlemark import Declaration, EffectClass
from settlemark.agents import AgentTurn, Call, Learned, Said, Work, keep_answered
from settlemark.hosting import Program
from settlemark_crewai._claim import Claim, call_of
from settlemark_crewai._delegating import delegates, delegation
from settlemark_crewai._job import Job
from settlemark_crewai._tools import Mark, mark_of

_THREADS = 8
"""CrewAI runs so many calls of a turn concurrently; others when one of these has ended."""


@dataclass(slots=True, eq=False)
class Issued:
    """One call in a model's answer, and its place in the turn if it has one."""

    name: str
    arguments: Any
    call_id: str | None
    place: int | None
    taken: bool = False
    claim: Claim | None = None


@dataclass(slots=True, eq=False)
class Answer:
    """A model's answer with calls.

    Attributes:
        source: CrewAI's object for it.
        issued: all of its calls.
        turn: the settled ones; None when none is.
        waits: CrewAI runs all of them concurrently, so that one can wait for the others.
    """

    source: object
    issued: list[Issued] = field(default_factory=list[Issued])
    turn: AgentTurn | None = None
    waits: bool = True

    def take(self, name: str, arguments: object) -> Issued | None:
        """Return the first of its calls that matches and was not taken yet, by equality or at least by name."""
        named = [issued for issued in self.issued if issued.name == name and not issued.taken]
        found = next((issued for issued in named if issued.arguments == arguments), next(iter(named), None))
        if found is not None:
            found.taken = True
        return found

    def put_right(self, messages: Sequence[Any]) -> None:
        """Give equal calls their own answers, and replace "queued" by the result by now.

        CrewAI's threads do not tell which of two equal calls they run.
        """
        told = {message.get("tool_call_id"): message for message in messages if message.get("role") == "tool"}
        for first in self.issued:
            alike = [other for other in self.issued if (other.name, other.arguments) == (first.name, first.arguments)]
            if len(alike) == 1 or alike[0] is not first or any(other.call_id not in told for other in alike):
                continue
            texts = [None if other.claim is None else other.claim.text for other in alike]
            shown = [told[other.call_id] for other in alike]
            if Counter(texts) == Counter(message["content"] for message in shown):
                for message, text in zip(shown, texts, strict=True):
                    message["content"] = text
        for issued in self.issued:
            text = None if issued.claim is None else issued.claim.answered_since()
            if text is not None and issued.call_id in told:
                told[issued.call_id]["content"] = text


class GivenUp(HookAborted, TimeoutError):
    """An agent's time is over: `HookAborted` leaves the agent, and CrewAI takes a `TimeoutError` for its own."""


class Executor(Protocol):
    """What is to be seen of what carries out an agent's work: CrewAI's executor, or the steps of a plan."""

    @property
    def agent(self) -> Any:
        """The agent, or None."""
        ...

    @property
    def task(self) -> Any:
        """Its task, or None."""
        ...

    @property
    def original_tools(self) -> list[BaseTool]:
        """Its tools."""
        ...

    @property
    def iterations(self) -> int:
        """How often its model was asked."""
        ...

    @property
    def state(self) -> Any:
        """Has the model's last answer where that writes its calls down."""
        ...

    @property
    def messages(self) -> list[Any]:
        """What is said to its model next, and what it has answered."""
        ...


class Session:
    """One invocation of an agent's executor, or the steps of one of its plans (`serial`).

    Args:
        executor: shows the model's answers.
        work: has their turns.
        job: of that work.
        serial: CrewAI runs the calls of an answer one after the other.
    """

    def __init__(self, executor: Executor, work: Work, job: Job, *, serial: bool = False) -> None:
        self._executor = weakref.ref(executor)
        self._serial = serial
        self._work = work
        self._job = job
        self._tools = _named(executor.original_tools)
        self._learned: dict[str, Learned] = {}
        self._answer: Answer | None = None
        self._anchor: object = None
        self._lock = threading.Lock()
        for name, tool in self._tools.items():
            mark = self._mark(tool)
            if mark is not None:
                effect = delegation(name, work.run.name, work.name) if delegates(tool) else mark.effect
                self._learned[name] = job.learn(name, tool, effect)
                self._keep_out_of_the_cache(name, tool)

    def _mark(self, tool: BaseTool | None) -> Mark | None:
        """Return the mark of a tool whose calls have their places in these turns, or None."""
        mark = None if tool is None else mark_of(tool)
        return mark if mark is not None and mark.is_of(self._job) else None

    def _keep_out_of_the_cache(self, name: str, tool: BaseTool) -> None:
        if self._job.declarations.of(self._learned[name]).kind is not EffectClass.READ:
            tool.cache_function = _never  # else an equal second effect would silently not happen

    @property
    def name(self) -> str:
        """The name of its work in the job."""
        return self._work.name

    # ---- before a request to the model

    def refuse_given_up(self) -> None:
        """Return when its agent's time is not over.

        Raises:
            GivenUp: it is.
        """
        if self._work.is_given_up:
            raise GivenUp("the agent's max_execution_time is over, and what was open by then is undone")

    def goes_on(self, executor: Executor) -> bool:
        """Whether this request is of the same invocation as the last one: its messages are still there."""
        return executor.iterations > 0 or any(message is self._anchor for message in executor.messages)

    def finish(self) -> Program[None]:
        """Settle the last answer's turn: CrewAI runs no more calls of it."""
        if self._answer is not None and self._answer.turn is not None:
            yield from self._answer.turn.finish()

    def abandon(self, error: BaseException) -> Program[None]:
        """End the last answer's turn, which was cut short."""
        if self._answer is not None and self._answer.turn is not None:
            yield from self._answer.turn.abandon(error)

    def tell(self, executor: Executor) -> None:
        """Correct what the model was told of its calls and has changed since, and remember the position."""
        keep_answered(self._job.settlement, _answered_in(executor.messages))
        if self._answer is not None:
            self._answer.put_right(executor.messages)
        for call, text in self._work.corrections():
            _correct(executor.messages, call, text)
        self._anchor = executor.messages[-1] if executor.messages else None

    # ---- before a call

    def claim(self, name: str, arguments: Mapping[str, Any]) -> Claim | None:
        """Return the call that is about to run, if its tool is settled."""
        tool = self._tools.get(name)
        mark = self._mark(tool)
        executor = self._executor()
        if tool is None or mark is None or executor is None:
            return None
        with self._lock:
            answer = self._answer_of(executor, name, arguments)
            issued = None if answer is None else answer.take(name, arguments)
        if answer is None or issued is None or issued.place is None:
            return Claim(mark, name, tool, self._work, partial(self._declaration_of, name, tool))
        issued.claim = Claim(
            mark,
            name,
            tool,
            self._work,
            partial(self._declaration_of, name, tool),
            turn=answer.turn,
            place=issued.place,
            asked=arguments,
            waits=answer.waits or tool.result_as_answer,
            last=tool.result_as_answer and not answer.waits,
        )
        return issued.claim

    def _answer_of(self, executor: Executor, name: str, arguments: Mapping[str, Any]) -> Answer | None:
        """Return the model's answer with a call, or None: the executor shows none."""
        source, calls = _last_answer(executor, name, arguments)
        if source is None:
            return None
        if self._answer is None or self._answer.source is not source:
            self._answer = self._opened(executor, source, calls)
        return self._answer

    def _opened(self, executor: Executor, source: object, issued: list[tuple[str, Any, str | None]]) -> Answer:
        answer, seated = Answer(source), list[Call]()
        # Not those of its beginning alone: CrewAI may have given the agent a tool of its own meanwhile.
        offered = {*self._tools, *(sanitize_tool_name(tool.name) for tool in executor.original_tools)}
        is_answered = False
        for name, arguments, call_id in issued:
            call = self._call(name, arguments, call_id, offered)
            if call is not None and call.refused is not None and is_answered:
                call = None  # CrewAI runs nothing behind a result that is the answer
            is_answered = is_answered or (name in self._tools and self._tools[name].result_as_answer)
            answer.issued.append(Issued(name, arguments, call_id, None if call is None else len(seated)))
            if call is not None:
                seated.append(call)
        if any(call.refused is None for call in seated):
            model = getattr(getattr(executor.agent, "llm", None), "model", None)
            said = Said(
                getattr(source, "thought", None) or None,
                model=model if isinstance(model, str) else None,
                tools=tuple(self._tools),
            )
            answer.turn = self._work.turn(seated, because=said, answered=_answered_in(executor.messages))
        serial = self._serial or any(self._makes_serial(name) for name, _, _ in issued)
        answer.waits = len(issued) == 1 or (len(issued) <= _THREADS and not serial)
        return answer

    def _call(self, name: str, arguments: Any, call_id: str | None, offered: Collection[str]) -> Call | None:
        tool = self._tools.get(name)
        if name not in offered:
            return _refused(name, call_id, "the agent has no such tool")
        if tool is None or self._mark(tool) is None:
            return None
        if not isinstance(arguments, Mapping):
            return _refused(name, call_id, "its arguments are no JSON object")
        return call_of(name, tool, arguments, call_id, self._declaration_of(name, tool))

    def _declaration_of(self, name: str, tool: BaseTool) -> Declaration:
        if delegates(tool) and not self._job.declares(name):
            return delegation(name, self._work.run.name, self._work.name)
        return self._job.declarations.of(self._learned.get(name, name))

    def _makes_serial(self, name: str) -> bool:
        tool = self._tools.get(name)
        return tool is not None and (tool.result_as_answer or tool.max_usage_count is not None)


def alone(mark: Mark, name: str, tool: BaseTool, work: Work, job: Job, *, tells: bool, once: bool = False) -> Claim:
    """Return a call without a known turn: the model's other calls, if any, are unknown; `once` where none made it."""
    declares = partial(job.declarations.of, job.learn(name, tool, mark.effect))
    return Claim(mark, name, tool, work, declares, tells=tells, once=once)


def _named(tools: Sequence[BaseTool]) -> dict[str, BaseTool]:
    """Return tools by the names that CrewAI tells a model: of several with one name each has a name of its own."""
    return cast("dict[str, BaseTool]", convert_tools_to_openai_schema(tools)[2])


def _refused(name: str, call_id: str | None, why: str) -> Call:
    return Call(name, {}, Declaration(name, EffectClass.READ), call_id, refused=why)


def _last_answer(
    executor: Executor, name: str, arguments: Mapping[str, Any]
) -> tuple[object | None, list[tuple[str, Any, str | None]]]:
    """Return the model's last answer in an executor, and its calls: (name, arguments, id)."""
    for message in reversed(executor.messages):
        if message.get("tool_calls"):
            return message, [_issued(call) for call in cast("list[Any]", message.get("tool_calls"))]
        if message.get("role") != "tool":
            break
    action = executor.state.current_answer
    if isinstance(action, AgentAction) and sanitize_tool_name(action.tool) == name:
        return action, [(name, deepcopy(dict(arguments)), None)]  # a hook may change the arguments
    return None, []


def _answered_in(messages: Sequence[Any]) -> list[str]:
    """Return the ids of the calls whose answers a model is shown."""
    return [str(message.get("tool_call_id")) for message in messages if message.get("role") == "tool"]


def _issued(call: Any) -> tuple[str, Any, str | None]:
    arguments: Any = call["function"]["arguments"]
    with suppress(ValueError):
        arguments = json.loads(arguments) or {}
    return call["function"]["name"], arguments, call["id"]


def _correct(messages: list[Any], call: Call, text: str) -> None:
    """Show the model a correction in place of the call's old answer, or at the end."""
    for message in messages:
        if call.call_id is not None and message.get("tool_call_id") == call.call_id:
            message["content"] = text
            return
    shown = json.dumps(dict(call.arguments), default=str)
    told = f"What you were told of {call.tool} {shown} is not true any more: {text}"
    messages.append({"role": "user", "content": told})


def _never(_arguments: Any = None, _result: Any = None) -> bool:
    return False


__all__ = ["Executor", "GivenUp", "Session", "alone"]
