"""CrewAI's released tests of tools, hooks and executors, run with its tools and with settled ones.

The source archive of the *installed* release carries its tests; it is fetched from PyPI with pip, and they run in
processes of their own, against the installed library. As a script it prints both summaries and every test that ends
differently: `python -m tests.integrations.upstream_crewai`, which takes about a minute and a half.

Those that play back recordings of models are left out: what they need of a recorder is not in the archive. Those that
import `crewai_files`, or a provider of models, end alike without it: not collected, or failed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.integrations import upstream
from tests.integrations.upstream import Reason, Report, Suite

HERE = Path(__file__).resolve().parent
DEADLINE = 600
OFFLINE = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "CREWAI_TESTING": "true",
    "OTEL_SDK_DISABLED": "true",
    "OPENAI_API_KEY": "none",
}
_CACHE = "tests/test_tool_cache_default.py"
SUITE = Suite(
    "tools",
    "crewai",
    "every tool is settled",
    tests=(
        "tests/tools",
        "tests/hooks",
        "tests/agents/test_agent_executor.py",
        "tests/agents/test_native_tool_calling.py",
        "tests/agents/test_native_tool_hook_contract.py",
        "tests/agents/test_react_tool_hook_contract.py",
        _CACHE,
        "tests/test_flow_tool_action_usage.py",
        "tests/test_flow_tool_action_failure_policy.py",
        "tests/utilities/test_tool_result_artifacts.py",
    ),
    some=("tests/tools", "tests/hooks", _CACHE),
    differs=(
        Reason(
            "what may act is not dropped because it is equal to what was done before; what only reads is cached",
            given="reads",
            like="stock",
            tests=(f"{_CACHE}::TestToolCachingIsOptIn::test_crew_cache_true_dedupes_identical_tool_calls",),
        ),
        Reason(
            "what may act does so in the order issued; what only reads runs beside the others",
            given="reads",
            like="stock",
            tests=("tests/tools/test_async_tools.py::TestAsyncToolWithIO::test_multiple_slow_tools_concurrent",),
        ),
    ),
)


def run(suite: Suite, source: Path, given: str, tests: Sequence[str] = ()) -> Report:
    """How tests under `source` end with what is given."""
    with tempfile.TemporaryDirectory() as scratch:
        # alone in a directory: this one has names beside it that must not shadow an import of the tests
        shutil.copy(HERE / "upstream_crewai_plugin.py", scratch)
        report = Path(scratch, "report.json")
        told = {"UPSTREAM_WITH": given, "UPSTREAM_REPORT": str(report), "CREWAI_STORAGE_DIR": f"{scratch}/storage"}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "upstream_crewai_plugin", "-p", "no:cacheprovider", "-q",
             "--tb=short", "--continue-on-collection-errors", "-c", "pyproject.toml", "--rootdir", ".", "-W", "ignore",
             "-m", "not vcr", *(tests or suite.tests)],
            cwd=source,
            env=upstream.environment(Path(scratch), OFFLINE | told),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=DEADLINE,
        )  # fmt: skip # a table of values
        if not report.exists():
            raise RuntimeError(f"pytest ended with {done.returncode} before it ran a test:\n{done.stdout}")
        return Report(**json.loads(report.read_text(encoding="utf-8")), output=done.stdout)


def differences(source: Path, stock: Report, ours: Report) -> list[str]:
    """One line per test that ends otherwise with ours than with stock, unless a reason for it stands and holds."""
    ends = {"stock": stock.outcomes, "ours": ours.outcomes}
    different = {test for test in stock.outcomes | ours.outcomes if stock.outcomes.get(test) != ours.outcomes.get(test)}
    for reason in SUITE.differs:
        covered = sorted(test for test in different if reason.covers(test))
        tried = run(SUITE, source, reason.given, covered).outcomes if covered else {}
        different -= {test for test in covered if tried.get(test) == ends[reason.like].get(test)}
    return [
        f"{test}: {stock.outcomes.get(test, 'not run')} with stock, "
        f"{ours.outcomes.get(test, 'not run')} with ours\n{ours.failures.get(test, '')}".rstrip()
        for test in sorted(different)
    ]


def main() -> int:
    """Print both runs and what differs; 0 when nothing does that is not explained."""
    source = upstream.fetch(SUITE.package, SUITE.release)
    stock, ours = run(SUITE, source, "stock"), run(SUITE, source, "ours")
    found = differences(source, stock, ours)
    release = f"{SUITE.package} {SUITE.release}: {SUITE.swap}"
    upstream.tell(release, f"  stock: {stock.summary}", f"  ours:  {ours.summary}")
    upstream.tell(*upstream.explained(SUITE, stock, ours), *found)
    return 1 if found or not ours.made else 0


if __name__ == "__main__":
    sys.exit(main())
