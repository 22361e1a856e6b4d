"""A plan based on something that has changed since does not act, and does not commit: rules (2) and (3) of the commit.

Every read is current (no overlapping write of another has committed since) and every planned tool is as it was. Both
are checked before an eager effect runs, and last of all in the step of the commit decision. What a run read in earlier
turns counts for a transaction that writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settlemark._protocol.rules.tools import phantom
from settlemark._protocol.states import Reason

if TYPE_CHECKING:
    from settlemark._protocol.board import Board
    from settlemark._protocol.holdings import Txn
    from settlemark._protocol.rules.abort import Aborts
    from settlemark._protocol.rules.tools import Tools


class Staleness:
    """Finds what has changed under a transaction, and aborts the transaction for it."""

    def __init__(self, board: Board, tools: Tools, aborts: Aborts) -> None:
        self._board = board
        self._tools = tools
        self._aborts = aborts

    def found(self, txn: Txn, *, planned: bool) -> dict[str, Any] | None:
        """Return why a transaction is stale, or None; its run's earlier reads count if `planned`."""
        if self._tools.bindings and (wrong := self.found_tool(txn)):
            return wrong
        if txn.low is None or not txn.guards.current:  # it has read nothing, or may act on what has changed
            return None
        scope = self._board.versions.changed(txn, planned=planned)
        return None if scope is None else {"scope": scope}

    def found_tool(self, txn: Txn) -> dict[str, Any] | None:
        """Return why a transaction with a changed planned tool is stale, or None."""
        tool = self._tools.changed(txn)
        return None if tool is None else phantom(tool, "was changed", "plan the call again")

    def refuse(self, txn: Txn, wrong: dict[str, Any] | None) -> None:
        """Abort a transaction for what was `found`; return if nothing was.

        Raises:
            Stale: something was found.
        """
        if wrong is not None:
            self._aborts.abort(txn, Reason.STALE, wrong)
            raise self._board.refusal(txn)


__all__ = ["Staleness"]
