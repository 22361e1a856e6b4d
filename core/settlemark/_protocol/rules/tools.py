"""The tool registry is a resource: a planned call reads the tool, and a change of the tool makes that read stale.

So no transaction commits a call of a tool that was replaced or revoked after the call was planned. A pinned tool
(`guards.tools`) survives a change, never a revocation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from settlemark._edges.errors import Revoked
from settlemark._model.scope import Scope, escape
from settlemark._protocol.holdings import Binding, Txn
from settlemark._protocol.states import Reason

if TYPE_CHECKING:
    from settlemark._protocol.board import Board
    from settlemark._protocol.rules.abort import Aborts


class Tools:
    """Knows the current tools, and the tools that each transaction planned to call.

    Attributes:
        bindings: the current bindings of changed tools.
        changes: the number of tool changes.
        revoked: the revoked tools.
        owed: the tools that fulfil something which was ever owed; "" for what no tool does.
    """

    def __init__(self, board: Board, aborts: Aborts) -> None:
        self.bindings: dict[str, Binding] = {}
        self.changes = 0
        self.revoked: set[str] = set()
        self.owed: set[str] = set()
        self._board = board
        self._aborts = aborts

    def plan(self, txn: Txn, tool: str, signature: str, number: int) -> None:
        """Record that a transaction planned to call a tool, as the tool was after so many changes.

        Raises:
            Revoked: the tool is revoked; nothing moved.
        """
        if tool in self.revoked:
            raise Revoked(
                f"{tool} was revoked: it was not run; choose another tool, or settlement.reinstate({tool!r})",
                transaction=txn.name,
                tool=tool,
            )
        if tool not in txn.tools:
            txn.tools[tool] = Binding(number, signature)

    def changed(self, txn: Txn) -> str | None:
        """Return a planned tool of a transaction that has changed since, or None."""
        for tool, planned in txn.tools.items() if txn.guards.tools == "checked" else ():
            if self.bindings.get(tool, planned).number > planned.number:
                return tool
        return None

    def rebind(self, tool: str, signature: str) -> None:
        """Record a change of a tool; a revoked tool stays revoked."""
        self.changes += 1
        self.bindings[tool] = Binding(self.changes, signature)

    def revoke(self, tool: str) -> None:
        """Revoke a tool until it is reinstated, and abort unsettled transactions that plan to call it."""
        self.revoked.add(tool)
        for txn in list(self._board.live.values()):
            if tool in txn.tools and txn.guards.tools != "any":
                remedy = f"choose another tool, or settlement.reinstate({tool!r})"
                self.phantom(txn, tool, "was revoked", remedy)

    def reinstate(self, tool: str) -> None:
        """Reinstate a revoked tool."""
        self.revoked.discard(tool)

    def owe(self, tool: str) -> None:
        """Record that something is owed which a tool fulfils."""
        self.owed.add(tool)

    def phantom(self, txn: Txn, tool: str, how: str, remedy: str) -> None:
        """Abort a transaction if a tool it plans to call was changed or removed."""
        self._aborts.abort(txn, Reason.STALE, phantom(tool, how, remedy))


def phantom(tool: str, how: str, remedy: str) -> dict[str, Any]:
    """Return the abort's details for a transaction whose planned tool was changed or removed."""
    scope = Scope.parse(f"registry:/tool/{escape(tool)}")
    return {"scope": scope, "how": f"{how} after the call was planned", "remedy": remedy}


__all__ = ["Tools", "phantom"]
