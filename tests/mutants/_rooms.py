"""Which files are mutated, room by room, and which tests are about them: the one table of both."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOTS = ("core", "adapters", "integrations")
_PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-x",
    "--no-header",
    "--tb=line",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:nbmake",
)
PYTEST = (*_PYTEST, "-n", "0", "--timeout", "60", "--hypothesis-seed", "0")


@dataclass(frozen=True)
class Room:
    """Files that are mutated together.

    Attributes:
        name: its name.
        sources: its files, as globs from the root of the checkout.
        tests: the tests about them, those first that fail first.
        aim: how many of a hundred mutants are to be noticed.
        command: what runs them.
    """

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    aim: int
    command: tuple[str, ...] = field(default=PYTEST)

    def files(self, root: Path) -> list[str]:
        """Return its files, as paths from the root."""
        found = {path.relative_to(root).as_posix() for glob in self.sources for path in root.glob(glob)}
        return sorted(file for file in found if not file.endswith(("__init__.py", "__main__.py")))

    def is_about(self, file: str) -> bool:
        """Whether a file is one of its tests."""
        return any(file == test or file.startswith(f"{test}/") for test in self.tests)


def _core(name: str, parts: str, tests: str, *more: str) -> Room:
    sources = tuple(f"core/settlemark/{part}" for part in parts.split())
    return Room(name, sources, (*(f"tests/core/{test}" for test in tests.split()), *more), 90)


def _adapter(name: str, *parts: str) -> Room:
    inside = parts or (f"{name}.py", f"{name}/*.py")
    return Room(name, tuple(f"adapters/settlemark_adapters/{part}" for part in inside), (f"tests/adapters/{name}",), 80)


def _shim(name: str) -> Room:
    sources = (f"integrations/settlemark_{name}/*.py",)
    return Room(name, sources, (f"tests/integrations/{name}", "tests/integrations/contract"), 80)


ROOMS = (
    _core(
        "protocol", "_protocol.py _index.py _states.py _versions.py _early.py",
        "test_protocol.py test_claims.py test_index.py test_states.py test_line.py test_refine.py test_early_reads.py"
        " test_guards.py test_freshness.py test_transaction.py explorer",
    ),
    _core(
        "driver",
        "_acting.py _aborting.py _attempt.py _batch.py _calling.py _driver.py _freshness.py _gating.py _leaving.py"
        " _orphans.py _parking.py _program.py _recovering.py _resolving.py _rewinding.py _sequencer.py _settling.py"
        " _splitting.py _tending.py _waiting.py",
        "test_transaction.py test_abort.py test_sequencer.py test_leaving.py test_leaving_last.py test_release.py"
        " test_gate.py test_gates.py test_unknown.py test_resolving.py test_parking.py test_orphans.py"
        " test_rewinding.py test_waiting.py test_tending.py test_freshness.py test_speculation.py test_nesting.py"
        " test_fence.py test_taking_up.py test_undo_faults.py crashes test_threads.py test_async.py",
    ),
    _core(
        "ledger", "ledger/*.py",
        "test_ledger_contract.py test_lease.py test_namespaces.py test_retention.py test_redaction.py"
        " test_encryption.py test_payloads.py test_shared_stores.py test_replica.py test_readonly_ledger.py"
        " test_windows.py test_deadlines.py test_closing.py test_forking.py test_blobs.py ledgers test_aging.py"
        " test_forgetting.py test_secrets.py test_declared_redaction.py test_migrating.py test_recoverable.py"
        " test_pending.py test_isolation.py test_failing.py crashes commands workers",
    ),
    _core("agents", "agents/*.py", "agents", "tests/integrations/contract"),
    *map(
        _adapter,
        ("browser", "filesystem", "git", "http", "objects", "payments", "queue", "records", "sql", "store", "webhook"),
    ),
    Room(
        "adapters",
        tuple(f"adapters/settlemark_adapters/_{part}.py" for part in ("adapter", "database", "keeping", "keyed")),
        (
            "tests/adapters/test_adapter.py", "tests/adapters/test_declaration_cost.py",
            "tests/adapters/filesystem/test_filesystem.py", "tests/adapters/objects/test_objects.py",
            "tests/adapters/sql",
        ),
        80,
    ),
    _adapter("mail", "mail.py", "_addresses.py"),
    _adapter("mcp", "mcp.py", "_mcp*.py"),
    _adapter("shell", "shell.py", "_marks.py", "_pattern.py", "_running.py"),
    *map(_shim, ("langgraph", "crewai", "autogen", "pydantic_ai")),
)  # fmt: skip

__all__ = ["PYTEST", "ROOMS", "ROOTS", "Room"]
