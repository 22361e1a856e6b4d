"""Objects of any store that fsspec knows, as tools: versions are kept for undoing, and content is moved into place.

No store keeps two objects in step, nor a mark beside one. So what is put is written under `.settlemark/` first, with
what was there before and a record of both their digests; only then it is moved to its key. Whoever asks afterwards
compares what is there with the two.
"""

from __future__ import annotations

from settlemark_adapters.objects._objects import Objects

__all__ = ["Objects"]
