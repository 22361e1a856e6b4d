"""What the contract suite asks of a framework: one agent, some functions as its tools, a script for its model.

A fifth framework joins in four steps.

1. Write `tests/integrations/<framework>/driver.py` with a class `Driver` that has what `Driver` below has; it needs
   not inherit. `toy.py` beside this file is the smallest there is: a framework of its own and its driver.
2. Name the framework in `FRAMEWORKS`, with a module by which it is known to be installed.
3. Run `pytest tests/integrations/contract -k <framework>`.
4. What the framework cannot do is said in the driver (`cannot_resume`), never skipped in a scenario.

Laws of a driver, which is what makes the scenarios comparable:

- `settlement=None` is the framework as it is released, without a line of ours: it is the control.
- The model answers its n-th request of a job with `turns[n]`, all calls in one message, whatever it has been told;
  then it says `final`. What the framework remembers of a job (its checkpoints, say) counts as said.
- A tool that raises is answered to the model in the way the framework documents. A framework that lets the exception
  out of its run does that here, too: `run` raises it, and the scenarios look at the world alone.
- What is returned is the transcript: what the model has been told of each call, in the framework's order. Where the
  framework tells a call again later, corrected, the last word counts, in the place of the first.
- No network, no key, no telemetry, and nothing left behind: no task, no thread that acts, no file outside `folder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from settlemark import Gate, Settlement
from settlemark.hosting import host_of

Tool = Callable[..., Any]
"""A function, or a coroutine function, with annotations, a docstring, and a name that is the tool's."""

Rewrite = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Returns the arguments that a tool is to get, for its name and what the model gave it."""

Heed = Callable[[str, Any, int], Any]
"""Returns the turns that a model says, for the text of its request and those that it would say."""

Answers = list[tuple[str, str]]
"""What the model has been told: (call id, or tool name where the framework knows no ids, and the text)."""

FRAMEWORKS = {
    "langgraph": "langchain.agents",
    "crewai": "crewai",
    "autogen": "autogen_agentchat",
    "pydantic_ai": "pydantic_ai",
}
"""The folder of each driver in `tests/integrations`, and the module without which it is left out."""


@dataclass(frozen=True)
class ScriptedCall:
    """One call that the model issues."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""


Turns = Sequence[Sequence[ScriptedCall]]


class Saying:
    """What a model says beside its calls, where its framework has a place for that."""

    text = "I act."


class Driver(Protocol):
    """Has one agent of a framework play a script. Made without arguments, once for each test.

    Attributes:
        name: the framework's, as its folder is called.
        folder: where the framework may keep what a new process needs to go on with a job; the suite sets it where
            processes die, else it is None and the framework's memory will do.
        cannot_resume: why this framework, as it is installed here, cannot go on in a new process; None if it can.
        agent: a name for the agent; None where the framework, or its shim, need not be given one.
        primer: whether the shim is asked to tell the model when a job is taken up again.
        heed: what the model makes of what it is told: called at each request with all the text of that, the turns that
            it would say, and how many it has said, it returns those that it says; None: it says them all.
        hears: whether a job is run so that it hears what is said to it, where its framework's own way of running one
            does not.
        rewrite: gives a call other arguments before it comes to our shim, by what the framework has for that (a hook,
            a middleware), also with stock: `rewrite(tool, arguments)` returns them; None leaves calls alone.
    """

    name: str
    folder: Path | None
    cannot_resume: str | None
    rewrite: Rewrite | None
    primer: bool
    agent: str | None
    heed: Heed | None
    hears: bool

    def run(
        self,
        tools: Sequence[Tool],
        turns: Turns,
        *,
        settlement: Settlement | None,
        run: str = "run-1",
        effects: Mapping[str, Any] = {},
        final: str = "done",
    ) -> Answers:
        """Play a job to its end, or go on with it: the same `run` is the same job, also in a new process.

        Args:
            tools: the agent's.
            turns: what the model says.
            settlement: settles what the tools do; None is the stock framework.
            run: the id that the caller gives the job.
            effects: what tools do, said from outside; as for the shim's `effects=`.
            final: the model's last word.
        """
        ...

    async def arun(
        self,
        tools: Sequence[Tool],
        turns: Turns,
        *,
        settlement: Settlement | None,
        run: str = "run-1",
        effects: Mapping[str, Any] = {},
        final: str = "done",
    ) -> Answers:
        """Do the same by the framework's asynchronous face; cancelling it cancels the framework's run."""
        ...


class Person:
    """Whoever is asked before a gated call runs: `Settlement(url, approver=Person({"mail": reject("no")}))`.

    Where the framework asks in its own way (an interrupt, a deferred call) the driver hands the question on with
    `answer_of(settlement, shown)`, and gives the framework the answer.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, gate: Gate) -> Any:
        return self.answer(gate.tool, gate.arguments)

    def answer(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Return the answer about one call, and keep what was asked."""
        self.asked.append((tool, dict(arguments)))
        return self._answers[tool]


def answer_of(settlement: Settlement, shown: Mapping[str, Any]) -> Any:
    """Return what the person behind a settlement answers to a gate's `shown()` (it has "tool" and "arguments")."""
    person = host_of(settlement).settings.approver
    assert isinstance(person, Person), person
    return person.answer(shown["tool"], shown["arguments"])


__all__ = ["FRAMEWORKS", "Answers", "Driver", "Heed", "Person", "Rewrite", "ScriptedCall", "Tool", "Turns", "answer_of"]
