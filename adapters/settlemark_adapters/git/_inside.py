"""Where a tool runs: in which transaction, eager or at its release; and how it enlists what is to follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from settlemark import Settlement, current_call
from settlemark.hosting import inside_of, step_in
from settlemark_adapters.git._faults import GitFault


@dataclass(frozen=True, slots=True)
class Acting:
    """On whose behalf a tool acts.

    Attributes:
        key: the call's; a bare call has one of its own.
        name: the transaction's, with its attempt, its ledger and its namespace.
        bare: there is no transaction.
        held: it runs at the commit of its transaction, where nothing more can be enlisted.
    """

    key: str
    name: str
    bare: bool
    held: bool


def acting(key: str) -> Acting:
    """Return on whose behalf the running call acts: a tool's, a handler's, or only its caller's."""
    call = current_call()
    inside = inside_of(call)
    if inside is not None:
        return Acting(key, inside.attempt.step, bare=False, held=inside.effect.held)
    return Acting(key, step_in(key) or key, bare=call is None, held=False)


def enlist(settlement: Settlement | None, scopes: Sequence[str], follow: Callable[..., Any], **arguments: Any) -> None:
    """Hold a call for the commit of the running call's transaction, after what leaves on these scopes.

    Raises:
        GitFault: the tools were not given the settlement that calls them; nothing was done.
    """
    refusal = GitFault(
        "this adapter does not know the settlement that calls it: make it as Git(repository, settlement)"
    )
    if settlement is None:
        raise refusal
    with settlement.transaction() as part:
        if not part.joined:
            raise refusal
        for scope in scopes:
            part.read(scope)
        part.call(follow, **arguments)


__all__ = ["Acting", "acting", "enlist"]
