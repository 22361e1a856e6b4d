"""The tools of all agents: what they do, the counterparty logs, with the name of whoever it is done for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.evidence._cells import Cells

from settlemark import current_call, effect


def tools_of(cells: Cells) -> SimpleNamespace:
    """Return the tools, of one counterparty."""

    async def unwrite(cell: str) -> None:
        cells.undo(cell, who())

    async def unlock(cell: str) -> None:
        cells.note("unlock", who(), name=cell)

    @effect("read", scope="cell:/{cell:path}")
    async def look(cell: str) -> Any:
        return cells.read(cell, who())

    @effect("staged", scope="cell:/{cell:path}")
    async def put(cell: str, value: Any) -> None:
        cells.write(cell, value, who())

    @effect("reversible", scope="cell:/{cell:path}", undo=unwrite)
    async def write(cell: str, value: Any, latency: float = 0, place: int = 0) -> None:
        await asyncio.sleep(latency)
        cells.write(cell, value, who(), place=place)

    @effect("irreversible", scope="mail:/{to:path}")
    async def send(to: str, text: str) -> None:
        cells.note("send", who(), to=to, text=text)

    @effect("reversible", scope="lock:/{cell:path}", undo=unlock)
    async def lock(cell: str) -> None:
        cells.note("lock", who(), name=cell)

    return SimpleNamespace(look=look, put=put, write=write, send=send, lock=lock)


def who() -> str:
    """Return for whom a tool acts: a transaction, and which attempt of it."""
    call = current_call()
    assert call is not None
    return f"{call.transaction}#{call.attempt}"


__all__ = ["tools_of", "who"]
