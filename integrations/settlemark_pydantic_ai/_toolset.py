"""A toolset whose tools settle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from pydantic_ai import AbstractToolset, RunContext, WrapperToolset
from pydantic_ai.toolsets import ToolsetTool

from settlemark import Settlement
from settlemark.agents import Declared, Unsettled
from settlemark.hosting import Order, Park, json_text
from settlemark_pydantic_ai._functions import is_journaled, schema_of
from settlemark_pydantic_ai._jobs import Jobs, Run
from settlemark_pydantic_ai._turns import Turns


class SettlingToolset(WrapperToolset[Any]):
    """A toolset whose tools are called in their turns."""

    def __init__(self, wrapped: AbstractToolset[Any], turns: Turns) -> None:
        super().__init__(wrapped)
        self._turns = turns

    def _around(self, wrapped: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return self if wrapped is self.wrapped else SettlingToolset(wrapped, self._turns)

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """Return it around the wrapped toolset of this run."""
        return self._around(await self.wrapped.for_run(ctx))

    async def for_run_step(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """Return it around the wrapped toolset of this step."""
        return self._around(await self.wrapped.for_run_step(ctx))

    def visit_and_replace(self, visitor: Any) -> AbstractToolset[Any]:
        """Return it around a visitor's replacement of the wrapped toolset."""
        return self._around(self.wrapped.visit_and_replace(visitor))

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run a tool in its turn."""
        kept = json_text.snapshot(tool_args)  # it runs as issued, even if the arguments are changed meanwhile

        async def run(ctx: RunContext[Any], arguments: Mapping[str, Any] | None = None) -> Any:
            return await self.wrapped.call_tool(
                name, json_text.snapshot(kept if arguments is None else dict(arguments)), ctx, tool
            )

        if is_journaled(tool):
            return await run(ctx)
        return await self._turns.call(ctx, tool, run, kept)


class SettledToolset(WrapperToolset[Any]):
    """Settles what the tools of one toolset do: `Agent(…, toolsets=[SettledToolset(toolset, settlement)])`.

    Calls of one turn act in issuance order, those that are irreversible when all have succeeded, and what fails stops
    the later ones and undoes the earlier ones. It knows of no other tools of the agent: not of `@agent.tool`, and not
    where the agent's run ends, nor what `run_stream` calls beside a final output, which it refuses. For that, and for
    approvals that were denied, there is `Settled`.

    Args:
        wrapped: the toolset.
        settlement: settles each turn.
        run: the caller's id for the job, or a function of the run's context that returns it; the same id in another
            process is the same job begun again. Without one a job is known again by its message history.
        effects: what the tools do, where they do not say it themselves.
        order: `"turn"` keeps the order of effects that run at once, and what is held leaves last; `"scopes"` that of
            effects on overlapping scopes; `"issued"` that of all, also behind what cannot be undone.
        park: what becomes of a turn that waits for a person's yes: it is kept as it is, or split.
        may_touch: scopes that each turn holds before its first call runs.
        unsettled: where the installed Pydantic AI lacks what its calls settle by, or nobody tells which are one turn:
            `"refuse"`, `"warn"` once and go on, or just go on (`"allow"`).

    Raises:
        UsageError: `settlement` is no `Settlement`, or an option is none of those.
        DeclarationError: `effects` contradicts itself.

    >>> from pydantic_ai import FunctionToolset
    >>> SettledToolset(FunctionToolset(), Settlement("memory:")).label
    'SettledToolset(FunctionToolset)'
    """

    def __init__(
        self,
        wrapped: AbstractToolset[Any],
        settlement: Settlement,
        *,
        run: Run | None = None,
        effects: Mapping[str, Declared] | None = None,
        order: Order = "turn",
        park: Park = "keep",
        may_touch: str | Sequence[str] = (),
        unsettled: Unsettled = "refuse",
    ) -> None:
        super().__init__(wrapped)
        self._jobs = Jobs(
            settlement,
            run=run,
            settle="turn",
            effects=effects,
            order=order,
            park=park,
            may_touch=may_touch,
            unsettled=unsettled,
        )

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """Return the object that settles the tools of this run."""
        return _OneRun(await self.wrapped.for_run(ctx), self._jobs, ctx)


class _OneRun(SettlingToolset):
    """A toolset that settles by itself, in one run of an agent."""

    def __init__(self, wrapped: AbstractToolset[Any], jobs: Jobs, ctx: RunContext[Any]) -> None:
        self._known = set[int]()
        super().__init__(wrapped, Turns(jobs, ctx, owns=lambda tool: _identity(tool) in self._known))

    def _around(self, wrapped: AbstractToolset[Any]) -> AbstractToolset[Any]:
        if wrapped is self.wrapped:
            return self
        found = copy(self)
        found.wrapped = wrapped
        return found

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return its tools, and remember them, whatever their names."""
        found = await super().get_tools(ctx)
        self._known.update(_identity(tool) for tool in found.values())
        return found

    async def __aexit__(self, *error: Any) -> bool | None:  # noqa: PYI036 - the framework's signature
        """End what is left of its turns."""
        try:
            return await super().__aexit__(*error)
        finally:
            await self._turns.leave(error[1] if len(error) > 1 else None, is_over=True)


def _identity(tool: ToolsetTool[Any]) -> int:
    return id(schema_of(tool) or tool.toolset)


__all__ = ["SettledToolset", "SettlingToolset"]
