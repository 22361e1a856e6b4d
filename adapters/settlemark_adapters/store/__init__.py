"""An agent's memory in a LangGraph `BaseStore`, or in blocks that agents share: versioned, and no update is lost.

A value carries the mark of its last writer: a version, the key of the writing call, and a digest. A write reads,
edits and puts back under the engine's claim on that one name, so two agents never edit the same old text; its
`expected_version` is compared there. What an undo needs is in the store before the value changes, under the key.

A `BaseStore` itself cannot compare and set. So what holds, holds between all who write through a settlement on one
ledger, in however many processes. Who writes past it is not kept out, but seen: the digest no longer fits, an undo
then refuses to overwrite, and a read that was acted on is stale. Calls without a settlement exclude each other only
within one `Store`.

>>> from settlemark import Settlement
>>> from settlemark_adapters.store import Store
>>> blocks = {}
>>> settlement = Settlement("memory:")
>>> memory = Store(blocks, settlement)
>>> with settlement.transaction("notes-1") as tx:
...     tx.call(memory.append, namespace="team", name="plan", text="Ada books the room")
{'version': '1'}
>>> memory.get("team", "plan")
{'value': {'text': 'Ada books the room'}, 'version': '1'}
"""

from __future__ import annotations

from settlemark_adapters.store._blocks import BaseStore, Block, Blocks
from settlemark_adapters.store._faults import ChangedOutside, MemoryFault, StoreLost, VersionMoved
from settlemark_adapters.store._store import Store

__all__ = ["BaseStore", "Block", "Blocks", "ChangedOutside", "MemoryFault", "Store", "StoreLost", "VersionMoved"]
