"""Which files are mutated, room by room, and which tests are about them: the one table of both."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.extent import DEEP

ROOTS = ("core", "adapters", "integrations")
PYTEST = (
    sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--tb=line", "-n", "0", "--hypothesis-seed", "0",
    "-p", "no:cacheprovider", "-p", "no:nbmake", "-p", "tests.mutants._reaching",
)  # fmt: skip # a table of values


@dataclass(frozen=True)
class Room:
    """Files that are mutated together.

    Attributes:
        name: its name.
        sources: its files, as globs from the root of the checkout.
        tests: the tests about them, those first that fail first.
        aim: how many of a hundred mutants are to be noticed.
        command: what runs them.
        extent: how much of them is run at first: the quick ones, or with `more` what CI runs (`tests/extent.py`).
    """

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    aim: int
    command: tuple[str, ...] = field(default=PYTEST)
    extent: str = ""

    def files(self, root: Path) -> list[str]:
        """Return its files, as paths from the root."""
        found = {path.relative_to(root).as_posix() for glob in self.sources for path in root.glob(glob)}
        return sorted(file for file in found if not file.endswith(("__init__.py", "__main__.py")))

    def is_about(self, file: str) -> bool:
        """Whether a file is one of its tests."""
        return any(file == test or file.startswith(f"{test}/") for test in self.tests)


def _core(name: str, parts: str, tests: str, *more: str, aim: int = 90, extent: str = "") -> Room:
    sources = tuple(f"core/settlemark/{part}" for part in parts.split())
    return Room(name, sources, (*(f"tests/core/{test}" for test in tests.split()), *more), aim, extent=extent)


def _adapter(name: str, *parts: str) -> Room:
    inside = parts or (f"{name}.py", f"{name}/*.py")
    return Room(name, tuple(f"adapters/settlemark_adapters/{part}" for part in inside), (f"tests/adapters/{name}",), 80)


def _shim(name: str) -> Room:
    sources = (f"integrations/settlemark_{name}/*.py", f"integrations/settlemark_{name}/*/*.py")
    return Room(name, sources, (f"tests/integrations/{name}", "tests/integrations/contract"), 80)


ROOMS = (
    _core(
        "protocol", "_protocol/*.py _protocol/rules/*.py _model/guards.py",
        "test_protocol.py test_claims.py test_commuting.py test_index.py test_states.py test_waiting_line.py"
        " test_refine.py test_early_reads.py test_guards.py test_plans.py test_freshness.py test_tool_registry.py"
        " test_transaction.py test_holding.py test_nesting.py test_replica.py test_queries.py test_commands.py"
        " test_plainly.py test_shared_stores.py test_refusals.py test_ties.py test_order_times.py"
        " test_long_log.py history/test_engine.py test_halt.py",
    ),
    _core(
        "driver",
        "_acts/*.py _attempt/*.py _engine/*.py _engine/undo/*.py _lifecycle/*.py _lifecycle/*/*.py _runtime/*.py"
        " _report/approval_rejected_on_replay.py _report/judged.py _report/verdicts.py"
        " _report/why.py _report/story.py _api/hold.py _api/operators.py _api/who_waits.py _api/subjects/*.py"
        " _owing/*.py _leasing/*.py _model/budget.py _claims/*.py _policy/*.py _approvals/*.py _mending/*.py"
        " _report/stuck.py _api/steered/*.py _api/saying/*.py _steering/*.py"
        " _edges/alive.py _edges/user_code.py _edges/on_drop.py _edges/shield.py _model/disposition.py",
        "test_disposition.py test_frameworks_turn.py test_asked_again.py test_thrown_away.py"
        " test_bodies.py test_leaving.py test_suspended.py test_maintenance.py test_transaction.py test_abort.py"
        " test_sequencer.py test_failing.py test_acting_again.py test_tool_registry.py test_check.py test_verdicts.py"
        " test_unknown.py test_release.py test_leaving_last.py test_undo_faults.py test_holding.py test_fence.py"
        " test_gates.py test_answers.py test_parking.py test_orphans.py test_coming_back.py test_resolving.py"
        " test_rewinding.py test_waiting.py test_freshness.py test_speculation.py test_choosing.py test_nesting.py"
        " test_own_name.py test_aging.py test_midway.py test_handlers_found.py test_identity.py test_frozen.py"
        " test_windows.py test_taking_up.py test_async.py test_threads.py test_exceptions.py test_invariant.py"
        " test_interrupts.py test_observing.py test_answers_race.py test_gate.py test_cut_off.py test_services.py"
        " test_retention.py test_once.py test_refine.py test_cleaning_up.py test_probes_false.py test_rejected_again.py"
        " test_approval_rejected_on_replay.py test_attempt_parts.py test_treasury_wire.py test_speculation_residue.py"
        " test_begun_late.py test_way.py test_claims.py test_waiting_line.py test_budgets.py test_standing.py"
        " test_asking.py test_performing.py test_taking_back.py"
        " approving owing leasing claims mending policy steering"
        " test_decisions.py test_early_reads.py test_plans.py test_guards.py test_deadlines.py test_closing.py"
        " test_show.py test_logs.py test_power.py test_revived.py test_halt.py test_entity.py"
        " test_entered_again.py test_holds_cut_off.py commands agents crashes workers/test_silent.py"
        " workers/test_fenced.py",
    ),
    _core(
        "ledger", "ledger/*.py ledger/*/*.py ledger/migrations/versions/*.py",
        "test_schema.py ledgers test_ledger_contract.py test_whole_steps.py test_pending.py test_recoverable.py"
        " test_declared_redaction.py test_deep_payloads.py test_lease.py test_namespaces.py test_retention.py"
        " test_redaction.py test_encryption.py test_payloads.py test_secrets.py test_blobs.py test_replica.py"
        " test_windows.py test_long_log.py test_order_times.py test_readonly_ledger.py test_isolation.py"
        " test_deadlines.py test_closing.py test_forking.py test_migrating.py test_shared_stores.py test_forgetting.py"
        " test_failing.py test_aging.py test_begun_late.py test_orphans.py test_cut_off.py"
        " test_taking_up.py test_treasury_wire.py test_rewinding.py test_answers.py test_freshness.py test_logs.py"
        " test_power.py commands crashes workers",
    ),
    _core(
        "agents", "agents/*.py agents/*/*.py", "agents test_coming_back.py", "tests/integrations/contract",
    ),
    _core(
        "core",
        "_api/checked.py _api/host.py _api/opening.py _api/per_settlement.py _api/records.py"
        " _api/settings.py _api/settlement.py _api/toolbox.py _api/transaction.py _cli/*.py"
        " _edges/errors.py _edges/extras.py _edges/given.py _edges/plain.py _edges/private.py _edges/text.py"
        " _edges/wording.py"
        " _model/declaration.py _model/declare.py _model/effect_class.py _model/fields.py _model/identity.py"
        " _model/json_text.py _model/level.py _model/made.py _model/scope.py _observe/*.py _report/questions.py"
        " _report/sentences.py channels.py commands.py hosting.py observe.py recording.py telemetry.py",
        "test_checked.py test_codec.py test_effect.py test_check.py test_keys.py test_scope.py test_scope_aliases.py"
        " test_scope_templates.py test_words.py test_logs.py test_forgetting.py test_transaction.py test_identity.py"
        " test_frozen.py test_handlers_found.py test_replica.py test_retention.py test_show.py test_shown.py"
        " test_json_text.py test_aging.py test_text.py test_cli.py test_channels.py test_observing.py test_telemetry.py"
        " test_guards.py test_async.py"
        " test_public.py test_face.py test_order_times.py test_secrets.py test_forking.py test_closing.py"
        " explorer/test_oracle.py history/test_engine.py history/test_ledger.py commands",
        aim=80,
    ),
    _core("commands", "_cli/commands/*.py _cli/doctor/*.py", "commands test_cli.py test_show.py test_shown.py", aim=80),
    _core("history", "history/**/*.py", "history", aim=80),
    _core("lint", "lint/**/*.py", "lint", aim=80),
    Room(
        "testing", ("core/settlemark/testing/**/*.py", "core/pytest_settlemark.py"), ("tests/core/testing",), 80,
        extent="more",
    ),
    *map(
        _adapter,
        ("browser", "channels", "filesystem", "objects", "payments", "queue", "records", "sql", "store", "webhook"),
    ),
    Room(
        "adapters",
        tuple(
            f"adapters/settlemark_adapters/_{part}.py"
            for part in ("adapter", "database", "faults", "fence", "keeping", "keyed", "loop", "spans")
        ),
        (
            "tests/adapters/test_adapter.py", "tests/adapters/test_database.py", "tests/adapters/test_keyed.py",
            "tests/adapters/test_faults.py", "tests/adapters/test_fenced.py", "tests/adapters/test_loop.py",
            "tests/adapters/test_declaration_cost.py", "tests/adapters/test_spans.py",
            "tests/adapters/filesystem/test_filesystem.py", "tests/adapters/objects/test_objects.py",
            "tests/adapters/sql", "tests/adapters/store", "tests/adapters/records/test_backends.py",
        ),
        80,
    ),
    Room(
        "kit", ("adapters/settlemark_adapters/testing/*.py",),
        ("tests/adapters/testing", "tests/adapters/test_declaration_cost.py"), 80, extent="more",
    ),
    _adapter("git", "git/*.py", "_git_alone.py"),
    _adapter("http", "http/*.py", "recording.py"),
    _adapter("mail", "mail.py", "_addresses.py"),
    _adapter("mcp", "mcp.py", "_mcp*.py", "_schemas.py"),
    _adapter("shell", "shell.py", "_marks.py", "_pattern.py", "_running.py"),
    *map(_shim, ("langgraph", "crewai", "autogen", "pydantic_ai")),
    Room("demo", ("integrations/settlemark_demo/*.py",), ("tests/integrations/demo",), 80, extent="more"),
)  # fmt: skip # a table of values


def is_deep(test: str) -> bool:
    """Whether the quick tests have nothing of a file or folder of tests."""
    return test.startswith(tuple(f"tests/{name}" for name in DEEP))


__all__ = ["PYTEST", "ROOMS", "ROOTS", "Room", "is_deep"]
