"""The demo's tests are for who has its extra."""

from __future__ import annotations

from importlib.util import find_spec

_NEEDED = ("langgraph", "langchain", "aiosmtpd", "matplotlib")

collect_ignore = [] if all(find_spec(name) for name in _NEEDED) else ["test_demo.py", "test_live.py"]
