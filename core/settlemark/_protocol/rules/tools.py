"""The tool registry is a resource: a planned call reads the tool as it was, and a change of it makes that read stale.

So no transaction commits a call of a tool that was replaced or revoked after the call was planned. A tool that is
pinned (`guards.tools`) survives a change, and never a revocation.
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
    """Knows what each tool is now, and what each transaction had planned to call.

    Attributes:
        bindings: of tools that were changed: what they are now.
        changes: of tools, in all.
        revoked: the tools that were taken away.
    """

    def __init__(self, board: Board, aborts: Aborts) -> None:
        self.bindings: dict[str, Binding] = {}
        self.changes = 0
        self.revoked: set[str] = set()
        self._board = board
        self._aborts = aborts

    def plan(self, txn: Txn, tool: str, signature: str, number: int) -> None:
        """Note that a transaction has planned to call a tool, as it was at a change of tools.

        Raises:
            Revoked: the tool is taken away; nothing moved.
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
        """Return a tool that a transaction has planned to call, and that is another one by now."""
        for tool, planned in txn.tools.items() if txn.guards.tools == "checked" else ():
            if self.bindings.get(tool, planned).number > planned.number:
                return tool
        return None

    def rebind(self, tool: str, signature: str) -> None:
        """Note that a tool is another one from now on; one that is revoked stays so."""
        self.changes += 1
        self.bindings[tool] = Binding(self.changes, signature)

    def revoke(self, tool: str) -> None:
        """Take a tool away until it is reinstated, and abort what has planned to call it and has not settled."""
        self.revoked.add(tool)
        for txn in list(self._board.live.values()):
            if tool in txn.tools and txn.guards.tools != "any":
                remedy = f"choose another tool, or settlement.reinstate({tool!r})"
                self.phantom(txn, tool, "was revoked", remedy)

    def reinstate(self, tool: str) -> None:
        """Give a tool back."""
        self.revoked.discard(tool)

    def phantom(self, txn: Txn, tool: str, how: str, remedy: str) -> None:
        """Abort a transaction one of whose planned calls is of a tool that is none, or another one, by now."""
        self._aborts.abort(txn, Reason.STALE, phantom(tool, how, remedy))


def phantom(tool: str, how: str, remedy: str) -> dict[str, Any]:
    """Return what is said of a transaction whose planned call is of a tool that is none, or another one, by now."""
    scope = Scope.parse(f"registry:/tool/{escape(tool)}")
    return {"scope": scope, "how": f"{how} after the call was planned", "remedy": remedy}


__all__ = ["Tools", "phantom"]
