"""The base of adapters that keep at their counterparty, under each call's key, what probing and undoing need."""

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
from settlemark_adapters._spans import span


class Keeping(Adapter):
    """Makes orders under keys, and removes old records of them.

    Args:
        settlement, name, effects: as for every `Adapter`.
        staged: its writes are staged: nothing is done before the commit.
        keep_days: days for which the record under a key is kept.

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
        self._kept_seconds = span("keep_days", keep_days, "days") * DAY
        self._swept = 0.0
        super().__init__(settlement, name=name, effects=self._told_effects(effects or {}, staged=staged))
        self._sweep()

    def prune(self, days: float) -> int:
        """Remove records older than so many days, and return of how many acts.

        A record has what was there before, and that the act happened: it is needed until its transaction has settled,
        and kept for `keep_days`, since an adapter does not learn of that. So prune younger ones only when you know that
        nothing is open, in doubt or parked. Older ones are removed automatically, some time after.
        """
        return self._forget(days * DAY)

    @abstractmethod
    def _forget(self, older_than: float) -> int:
        """Remove records older than so many seconds, and return of how many acts."""

    def _sweep(self) -> None:
        """Now and then remove records that nobody asks for any more."""
        if time.time() - self._swept > DAY:
            self._swept = time.time()
            with suppress(OSError):  # the next time, or by hand
                self._forget(self._kept_seconds + DAY)

    # ---- orders

    def _order(self, tool: str, about: str, arguments: Mapping[str, Any]) -> Order:
        return Order.of(self._prefix + tool, repr(about), arguments)

    def _order_theirs(self, about: str) -> Order:
        """Return the order for a user's own function."""
        return Order.of(tool_running(self._standing_for) or "a function", repr(about), {"about": about})

    def _waits(self) -> bool:
        """Whether the running call acts at the commit, so that its check has to look at the present state.

        An eager call looks when it acts, after the calls before it.
        """
        effect = running()
        return effect is not None and effect.declaration.held

    def _staged(self, scope: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what the running transaction has staged below a scope: unprefixed tools, and their arguments."""
        call = current_call()
        for request in call.staged(scope) if call is not None else ():
            if request.tool in self._standing_for:
                tool, renamed = self._standing_for[request.tool]
                yield tool, {renamed.get(name, name): value for name, value in request.items()}

    # ---- making

    def _made(
        self, known: Operation[Any, Any], function: Callable[..., Any], name: str, renamed: Mapping[str, str]
    ) -> Callable[..., Any]:
        if getattr(function, "__self__", None) is self:  # its own methods record what an undo needs
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
                # After that nothing is on record, and finding nothing would prove nothing.
                usual = {"window": self._kept_seconds} | ({"kind": "staged"} if staged else {})
                told[tool] = {**usual, **told.get(tool, {})}
        return told


__all__ = ["Keeping"]
