"""Injects faults into a settlement's steps: the n-th act on the world fails, or kills its process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar, cast

from settlemark._acts.effect import Effect
from settlemark._api.host import Host
from settlemark._api.settings import Settings
from settlemark._api.settlement import Settlement
from settlemark._api.toolbox import Toolbox
from settlemark._model.declaration import Declaration
from settlemark._model.declare import bear, declaration_of
from settlemark._model.effect_class import EffectClass
from settlemark.ledger import Ledger
from settlemark.testing._steps import Fault, InjectedFault, InjectedTimeout, Role, Step, Steps

_F = TypeVar("_F", bound=Callable[..., Any])


class FaultInjector:
    """Counts the steps of a settlement, and makes the chosen ones fail.

    Args:
        faults: the faults; each strikes once, `refused` for good.
        first: the number of the first step, where others were before.
        on_step: called with each step, before anything is done.
        on_strike: called with each fault, before it strikes.
        refusal, lost: make the errors that the agent sees from a sentence: an HTTP client's own, for example.

    Laws: without faults nothing changes but the count. A step is counted once, however it is reached. Reads and probes
    are no steps; undos, releases and commits are.

    >>> from settlemark import effect
    >>> rooms = []
    >>> @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: rooms.remove(hotel))
    ... def reserve(hotel): rooms.append(hotel)
    >>> injector = FaultInjector(Fault(2, "before"))
    >>> with injector.settlement("memory:") as settlement:
    ...     with settlement.transaction("trip-42") as tx:
    ...         tx.call(reserve, hotel="Ada")
    ...         tx.call(reserve, hotel="Bee")
    Traceback (most recent call last):
    settlemark.testing._steps.InjectedFault: step 2, reserve, fails: nothing was done
    >>> (rooms, [str(step) for step in injector.steps])
    ([], ['1. reserve', '2. reserve', '3. reserve (undo)'])
    """

    def __init__(
        self,
        *faults: Fault,
        first: int = 1,
        on_step: Callable[[Step], object] | None = None,
        on_strike: Callable[[Fault], object] | None = None,
        refusal: Callable[[str], Exception] = InjectedFault,
        lost: Callable[[str], Exception] = InjectedTimeout,
    ) -> None:
        self._steps = Steps(faults, first=first, on_step=on_step, on_strike=on_strike, refusal=refusal, lost=lost)

    @property
    def steps(self) -> list[Step]:
        """The steps that have begun, in order."""
        return list(self._steps.begun)

    @property
    def struck(self) -> list[Fault]:
        """The faults that have struck."""
        return list(self._steps.struck)

    def settlement(self, url: str, **options: Any) -> Settlement:
        """Return a `Settlement` whose every step is counted, whatever framework makes its calls."""
        return _InjectedSettlement(self._steps, url, **options)

    def wrap(self, function: _F) -> _F:
        """Return the tool with its call, undo and release as counted steps: for settlements made elsewhere.

        It keeps its `@effect` declaration; a read tool is returned as it is.

        >>> injector = FaultInjector(Fault(1, "after"))
        >>> injector.wrap(print)("booked")
        Traceback (most recent call last):
        settlemark.testing._steps.InjectedTimeout: step 1, print, has no answer: it was done
        """
        declaration = declaration_of(function)
        if declaration is not None and declaration.kind is EffectClass.READ:
            return function
        tool = str(getattr(function, "__name__", function)) if declaration is None else declaration.tool
        wrapped = self._steps.around(tool, lambda: "call", function)
        if declaration is not None:
            bear(wrapped, replace(self._steps.handled(declaration), function=wrapped))
        return cast("_F", wrapped)


class _InjectedSettlement(Settlement):
    """A settlement whose every step is counted."""

    def __init__(self, steps: Steps, url: str, **options: Any) -> None:
        self._steps = steps
        super().__init__(url, **options)

    def _hosted(self, settings: Settings) -> Host:
        return _InjectedHost(self._steps, settings)


class _InjectedHost(Host):
    """A host whose commits are steps."""

    def __init__(self, steps: Steps, settings: Settings) -> None:
        self._steps = steps
        super().__init__(settings, partial(_InjectedToolbox, steps))

    def options(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        options = super().options(*args, **kwargs)
        hooks: Iterable[Any] = options["hooks"]
        return {**options, "hooks": (*hooks, self._steps.commit)}


class _InjectedToolbox(Toolbox):
    """A toolbox whose tools' calls and handlers are steps."""

    def __init__(self, steps: Steps, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._steps = steps

    def effect_of(
        self,
        declaration: Declaration,
        arguments: dict[str, Any],
        run_tool: Callable[[], Any],
        *,
        run: str,
        call_id: str | None = None,
    ) -> Effect:
        effect = super().effect_of(declaration, arguments, run_tool, run=run, call_id=call_id)
        if declaration.kind is EffectClass.READ:
            return effect
        effect.declaration = self._steps.handled(declaration)
        return _InjectedEffect(self._steps, {name: getattr(effect, name) for name in _PARTS})

    def recorded_as(self, tool: str, version: str | None = None) -> Declaration | None:
        found = super().recorded_as(tool, version)
        if found is None or found.kind is EffectClass.READ:
            return found
        function = found.function
        if function is not None:
            function = self._steps.around(tool, lambda: "call", function)
        return replace(self._steps.handled(found), function=function)


class _InjectedEffect(Effect):
    """An effect whose `run` is a step, also when an integration sets it later."""

    __slots__ = ("steps",)

    def __init__(self, steps: Steps, parts: Mapping[str, Any]) -> None:
        self.steps = steps
        super().__init__(**parts)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "run":
            value = self.steps.around(self.declaration.tool, self._role, value)
        super().__setattr__(name, value)

    def _role(self) -> Role:
        return "release" if self.held else "call"


_PARTS = tuple(part.name for part in fields(Effect))
