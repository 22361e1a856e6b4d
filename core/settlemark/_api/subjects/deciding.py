"""Deciding: what a transaction's decision says, and how it is named."""
# ruff: noqa: SLF001 - a part of a transaction: it reads its other parts

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from settlemark._acts.decision import Decision
from settlemark._edges.errors import UsageError
from settlemark._edges.given import several
from settlemark._edges.text import brief, prose
from settlemark._model import json_text
from settlemark._model.scope import Scope

if TYPE_CHECKING:
    from settlemark._attempt.attempt import Attempt

_LONGEST = 360
_DIGITS = 16


class Deciding:
    """The part of a transaction that decides."""

    def decide(
        self,
        title: str,
        *,
        because: str | None = None,
        alternatives: Iterable[Any] = (),
        policy: str | None = None,
        grounds: Iterable[Any] = (),
    ) -> Decision:
        """Return a decision: what is called `with decision:` is recorded as its effects. See `Settlement.why`.

        Args:
            title: what is decided.
            because: why.
            alternatives: what else there was, each as JSON.
            policy: the policy's name and version.
            grounds: what it stands on: a `Scope` that was read (its version is recorded, so that a later change shows),
                an earlier effect (anything with a `key`), or a document, as JSON.

        Raises:
            UsageError: the title is empty, or something cannot be JSON; nothing is recorded.

        >>> from settlemark import Scope, Settlement, effect
        >>> @effect("opaque")
        ... def sweep(fund): return fund
        >>> settlement = Settlement("memory:")
        >>> with settlement.transaction("treasury") as tx:
        ...     with tx.decide("sweep to A", because="it yields more", grounds=[Scope.parse("rate:/A")]):
        ...         _ = tx.call(sweep, fund="A")
        >>> (key,) = [effect.row.key for effect in settlement.transactions()[0].effects]
        >>> settlement.why(key).because
        'it yields more'
        """
        if not isinstance(cast("object", title), str) or not title.strip():
            raise UsageError("a decision has no title: say what is decided, as in tx.decide('sweep to fund A')")
        for what, text in (("because", because), ("policy", policy)):
            if text is not None and not isinstance(cast("object", text), str):
                raise UsageError(f"{what}= of a decision is {brief(text)}: say it in words; nothing is recorded")
        told = {
            "title": prose(title),
            "because": None if because is None else prose(because),
            "alternatives": json_text.snapshot(several(alternatives, "alternatives= of a decision")),
            "policy": None if policy is None else prose(policy),
            "grounds": [self._ground(ground) for ground in several(grounds, "grounds= of a decision")],
        }
        body = json_text.encode(told)
        attempt = cast("Attempt", cast("Any", self)._attempt)
        step = attempt.step
        if len(step) > _LONGEST:
            step = hashlib.sha256(step.encode()).hexdigest()
        digest = hashlib.sha256(body.encode()).hexdigest()[:_DIGITS]
        return Decision(attempt, f"{step}~{digest}", title, body)

    def _decision_for(self, kwargs: dict[str, Any]) -> Decision | None:
        """Take the decision out of a call's arguments, or return the one in whose block this is.

        Raises:
            UsageError: it is one of another transaction; nothing was run.
        """
        attempt = cast("Attempt", cast("Any", self)._attempt)
        if not isinstance(kwargs.get("decision"), Decision):
            return Decision.here(attempt)
        found: Decision = kwargs.pop("decision")
        if not found.is_of(attempt):
            raise UsageError(
                f"the decision {found.title!r} is not of this attempt of {attempt.name}: nothing was run;"
                " decide in the transaction that calls",
                transaction=attempt.name,
            )
        return found

    def _ground(self, ground: Any) -> dict[str, Any]:
        if isinstance(ground, Scope):
            with cast("Any", self)._host.driver.kernel.local as protocol:
                return {"scope": ground.text, "version": protocol.version(ground)}
        key = getattr(ground, "key", None)
        if isinstance(key, str):
            return {"effect": key}
        return {"document": json_text.snapshot(ground)}


__all__ = ["Deciding"]
