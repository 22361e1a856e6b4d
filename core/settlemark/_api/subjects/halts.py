"""The part of a settlement that halts, and resumes."""

from __future__ import annotations

from typing import cast

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_text, checked_wait, checked_word
from settlemark._api.host import Host
from settlemark._edges.errors import UsageError
from settlemark._edges.text import DERIVED, WHO, prose
from settlemark._lifecycle.fences import Standstill, halts_in
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Halt
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync

WAIT = 30.0
_WHAT = "name what is halted, one of: a scope, run=, agent=, everything=True; nothing was halted"
_RUN = "run= is a run's id, or a beginning with * at its end"
_AGENT = "agent= is the name of the agent that is halted, a text"


class Halting:
    """The part of a settlement that halts, and resumes."""

    _host: Host

    def halt(
        self,
        scope: str | Scope | None = None,
        *,
        run: str | None = None,
        agent: str | None = None,
        everything: bool = False,
        by: str,
        because: str,
        wait: float = WAIT,
    ) -> Standstill:
        """Halt a scope, a run, an agent or everything in this namespace, in all processes, until it is resumed.

        From here on nothing begins there: a call, also a read, is refused (`settlemark.Halted`) before anything of it
        is recorded. What is open there is undone. What is sealed, or put aside for a person, stays as it is. What is
        leaving finishes, or stops between two releases, and goes on when it is resumed. Undoing is not stopped.

        Returns when nothing acts there any more, in any process: its counterparties hear nothing more of it. What may
        still act after `wait` seconds, such as a call that hangs, or one of a process that died just now, is named in
        `moving`: call it again to wait for longer. Only a read that is out is not waited for.

        The halt is durable: it outlives this process, and is on record with who, when and why. The same halt by the
        same person stands once.

        Args:
            scope: what is halted, with all that overlaps it, such as `"payment:/**"`.
            run: a run, or with `*` at its end all runs whose ids begin so: `"trip/*"`.
            agent: the name of an agent, in all its runs: `agent=` of its transactions, or its name in its framework
                (CrewAI: the role; AutoGen, Pydantic AI: the agent's name; LangGraph: `create_agent(name=)`). Where
                several act in one transaction, it is halted as a whole.
            everything: whether everything is halted.
            by: who halts it.
            because: why.
            wait: seconds.

        Raises:
            UsageError: it is not said what is halted, or by whom, or why; or the run is a transaction's name.
            ScopeError: the scope is malformed. Nothing was halted.

        >>> from settlemark import Settlement, effect
        >>> @effect("irreversible", scope="payment:/{to}")
        ... def pay(to): return "paid"
        >>> settlement = Settlement("memory:")
        >>> stopped = settlement.halt("payment:/**", by="eve", because="odd payments since noon")
        >>> stopped.silent, stopped.halt.number
        (True, 1)
        >>> with settlement.transaction("trip-42") as tx:
        ...     try: tx.call(pay, to="ada")
        ...     except Exception as error: print(type(error).__name__, error.by)
        Halted eve
        >>> settlement.resume(1, by="eve").stands
        False
        """
        return run_sync(self._stopping(scope, (run, agent), everything, by, because, wait))

    async def ahalt(
        self,
        scope: str | Scope | None = None,
        *,
        run: str | None = None,
        agent: str | None = None,
        everything: bool = False,
        by: str,
        because: str,
        wait: float = WAIT,
    ) -> Standstill:
        """Do as `halt`, for an event loop."""
        return await run_async(self._stopping(scope, (run, agent), everything, by, because, wait))

    def _stopping(
        self,
        scope: str | Scope | None,
        who_acts: tuple[str | None, str | None],
        everything: object,
        by: str,
        because: str,
        wait: float,
    ) -> Program[Standstill]:
        run, agent = who_acts
        named = sum(each is not None for each in (scope, run, agent))
        if not isinstance(everything, bool) or named + everything != 1:
            raise UsageError(_WHAT)
        found = None if scope is None else Scope.parse(scope)
        if run is not None:
            run = checked_word(run, _RUN, DERIVED)
            if run.rstrip("*") == "":
                raise UsageError(f"run={run!r} would halt every run: say everything=True; nothing was halted")
            if "*" in run[:-1]:  # it would halt nothing, and say that nothing acts there
                raise UsageError(f"run={run!r} has a * before its end, where alone one stands: nothing was halted")
        if agent is not None:
            agent = checked_text(agent, _AGENT)
        who = checked_word(by, "by= is who halts it, a text", WHO)
        if not isinstance(cast("object", because), str) or not because.strip():
            raise UsageError("because= is why it is halted, a text for those who meet it; nothing was halted")
        halts = self._host.driver.halts
        return halts.halt(found, run, agent, by=who, because=prose(because), wait=checked_wait(wait))

    def resume(self, halt: int | Halt | Standstill, *, by: str) -> Halt:
        """Lift a halt, and return it; what it had put aside goes on by itself, here or in the processes that have it.

        What several halts cover is halted until all of them are lifted. What was refused or undone is for its callers
        to enter again.

        Args:
            halt: its number, or the halt.
            by: who lifts it.

        Raises:
            UsageError: no such halt stands; nothing moved.
        """
        return run_sync(self._resuming(halt, by))

    async def aresume(self, halt: int | Halt | Standstill, *, by: str) -> Halt:
        """Do as `resume`, for an event loop."""
        return await run_async(self._resuming(halt, by))

    def _resuming(self, halt: int | Halt | Standstill, by: str) -> Program[Halt]:
        found = halt.halt if isinstance(halt, Standstill) else halt
        number = found.number if isinstance(found, Halt) else found
        if isinstance(number, bool) or not isinstance(cast("object", number), int):
            raise UsageError(f"a halt is named by its number, as in settlement.halts(), not {number!r}; nothing moved")
        return self._host.driver.halts.resume(number, by=checked_word(by, "by= is who lifts it, a text", WHO))

    def halts(self, *, every: bool = False) -> list[Halt]:
        """Return the halts that stand, the oldest first; with `every`, those that were lifted, too.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").halts()
        []
        """
        found = self._host.ledger.read(halts_in)
        return [halt for halt in found if every or halt.stands]


__all__ = ["Halting"]
