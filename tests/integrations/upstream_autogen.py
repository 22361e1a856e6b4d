"""AutoGen's released tests, run with theirs and with ours in its place.

The source archives of the *installed* releases carry their tests; they are fetched from PyPI with pip and run in
processes of their own, against the installed libraries. As a script it prints both summaries of each suite and every
test that ends differently: `python -m tests.integrations.upstream_autogen`, which takes about a minute.

What `autogen-ext[openai,anthropic]` brings is imported by many of them; without it these are not collected.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tests.integrations import upstream
from tests.integrations.upstream import Report

HERE = Path(__file__).resolve().parent
DEADLINE = 600


@dataclass(frozen=True)
class Suite:
    """Released tests, what is swapped in them, and why some end otherwise then."""

    name: str
    package: str
    given: tuple[str, ...]
    tests: tuple[str, ...]
    differs: dict[str, tuple[str, ...]]

    @property
    def release(self) -> str:
        """The installed one; raises `PackageNotFoundError` when there is none."""
        return version(self.package)

    def reason(self, test: str) -> str | None:
        """Why a test ends otherwise, if that is known."""
        name = test.partition("[")[0]
        return next((why for why, tests in self.differs.items() if name in tests), None)


AGENTS = Suite(
    "agents",
    "autogen-agentchat",
    ("ours", "workbench"),
    (
        "tests/test_assistant_agent.py",
        "tests/test_group_chat.py",
        "tests/test_group_chat_graph.py",
        "tests/test_group_chat_nested.py",
        "tests/test_group_chat_pause_resume.py",
        "tests/test_society_of_mind_agent.py",
        "tests/test_streaming_message_id_correlation.py",
        "tests/test_task_runner_tool.py",
    ),
    {
        "the first failure of a turn stops its later calls": (
            "tests/test_assistant_agent.py::TestAssistantAgentComplexIntegration::test_error_recovery_in_complex_workflow",
        ),
        "a settled workbench is no instance of the class that it wraps": (
            "tests/test_assistant_agent.py::test_multiple_workbenches_serialize_and_deserialize",
            "tests/test_assistant_agent.py::test_workbench_serialize_and_deserialize",
        ),
    },
)
WORKBENCHES = Suite(
    "workbenches",
    "autogen-core",
    ("ours",),
    ("tests/test_workbench.py", "tests/test_static_workbench_overrides.py"),
    {},
)
SUITES = (AGENTS, WORKBENCHES)


def run(suite: Suite, source: Path, given: str) -> Report:
    """How the tests of a suite under `source` end with what is given."""
    with tempfile.TemporaryDirectory() as scratch:
        # alone in a directory: this one has names beside it that must not shadow an import of the tests
        shutil.copy(HERE / "upstream_autogen_plugin.py", scratch)
        report = Path(scratch, "report.json")
        told = {
            "UPSTREAM_SUITE": suite.name,
            "UPSTREAM_WITH": given,
            "UPSTREAM_REPORT": str(report),
            "SETTLEMARK_URL": "memory:",  # of what is loaded from a configuration
        }
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "upstream_autogen_plugin", "-p", "no:cacheprovider", "-q",
             "--tb=short", "--continue-on-collection-errors", "-W", "ignore", *suite.tests],
            cwd=source,
            env=upstream.environment(Path(scratch), told),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=DEADLINE,
        )  # fmt: skip # a table of values
        if not report.exists():
            raise RuntimeError(f"pytest ended with {done.returncode} before it ran a test:\n{done.stdout}")
        return Report(**json.loads(report.read_text(encoding="utf-8")), output=done.stdout)


def differences(suite: Suite, stock: Report, ours: Report) -> list[str]:
    """One line per test that ends otherwise with ours than with stock, unless a reason for it is named."""
    return [
        f"{test}: {stock.outcomes.get(test, 'not run')} with stock, "
        f"{ours.outcomes.get(test, 'not run')} with ours\n{ours.failures.get(test, '')}".rstrip()
        for test in different(stock, ours)
        if suite.reason(test) is None
    ]


def different(stock: Report, ours: Report) -> list[str]:
    """The tests that end otherwise."""
    tests = sorted(stock.outcomes | ours.outcomes)
    return [test for test in tests if stock.outcomes.get(test) != ours.outcomes.get(test)]


def main() -> int:
    """Print all runs of each suite and what differs; 0 when nothing does."""
    status = 0
    for suite in SUITES:
        source = upstream.fetch(suite.package, suite.release)
        stock = run(suite, source, "stock")
        tell(f"{suite.package} {suite.release}", f"  stock: {stock.summary}")
        for given in suite.given:
            ours = run(suite, source, given)
            wrong = differences(suite, stock, ours)
            tell(f"  {given}: {ours.summary}")
            for why in suite.differs:
                count = sum(suite.reason(test) == why for test in different(stock, ours))
                tell(*([f"    {count} otherwise: {why}"] if count else []))
            tell(*wrong)
            status |= bool(wrong) or not ours.made
    return status


def tell(*lines: str) -> None:
    """Print them."""
    print(*lines, sep="\n", end="\n" if lines else "", flush=True)  # noqa: T201 - a script's result


if __name__ == "__main__":
    sys.exit(main())
