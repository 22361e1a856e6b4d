"""A run that can be steered: its steps are transactions, and before each it hears what was said to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_park, checked_text
from settlemark._api.host import Host
from settlemark._api.opening import Opening
from settlemark._attempt.attempt import Hook, OnFailure
from settlemark._edges.errors import UsageError
from settlemark._lifecycle.parking import Park
from settlemark._model import json_text
from settlemark._model.scope import Scope
from settlemark._steering.listening import Listener
from settlemark._steering.message import Steering
from settlemark._steering.steers import Place

_STEP = "a step's name is a text, as in run.step('4')"


class SteeredRun:
    """A run that can be steered, as its program sees it: see `Settlement.steered`."""

    def __init__(self, host: Host, listener: Listener) -> None:
        self._host = host
        self._listener = listener

    @property
    def name(self) -> str:
        """The run's id."""
        return self._listener.run

    @property
    def said(self) -> tuple[Steering, ...]:
        """What the run has been told by the step that it is in: for the next call of the model, in one order.

        A step that stands from before is told what it was told then; one that is decided now is told everything.
        """
        return self._listener.said

    @property
    def executor(self) -> Any:
        """What the program keeps of itself; in a run that was paused, what it kept then. None: nothing."""
        return self._listener.executor

    @property
    def environment(self) -> Any:
        """What the program keeps of its surroundings, as `executor` does."""
        return self._listener.environment

    def keep(self, *, executor: Any = None, environment: Any = None) -> None:
        """Say what is to be on record when the run is paused, each as JSON; what is None stays as it was.

        Args:
            executor: what the program needs of itself to go on: the messages of its model, its notes.
            environment: what it needs of its surroundings: the id of a sandbox that is stopped, not destroyed.

        Raises:
            PayloadError: JSON cannot hold it; what was kept before stays.
        """
        for value in (executor, environment):
            json_text.check(value)
        if executor is not None:
            self._listener.executor = json_text.snapshot(executor)
        if environment is not None:
            self._listener.environment = json_text.snapshot(environment)

    def step(
        self,
        name: str,
        *,
        may_touch: str | Scope | Iterable[str | Scope] = (),
        before_commit: Hook | Sequence[Hook] = (),
        wait: float | None = None,
        on_failure: OnFailure | None = None,
        park: Park = "keep",
        agent: str | None = None,
    ) -> Opening:
        """Return a step of the run, to enter with `with` or `async with`: a transaction named `run/name`.

        Entering it is a boundary: what was said to the run is taken now, before anything of the step acts. If that
        undoes steps, the block is not entered, and the run's program is called again. A step that has committed is
        answered from the record; one that was undone is decided anew, in a transaction that is named `run/name~2`, in
        which what could not be undone of it is not done twice.

        Args:
            name: unique in the run, and the same when its program is called again; without "~".
            may_touch: scopes to hold from the start, so that nobody younger comes first.
            before_commit: hooks called with the `Footprint`; `False` or a reason vetoes.
            wait: seconds; the settlement's by default.
            on_failure: the settlement's by default.
            park: how it is put aside: see `Settlement.transaction`.
            agent: the name of the agent that acts in it: see `Settlement.halt`.

        Raises:
            UsageError: it is no such name, or, as it is entered, `run/name` is a transaction of another run; nothing
                was begun.
        """
        if "~" in checked_text(name, _STEP):
            raise UsageError(f"step({name!r}): leave out the ~, which tells a step that was undone from the next")
        options = self._host.options(
            f"{self.name}/{name}",
            self.name,
            may_touch=may_touch,
            before_commit=before_commit,
            wait=wait,
            on_failure=on_failure,
            agent=agent,
        )
        return Step(self._host, {**options, "independent": False}, checked_park(park), self._listener, name)

    def __repr__(self) -> str:
        return f"<SteeredRun {self.name}>"


class Step(Opening):
    """A step of a run that is about to begin."""

    def __init__(self, host: Host, options: dict[str, Any], park: Park, listener: Listener, step: str) -> None:
        super().__init__(host, options, park)
        self._listener = listener
        self._step = step
        self._given = options  # what is entered with, as the name is found

    def _beginning(self) -> Program[None]:
        place: Place = yield from self._listener.arrive(self._step, wait=self._given["wait"])
        self._given.update(name=place.name, carries=place.rewound)
        yield from super()._beginning()


__all__ = ["SteeredRun"]
