"""Objects of any fsspec store, as tools: versions are kept for undoing, and content is moved into place.

No store keeps two objects in step, nor a mark beside one. So new content is written under `.settlemark/` first, with
the previous content and a record of both digests; only then it is moved to its key. A probe compares the present
content with the two.
"""

from __future__ import annotations

from settlemark_adapters.objects._objects import Objects

__all__ = ["Objects"]
