"""In whose call a caller runs: what such a caller must not wait for, since that would wait for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from settlemark._acts.bodies import asked_for, names_asked_for
from settlemark._acts.current import current_call
from settlemark._acts.requests import Act
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Inside, inside_of
from settlemark._protocol.holdings import Blocked, Txn
from settlemark._protocol.ties import callers, refuse_to_wait
from settlemark.ledger._local import Local


class Callers:
    """Says in which call of which transaction a caller runs.

    Args:
        asker: stands for the driver, to functions of users that it asks.
        prefix: tells its ledger and namespace from others.
        local: looks at this process's protocol.
        attempts: what this process is at, by transaction.
    """

    def __init__(self, asker: object, prefix: str, local: Local, attempts: Mapping[Txn, Attempt]) -> None:
        self._asker = asker
        self._prefix = prefix
        self._local = local
        self._attempts = attempts

    def inside(self) -> int:
        """Return the number of the transaction in whose call the caller runs, or 0."""
        inside = self.outer()
        return 0 if inside is None else inside.attempt.live.id

    def outer(self) -> Inside | None:
        """Return where in the call of an unfinished transaction of this driver the caller runs, or None."""
        inside = inside_of(current_call())
        if inside is None or inside.over or inside.attempt.txn is None:
            return None
        return inside if self._attempts.get(inside.attempt.txn) is inside.attempt else None

    def asking(self, name: str, function: Callable[..., Any], /, *given: Any) -> Act:
        """Return the request to ask a function of the user's for a transaction of this name: it is no call of a tool.

        A function that waits for the end of that transaction would wait for itself, as in a call.
        """
        return Act(partial(function, *given), {}, None, around=partial(asked_for, self._asker, name))

    def is_within(self, txn: Txn) -> bool:
        """Whether a transaction cannot end before the caller has returned: he runs in a call of it, or is asked."""
        inside, names = self.inside(), names_asked_for(self._asker)
        if self._is_in_anothers(txn):
            return True
        if not (inside or names):
            return False
        with self._local as protocol:
            asked = [protocol.named[name].id for name in names if name in protocol.named]
            if txn.group in asked and protocol.by_id[txn.group].role == "choice":
                return True  # it ends when it is chosen, or not
            return any(caller is txn for number in (inside, *asked) for caller in callers(protocol.by_id, number))

    def _is_in_anothers(self, txn: Txn) -> bool:
        """Whether the caller runs in a call of a transaction that another settlement of this process works on."""
        inside = inside_of(current_call())
        if inside is None or inside.over or not inside.attempt.worker:
            return False
        theirs = inside.attempt.prefix, inside.attempt.name, inside.attempt.worker
        return theirs == (self._prefix, txn.name, txn.owner)

    def time_for(self, txn: Txn, seconds: float) -> float:
        """Return for how long the caller may wait for the end of a transaction: within it, not at all."""
        return 0.0 if self.is_within(txn) else seconds

    def refuse_wait_within(self, attempt: Attempt, blocked: Blocked) -> None:
        """Return when whom an attempt is to wait for can end while the caller waits, as far as he runs in it.

        Raises:
            Entangled: it cannot.
        """
        holder = blocked.holder
        if holder is not attempt.txn and self.is_within(holder):
            refuse_to_wait(attempt.name, blocked)


__all__ = ["Callers"]
