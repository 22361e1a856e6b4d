"""These tests are for who has DBOS, and a mail server to send to."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if all(find_spec(name) for name in ("dbos", "aiosmtpd")) else ["test_inside_dbos.py"]
# A process to be started, with modules that its tests need not have.
collect_ignore.append("worker.py")
