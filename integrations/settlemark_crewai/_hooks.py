"""CrewAI's hooks around its agents' work: before a task, before a request to a model, and around a call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, cast

from crewai import Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.agent_executor import AgentExecutor
from crewai.hooks import InterceptionPoint
from crewai.hooks.dispatch import get_global_hook_list
from crewai.hooks.tool_hooks import ToolCallHookContext
from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailurePolicy, resolve_tool_failure_policy

from settlemark.agents import AgentRun, Work
from settlemark.hosting import run_sync
from settlemark_crewai._claim import Claim, claimed
from settlemark_crewai._job import Job
from settlemark_crewai._private import STEPS
from settlemark_crewai._session import Executor, Session, alone
from settlemark_crewai._side_data import Beside
from settlemark_crewai._steps import has_no_turns, stepping, wrap_steps
from settlemark_crewai._tools import Mark, mark_of

_HEAD_START_SECONDS = 0.2
"""How long before the first request to a model CrewAI may have begun to count an agent's `max_execution_time`."""


@dataclass(slots=True, eq=False)
class Part:
    """A running task of a settled crew.

    Attributes:
        job: the crew's.
        run: the running job.
        task: the task.
        name: the task's, in the run.
        begun: how often its agent has begun it.
        others: how often it had been begun when another agent of the crew last worked for it.
    """

    job: Job
    run: AgentRun
    task: Task
    name: str
    begun: int = 0
    others: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def work(self) -> Work:
        """The work of the task itself."""
        return self.run.work(self.name)

    def begin(self, executor: Executor) -> Work:
        """Return the work of an agent that begins, or begins again, to do something for this task."""
        if executor.task is self.task:
            self.begun += 1
            work = self.run.work(self.name, agent=executor.agent.role if executor.agent else None)
            work.begin()
            return work
        # A delegated task is begun again with its task, but not with each further delegation.
        name = f"{self.name}/{executor.agent.role if executor.agent else ''}"
        work = self.run.work(name, agent=executor.agent.role if executor.agent else None)
        if self.others.get(name) != self.begun:
            self.others[name] = self.begun
            work.begin()
        return work


part: ContextVar[Part | None] = ContextVar("settlemark_crewai_part", default=None)
"""The running task of a settled crew in this context."""

_sessions: Beside[Session] = Beside()  # of executors, and of the tools given to them
_begun: Beside[int] = Beside()  # how often a task was
_runs: Beside[tuple[int, AgentRun]] = Beside()  # of executors, without an id of the user's


def ensure_hooks() -> None:
    """Register our hooks with CrewAI, before any other that could keep a call from them."""
    wrap_steps(partial(_begun_session, serial=True))
    for point, hook in _HOOKS.items():
        hooks = get_global_hook_list(point)
        if hook not in hooks:
            hooks.insert(0, hook)


def attend(agents: Iterable[BaseAgent]) -> None:
    """Register our hooks for agents, also for those that have asked a model already."""
    ensure_hooks()
    for agent in agents:
        executor = agent.agent_executor
        if isinstance(executor, AgentExecutor) and _before_model not in executor.before_llm_call_hooks:
            executor.before_llm_call_hooks.insert(0, _before_model)


def _before_step(context: Any) -> None:
    if context.kind == "task":
        _begun.put(context.task, (_begun.get(context.task) or 0) + 1)


def _before_model(context: Any) -> None:
    executor = context.executor
    if not isinstance(executor, AgentExecutor):
        return
    session = _sessions.get(executor)
    if session is None or not session.goes_on(executor):
        session = _session_of(executor)
    if session is not None:
        session.refuse_given_up()
        session.tell(executor)


def _session_of(executor: AgentExecutor) -> Session | None:
    """Return the session of an invocation that begins, or None: nothing of it is settled."""
    session = _begun_session(executor)
    if session is not None:
        for thing in (executor, *executor.tools):
            _sessions.put(thing, session)
        here = part.get()
        if here is not None and here.job.primer:
            _prime(executor, run_sync(here.run.primers.text(session.name, object())))
    return session


def _prime(executor: AgentExecutor, text: str | None) -> None:
    """Put a primer behind the system message of an agent that begins."""
    if text is not None:
        messages = cast("list[dict[str, Any]]", executor.messages)
        said = sum(1 for _ in takewhile(lambda message: message.get("role") == "system", messages))
        messages.insert(said, {"role": "system", "content": text})


def _begun_session(executor: Executor, *, serial: bool = False) -> Session | None:
    here = part.get()
    own = [mark.job for mark in map(mark_of, executor.original_tools) if mark is not None and mark.job is not None]
    if here is None and not own:
        return None
    job = here.job if here is not None else own[0]
    work = here.begin(executor) if here is not None else _work_of(executor, job)
    limit = None if executor.agent is None else getattr(executor.agent, "max_execution_time", None)
    work.limit(None if limit is None else limit - min(_HEAD_START_SECONDS, limit / 10))
    return Session(executor, work, job, serial=serial)


def _work_of(executor: Executor, job: Job) -> Work:
    """Return the work of an agent whose tools are settled, and whose crew is not."""
    role, task = executor.agent.role if executor.agent else "", executor.task
    if job.run is not None:
        run, asked = job.joined(), task.key if task is not None else _request(executor)
    else:
        # Only its own retries can find it again.
        times = 0 if task is None else _begun.get(task) or 0
        known = _runs.get(executor)
        run = known[1] if known is not None and known[0] == times else job.begin()
        _runs.put(executor, (times, run))
        asked = ""
    work = run.work(f"{role}/{asked}" if asked else role, agent=role)
    work.begin()
    return work


def _request(executor: Executor) -> str:
    """Return a key that tells one request to an agent from another."""
    messages = cast("list[dict[str, Any]]", executor.messages)
    said = [str(message.get("content")) for message in messages if message.get("role") != "system"]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:12]


def _before_call(context: ToolCallHookContext) -> None:
    claimed.set(None)
    session = stepping.get() or _sessions.get(context.tool)
    claim = None if session is None else session.claim(context.tool_name, context.tool_input)
    if claim is not None:
        policy = resolve_tool_failure_policy(
            tool=context.tool, agent=context.agent, task=context.task, crew=context.crew
        )
        claim.raises = policy is ToolFailurePolicy.RAISE
        claimed.set(claim)
        return
    tool: BaseTool | None = getattr(context.tool, "_original_tool", None)
    mark = None if tool is None else mark_of(tool)
    if tool is not None and mark is not None:
        claim, here = outside(mark, context.tool_name, tool, tells=True), part.get()
        job = mark.job if here is None or not mark.is_of(here.job) else here.job
        if claim is not None and job is not None and has_no_turns(context.agent):
            claim.refuse = partial(STEPS.refuse_without, job.settlement, job.unsettled)
        claimed.set(claim)


def outside(mark: Mark, name: str, tool: BaseTool, *, tells: bool) -> Claim | None:
    """Return a call outside of any model's turn, or None: it is not settled here."""
    here = part.get()
    if here is not None and mark.is_of(here.job):
        return alone(mark, name, tool, here.work, here.job, tells=tells)
    job = mark.job
    if job is None:
        return None
    return alone(mark, name, tool, job.loose(), job, tells=tells, once=job.run is not None and not tells)


def _after_call(context: ToolCallHookContext) -> None:
    claim = claimed.get()
    if claim is not None:
        claim.text = context.tool_result
        claim.over(context.tool_input)
        claimed.set(None)


_HOOKS: dict[InterceptionPoint, Callable[[Any], None]] = {
    InterceptionPoint.PRE_STEP: _before_step,
    InterceptionPoint.PRE_MODEL_CALL: _before_model,
    InterceptionPoint.PRE_TOOL_CALL: _before_call,
    InterceptionPoint.POST_TOOL_CALL: _after_call,
}

__all__ = ["Part", "attend", "ensure_hooks", "outside", "part"]
