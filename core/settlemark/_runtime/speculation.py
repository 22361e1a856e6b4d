"""Speculation: several branches act at once, one is chosen, and the others leave nothing.

Each branch is a transaction of its own, under one hold. The losers are aborted and finalized before the winner commits,
so no loser's floor rises over a write that was undone. No branch waits for another: an eager effect of one branch is
refused to the others, with the advice to stage it. Source: Atomix §3.3 (disjunctive work is one transaction an option,
chosen by a controller).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from settlemark._acts.perform import Program
from settlemark._acts.requests import Act, Together
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Part
from settlemark._edges.errors import UsageError
from settlemark._edges.user_code import Ended
from settlemark._edges.wording import in_words
from settlemark._lifecycle.selection import raise_interrupt
from settlemark._protocol.states import State
from settlemark._runtime.driver import Driver

Body = Callable[[Part], Callable[[], Any]]
LOST = "another branch was chosen"


class Speculation:
    """One choice among branches.

    Args:
        driver: runs the branches.
        name: the choice's name; its branches are `name~0`, `name~1`, …
        bodies: one function a branch.
        choose: called with a list of each branch's value or exception; returns the winner's index, or None.
        options: as for `Driver.begin`, for every branch.
        tries: how often a branch that loses races is tried.
    """

    def __init__(
        self,
        driver: Driver,
        name: str,
        bodies: Sequence[Body],
        choose: Callable[[list[Any]], Any],
        options: dict[str, Any],
        *,
        tries: int,
    ) -> None:
        self._driver = driver
        self._name = name
        self._bodies = bodies
        self._choose = choose
        self._options = options
        self._tries = tries

    def program(self) -> Program[Any]:
        """Run the branches, choose, settle; return the winner's value, or None when none was chosen.

        Raises:
            ExceptionGroup: every branch failed.
            Refused, PartialCommit, InDoubt: the winner did not commit, or not entirely.
            UsageError: the choice is no branch that succeeded.
            BaseException: the exception of `choose`.
        """
        driver, parent = self._driver, self._driver.kernel.callers.inside()
        known: dict[str, Any] = {**self._options, "known": False, "hooks": (), "retry": False, "name": self._name}
        choice: Attempt = yield from driver.entrance.begin(**known, role="choice", parent=parent)
        try:
            value = yield from self._under(choice, parent)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._drop(choice)
            raise
        yield from self._drop(choice)
        return value

    def _drop(self, choice: Attempt) -> Program[None]:
        if choice.live.state is State.OPEN:
            yield from self._driver.settling.commit(choice)  # the hold touched nothing: committing it only releases it

    def _under(self, choice: Attempt, parent: int) -> Program[Any]:
        attempts: list[Attempt] = []
        try:
            options: dict[str, Any] = {
                **self._options,
                "retry": True,
                "declared": (),
                "group": choice.live.id,
                "parent": parent,
            }
            for number in range(len(self._bodies)):
                options["name"] = f"{self._name}~{number}"
                attempts.append((yield from self._driver.entrance.begin(**options)))
            before = next((n for n, attempt in enumerate(attempts) if attempt.replay is not None), None)
            if before is not None:
                return (yield from self._replay(attempts, before))
            return (yield from self._choose_among(attempts))
        except GeneratorExit:
            raise
        except BaseException as error:
            yield from self._driver.selection.discard_all(attempts, cause=in_words(error))
            raise

    def _replay(self, attempts: list[Attempt], winner: int) -> Program[Any]:
        """Answer from the record: a branch has committed before, and nothing is chosen twice."""
        yield from self._driver.selection.discard_all([a for n, a in enumerate(attempts) if n != winner], cause=LOST)
        attempt = attempts[winner]
        return (yield Act(self._bodies[winner](Part(attempt, attempt.numbering)), {}, None))

    def _choose_among(self, attempts: list[Attempt]) -> Program[Any]:
        branches = [self._branch(attempts, number, body, self._tries) for number, body in enumerate(self._bodies)]
        ended: list[Ended] = yield Together(branches)
        raise_interrupt(ended)
        failed = [end.error for end in ended if isinstance(end.error, Exception)]
        if len(failed) == len(ended):
            raise ExceptionGroup(f"every branch of {self._name} failed: nothing was chosen", failed)
        results = [end.value if end.error is None else end.error for end in ended]
        winner = self._checked((yield self._driver.kernel.callers.asking(self._name, self._choose, results)), ended)
        losers = [a for n, a in enumerate(attempts) if n != winner]
        yield from self._driver.selection.choose(None if winner is None else attempts[winner], losers, cause=LOST)
        return None if winner is None else ended[winner].value

    def _branch(self, attempts: list[Attempt], number: int, body: Body, tries: int) -> Program[Any]:
        """Run one branch, and put the attempt it ended in into the list."""

        def entered(part: Part) -> Callable[[], Any]:
            attempts[number] = part.attempt
            return body(part)

        return self._driver.runs.branch(attempts[number], entered, tries=tries)

    def _checked(self, winner: Any, ended: list[Ended]) -> int | None:
        if winner is None:
            return None
        if isinstance(winner, bool) or not isinstance(winner, int) or not 0 <= winner < len(ended):
            raise UsageError(
                f"choose= answered {winner!r} about {self._name}: give the index of one of its {len(ended)}"
                " branches, from 0, or None for none; all of them were undone"
            )
        if ended[winner].error is not None:
            raise UsageError(
                f"choose= answered {winner} about {self._name}, and that branch failed: choose one whose result is no"
                " exception, or None; all of them were undone"
            ) from ended[winner].error
        return winner


__all__ = ["Speculation"]
