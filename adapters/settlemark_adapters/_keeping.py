"""An adapter that keeps at its counterparty, under each call's key, what it needs to find and undo the call."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from settlemark import EffectClass, Settlement, current_call
from settlemark.hosting import EffectName
from settlemark_adapters._adapter import Adapter, Operation
from settlemark_adapters._keyed import DAY, Order, running, tool_running


class Keeping(Adapter):
    """The part of an adapter that gives orders under keys, and forgets what it kept when that is old.

    Args:
        settlement, name, effects: as for every `Adapter`.
        staged: its writes are staged: nothing is done before the commit.
        keep_days: for how long what is kept under a key is kept.

    Raises:
        ValueError: `keep_days` is no number of days.
    """

    def __init__(
        self,
        settlement: Settlement | None = None,
        *,
        staged: bool = False,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
        keep_days: float = 30.0,
    ) -> None:
        if keep_days <= 0:
            raise ValueError(f"keep_days={keep_days!r}: give a number of days above 0")
        self._kept_seconds = keep_days * DAY
        self._swept = 0.0
        super().__init__(settlement, name=name, effects=self._told_effects(effects or {}, staged=staged))
        self._sweep()

    def prune(self, days: float) -> int:
        """Forget what was done longer than so many days ago, and return of how many acts.

        What is kept of an act is what was there before, and that it happened: it is needed until its transaction has
        settled, and kept for `keep_days`, as nobody tells an adapter of that. So prune what is younger when you know
        that nothing is open, in doubt or parked. Older ones go by themselves, some time after.
        """
        return self._forget(days * DAY)

    @abstractmethod
    def _forget(self, older_than: float) -> int:
        """Forget what was kept longer ago than so many seconds, and return of how many acts."""

    def _sweep(self) -> None:
        """Forget now and then what nobody asks for any more."""
        if time.time() - self._swept > DAY:
            self._swept = time.time()
            with suppress(OSError):  # the next time, or by hand
                self._forget(self._kept_seconds + DAY)

    # ---- orders

    def _order(self, tool: str, about: str, arguments: Mapping[str, Any]) -> Order:
        return Order.of(self._prefix + tool, repr(about), arguments)

    def _order_theirs(self, about: str) -> Order:
        """Return the order that a function of the user's own carries out."""
        return Order.of(tool_running(self._standing_for) or "a function", repr(about), {"about": about})

    def _waits(self) -> bool:
        """Whether the running call acts at the commit, so that its check has to look at what is there now.

        One that acts at once looks when it acts, behind whoever is before it.
        """
        effect = running()
        return effect is not None and effect.declaration.held

    def _staged(self, scope: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what the running transaction has staged below a scope: tools, unprefixed, and their arguments."""
        call = current_call()
        for request in call.staged(scope) if call is not None else ():
            if request.tool in self._standing_for:
                tool, renamed = self._standing_for[request.tool]
                yield tool, {renamed.get(name, name): value for name, value in request.items()}

    # ---- making

    def _made(
        self, known: Operation[Any, Any], function: Callable[..., Any], name: str, renamed: Mapping[str, str]
    ) -> Callable[..., Any]:
        if getattr(function, "__self__", None) is self:  # its own methods keep what an undo needs with the act
            parts = known.parts.copy()
            parts.pop("around", None)
            known = Operation(known.tool, known.kind.value, parts, known.method)
        return super()._made(known, function, name, renamed)

    def _told_effects(
        self, effects: Mapping[str, EffectName | Mapping[str, Any]], *, staged: bool
    ) -> dict[str, Mapping[str, Any]]:
        told: dict[str, Mapping[str, Any]] = {
            tool: {"kind": own} if isinstance(own, str) else own for tool, own in effects.items()
        }
        for tool, known in self.operations().items():
            if known.kind is not EffectClass.READ:
                # Past it nothing is on record, and finding nothing would prove nothing.
                usual = {"window": self._kept_seconds} | ({"kind": "staged"} if staged else {})
                told[tool] = {**usual, **told.get(tool, {})}
        return told


__all__ = ["Keeping"]
