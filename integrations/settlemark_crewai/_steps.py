"""The steps of a plan (`planning_config`): each answer of the model in one is a turn.

CrewAI carries a step out with messages of the step's own, which no hook is shown. So the two methods that run the calls
of an answer are wrapped, for all agents; for one whose tools are not settled they do as before.
"""

# The messages of CrewAI are open dictionaries.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from crewai.agents.step_executor import StepExecutor
from crewai.tools import BaseTool
from crewai.utilities.string_utils import sanitize_tool_name

from settlemark import EffectClass
from settlemark.hosting import run_sync
from settlemark_crewai._job import Job
from settlemark_crewai._private import NATIVE, STEPS, WRITTEN
from settlemark_crewai._session import Session
from settlemark_crewai._side_data import Beside
from settlemark_crewai._tools import MARK, mark_of


class Steps:
    """The steps that one executor of CrewAI carries out, as a session sees an agent's executor.

    Attributes:
        messages: of the step whose calls run.
        state: has the call that the model has written down, in a step without function calling.
        alone: held by the step whose calls run: steps that CrewAI carries out beside each other take turns.
    """

    iterations = 1

    def __init__(self, executor: StepExecutor) -> None:
        self.agent: Any = executor.agent
        self.task: Any = executor.task
        self.original_tools = executor.original_tools
        self.messages: list[Any] = []
        self.state = SimpleNamespace(current_answer=None)
        self.alone = threading.Lock()
        self.todos: dict[int, Any] = {}
        self.session: Session | None = None

    def is_new_plan(self, todo: Any) -> bool:
        """Whether this step is of another plan than those before: then what was decided is recalled."""
        known = self.todos.get(todo.step_number)
        if known is todo:
            return False
        if known is not None or not self.todos:
            self.todos = {todo.step_number: todo}
            return True
        self.todos[todo.step_number] = todo
        return False


stepping: ContextVar[Session | None] = ContextVar("settlemark_crewai_stepping", default=None)
"""The session of the step whose calls run in this context."""
_steps: Beside[Steps] = Beside()
_lock = threading.Lock()
Begin = Callable[[Steps], Session | None]
"""Begins the work of a plan, and returns its session; None where no tool is settled."""


def steps_of(executor: StepExecutor) -> Steps:
    """Return the steps of an executor."""
    with _lock:
        found = _steps.get(executor)
        if found is None:
            found = Steps(executor)
            _steps.put(executor, found)
        return found


@contextmanager
def _turn(
    executor: StepExecutor, todo: Any, begin: Begin, messages: list[Any], written: Any = None
) -> Generator[Session | None]:
    """Let the calls of one answer be a turn, and settle it when they are over."""
    steps = steps_of(executor)
    with steps.alone:
        steps.messages, steps.state.current_answer = messages, written
        if steps.is_new_plan(todo):
            steps.session = begin(steps)
        session = steps.session
        if session is None:
            yield None
            return
        session.refuse_given_up()
        token = stepping.set(session)
        try:
            yield session
        except Exception:
            run_sync(session.finish())
            raise
        except BaseException as error:
            run_sync(session.abandon(error))
            raise
        finally:
            stepping.reset(token)
        run_sync(session.finish())
        session.tell(steps)


def wrap_steps(begin: Begin) -> None:
    """Have the calls of planned steps be turns, of the work that `begin` begins."""
    if STEPS.absent or hasattr(getattr(StepExecutor, NATIVE), MARK):
        return
    native: Callable[..., str] = getattr(StepExecutor, NATIVE)
    written: Callable[..., str] = getattr(StepExecutor, WRITTEN)

    @functools.wraps(native)
    def run_native(
        self: StepExecutor, tool_calls: list[Any], messages: list[Any], todo: Any, *given: Any, **named: Any
    ) -> str:
        before = len(messages)
        with _turn(self, todo, begin, messages) as session:
            result: str = native(self, tool_calls, messages, todo, *given, **named)
        if session is None:
            return result
        told = [message["content"] for message in messages[before:] if message.get("role") == "tool"]
        return "\n".join(map(str, told)) if told else result

    @functools.wraps(written)
    def run_written(self: StepExecutor, formatted: Any, todo: Any, *given: Any, **named: Any) -> str:
        with _turn(self, todo, begin, [], formatted):
            said: str = written(self, formatted, todo, *given, **named)
        return said

    for name, wrapper in ((NATIVE, run_native), (WRITTEN, run_written)):
        setattr(wrapper, MARK, True)
        setattr(StepExecutor, name, wrapper)


def has_no_turns(agent: Any) -> bool:
    """Whether an agent plans, and this release of CrewAI does not tell what belongs together in a step of its plan."""
    return bool(STEPS.absent) and bool(getattr(agent, "planning_enabled", False))


def refuse_to_plan(job: Job, agent: Any, tools: Iterable[BaseTool]) -> None:
    """Return when an agent's steps can settle, if it plans; with tools that only read there is nothing to be settled.

    Raises:
        UsageError: they cannot with this release of CrewAI, and the job's `unsettled=` refuses that; nothing was run.
    """
    acting = [tool for tool in tools if mark_of(tool) is not None and _acts(job, tool)] if has_no_turns(agent) else []
    if acting:
        STEPS.refuse_without(job.settlement, job.unsettled)


def _acts(job: Job, tool: BaseTool) -> bool:
    name, mark = sanitize_tool_name(tool.name), mark_of(tool)
    learned = job.learn(name, tool, None if mark is None else mark.effect)
    return job.declarations.of(learned).kind is not EffectClass.READ


__all__ = ["Steps", "has_no_turns", "refuse_to_plan", "stepping", "wrap_steps"]
