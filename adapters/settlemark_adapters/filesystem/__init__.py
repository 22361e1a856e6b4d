"""Files below a root, as tools that are undone to the byte or written at the commit, and never act twice.

A write lands by one rename. Before that, a record of it and the previous contents are on disk, in `.settlemark` below
the root, under the key of the call: so a new process knows what an old one did, and undoes it.
"""

from __future__ import annotations

from settlemark_adapters.filesystem._filesystem import Filesystem

__all__ = ["Filesystem"]
