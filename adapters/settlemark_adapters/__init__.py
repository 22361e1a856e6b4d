"""Ready-made tools for outside systems: what each call touches, and how it is undone, probed and released.

One module for each counterparty; import the one you need, as in `from settlemark_adapters.filesystem import
Filesystem`. Each is usable as tools of any framework (`Filesystem(root, settlement).tools()`), as declarations for
functions of your own (`files.declare("write_file", save_report, path="name")`), and bare (`files.write("a.txt", "…")`).
"""

from __future__ import annotations

from settlemark_adapters._adapter import Adapter, Operation, Parts, operation

__all__ = ["Adapter", "Operation", "Parts", "operation"]
