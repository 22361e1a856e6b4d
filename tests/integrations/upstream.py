"""The released tests of LangGraph and LangChain, run with theirs and with ours in its place.

The source archives of the *installed* releases are fetched from PyPI with pip, only their tests are unpacked, and
they run in processes of their own, against the installed libraries. As a script it prints both summaries of each
suite and every test that ends differently: `python tests/integrations/upstream.py`, a choice of them that takes half
a minute; with `--all`, or SETTLEMARK_TESTS=all, every one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "upstream"
DEADLINE = 900


class FetchError(RuntimeError):
    """The released archive could not be fetched."""


class OfflineError(FetchError):
    """It is not in the cache, and `SETTLEMARK_OFFLINE=1` forbids to fetch it."""


@dataclass(frozen=True)
class Reason:
    """Why some tests end otherwise with ours; `given` that in its place they end with as `like` does."""

    why: str
    given: str
    like: str
    tests: tuple[str, ...]

    def covers(self, test: str) -> bool:
        """Whether it is said of this test, with whatever parameters."""
        return test.partition("[")[0] in self.tests


@dataclass(frozen=True)
class Suite:
    """Released tests, and what is swapped in them.

    `some` are run by default and `tests` when all are asked for. `differs` names, by the reason, tests that end
    otherwise with ours than with stock, and with what in its place they end as we say they do: so the reason is tried.
    """

    name: str
    package: str
    swap: str
    tests: tuple[str, ...]
    some: tuple[str, ...]
    differs: tuple[Reason, ...] = ()

    @property
    def release(self) -> str:
        """The installed one; raises `PackageNotFoundError` when there is none."""
        return version(self.package)


TOOL_NODE = Suite(
    "tool node",
    "langgraph-prebuilt",
    "ToolNode is SequencedToolNode",
    tests=("tests",),
    some=("tests",),
)
_NODE = "tests/test_tool_node.py"
_REACT = "tests/test_react_agent.py"
SETTLED_NODE = Suite(
    "settled tool node",
    "langgraph-prebuilt",
    "ToolNode is SequencedToolNode with a settlement",
    tests=("tests",),
    some=("tests",),
    differs=(
        Reason(
            "a call that fails ends its turn, one that waits for an answer keeps those behind it, and none acts again"
            " when the answer is there; reads do as with stock",
            given="reads",
            like="stock",
            tests=(
                f"{_REACT}::test_react_agent_parallel_tool_calls",
                f"{_REACT}::test_tool_node_node_interrupt",
                f"{_NODE}::test_tool_node_error_handling",
                f"{_NODE}::test_tool_node_error_handling_callable",
                f"{_NODE}::test_tool_node_tool_call_input",
            ),
        ),
        Reason(
            "the calls of one checkpoint and task are one decision, which is not made a second time with another tool;"
            " these tests give every call the same",
            given="apart",
            like="stock",
            tests=(f"{_NODE}::test_tool_node_inject_state", f"{_NODE}::test_tool_node_inject_store"),
        ),
    ),
)
_MIDDLEWARE = "tests/unit_tests/agents/middleware"
_HUMAN = f"{_MIDDLEWARE}/implementations/test_human_in_the_loop.py"
_RETRY = f"{_MIDDLEWARE}/implementations/test_tool_retry.py"
AGENTS = Suite(
    "agents",
    "langchain",
    "every create_agent is given a SettlementMiddleware first",
    tests=("tests/unit_tests/agents",),
    some=(
        f"{_MIDDLEWARE}/core",
        _HUMAN,
        f"{_MIDDLEWARE}/implementations/test_tool_call_limit.py",
        f"{_MIDDLEWARE}/implementations/test_tool_emulator.py",
        f"{_MIDDLEWARE}/implementations/test_tool_error.py",
        _RETRY,
        "tests/unit_tests/agents/test_injected_runtime_create_agent.py",
        "tests/unit_tests/agents/test_react_agent.py",
        "tests/unit_tests/agents/test_return_direct_graph.py",
        "tests/unit_tests/agents/test_subagent_streaming.py",
    ),
    differs=(
        Reason(
            "a middleware that wraps tool calls gives every agent a node for tools, also one that has none, and lets it"
            " name tools that are not known",
            given="bystander",
            like="ours",
            tests=(
                f"{_MIDDLEWARE}/core/test_decorators.py::test_async_middleware_with_can_jump_to_graph_snapshot",
                f"{_MIDDLEWARE}/core/test_diagram.py::test_create_agent_diagram",
                f"{_MIDDLEWARE}/core/test_dynamic_tools.py::test_dynamic_tool_without_handler_raises_error",
                f"{_MIDDLEWARE}/core/test_framework.py::test_jump_to_is_ephemeral",
                f"{_MIDDLEWARE}/core/test_tools.py::test_unknown_tool_raises_error",
            ),
        ),
        Reason(
            "no effect acts before an earlier one of its turn that failed, or that waits for an answer; a read does",
            given="reads",
            like="stock",
            tests=(
                f"{_HUMAN}::test_per_call_pauses_once_per_gated_call_and_applies_answers_by_id",
                f"{_RETRY}::test_tool_retry_parallel_interrupt_with_successful_sibling",
                f"{_RETRY}::test_tool_retry_specific_tools_only",
                f"{_RETRY}::test_tool_retry_specific_tools_with_base_tool",
            ),
        ),
    ),
)
GRAPHS = Suite(
    "graphs",
    "langgraph",
    "every checkpointer is a settled_checkpointer, and ToolNode a SequencedToolNode with a settlement",
    tests=("tests",),
    some=(
        "tests/test_interruption.py",
        "tests/test_subgraph_persistence.py",
        "tests/test_time_travel.py",
        "tests/test_tool_stream_handler.py",
        "-k",
        "not sqlite",
    ),
)
SUITES = (TOOL_NODE, SETTLED_NODE, AGENTS, GRAPHS)


@dataclass(frozen=True, repr=False)
class Report:
    """How the released tests ended, and what was made in them of what is swapped."""

    outcomes: dict[str, str]
    failures: dict[str, str]
    made: dict[str, int]
    not_swapped: list[str]
    output: str

    @property
    def summary(self) -> str:
        made = ", ".join(f"{count} {name}" for name, count in sorted(self.made.items()))
        return f"{self.output.strip().splitlines()[-1].strip('= ')}; made: {made}"

    def not_passed(self) -> dict[str, str]:
        return {test: outcome for test, outcome in self.outcomes.items() if outcome != "passed"}


def fetch(package: str, release: str, cache: Path = CACHE) -> Path:
    """The directory with the released tests of that version; fetched once, then taken from the cache."""
    source = cache / f"{package}-{release}"
    if source.is_dir():
        return source
    if os.environ.get("SETTLEMARK_OFFLINE") == "1":
        raise OfflineError(f"{package} {release} is not in {cache}; unset SETTLEMARK_OFFLINE to fetch it")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        fresh = Path(scratch, "fresh")
        unpack(download(package, release, Path(scratch)), fresh)
        try:
            fresh.rename(source)  # atomic: a second process fetching it at the same time sees all or nothing
        except OSError:
            if not source.is_dir():
                raise
    return source


def download(package: str, release: str, target: Path) -> Path:
    """The path of the source archive, as pip saved it under `target`."""
    # `--no-binary :all:` would make pip build the build tools from source, too
    command = ["-m", "pip", "download", "--no-deps", "--no-binary", package, "--dest", str(target)]
    done = subprocess.run(
        [sys.executable, *command, f"{package}=={release}"],
        capture_output=True,
        text=True,
        check=False,
    )
    archives = list(target.glob("*.tar.gz"))
    if done.returncode or len(archives) != 1:
        raise FetchError(
            f"pip could not fetch the source archive of {package} {release}; connect to PyPI and "
            f"run it again, or set SETTLEMARK_OFFLINE=1 to skip these tests.\n{done.stdout}{done.stderr}"
        )
    return archives[0]


def unpack(archive: Path, target: Path) -> None:
    """Write the archive's tests and their pytest configuration: the library itself is the installed one."""
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
            wanted = path.parts[:1] == ("tests",) or path == PurePosixPath("pyproject.toml")
            if not (wanted and member.isfile()) or ".." in path.parts:
                continue
            content = tar.extractfile(member)
            assert content is not None
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(content.read())


def run(suite: Suite, source: Path, given: str, tests: Sequence[str] = ()) -> Report:
    """How tests of a suite under `source` end with "stock", with "ours", or with what a `Reason` gives."""
    with tempfile.TemporaryDirectory() as scratch:
        # alone in a directory: this one has names beside it that must not shadow an import of the tests
        shutil.copy(HERE / "upstream_plugin.py", scratch)
        report = Path(scratch, "report.json")
        plugins = ["-p", "upstream_plugin", "-p", "no:cacheprovider"]
        told = {
            "UPSTREAM_SUITE": suite.name,
            "UPSTREAM_WITH": given,
            "UPSTREAM_REPORT": str(report),
        }
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, "-q", "--tb=short", "--continue-on-collection-errors",
             *(tests or suite.some)],
            cwd=source,
            env=environment(Path(scratch), told),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=DEADLINE,
        )  # fmt: skip # a table of values
        if not report.exists():
            raise RuntimeError(f"pytest ended with {done.returncode} before it ran a test:\n{done.stdout}")
        return Report(**json.loads(report.read_text(encoding="utf-8")), output=done.stdout)


def environment(plugin: Path, extra: dict[str, str]) -> dict[str, str]:
    """This process's environment and import path, without what the outer pytest put there for itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = [str(plugin), *(entry for entry in sys.path if entry and Path(entry) != HERE)]
    servers = {"LANGGRAPH_TEST_FAST": "true", "NO_DOCKER": "true"}  # theirs run in containers
    return kept | servers | {"PYTHONPATH": os.pathsep.join(path)} | extra


def differences(suite: Suite, source: Path, stock: Report, ours: Report) -> list[str]:
    """One line per test that ends otherwise with ours than with stock, unless a reason for it stands and holds."""
    different = [
        test for test in sorted(stock.outcomes | ours.outcomes) if stock.outcomes.get(test) != ours.outcomes.get(test)
    ]
    for reason in suite.differs:
        covered = [test for test in different if reason.covers(test)]
        if not covered:
            continue
        tried, known = run(suite, source, reason.given, covered), {"stock": stock, "ours": ours}[reason.like]
        holds = {test for test in covered if tried.outcomes.get(test) == known.outcomes.get(test)}
        different = [test for test in different if test not in holds]
    return [
        f"{test}: {stock.outcomes.get(test, 'not run')} with stock, "
        f"{ours.outcomes.get(test, 'not run')} with ours\n{ours.failures.get(test, '')}".rstrip()
        for test in different
    ]


def explained(suite: Suite, stock: Report, ours: Report) -> list[str]:
    """What is said of the tests that end otherwise."""
    found = []
    for reason in suite.differs:
        tests = [test for test in ours.outcomes if reason.covers(test) and stock.outcomes[test] != ours.outcomes[test]]
        if tests:
            found.append(f"  {len(tests)} otherwise, as with {reason.given!r}: {reason.why}")
    return found


def main() -> int:
    """Print both runs of each suite and what differs; 0 when nothing does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every released test, not a choice of them")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(repr(suite.name) for suite in SUITES))
    asked = parser.parse_args()
    if unknown := set(asked.suites) - {suite.name for suite in SUITES}:
        parser.error(f"there is no suite {', '.join(sorted(unknown))}")
    whole = asked.all or os.environ.get("SETTLEMARK_TESTS") == "all"
    status = 0
    for suite in SUITES:
        if asked.suites and suite.name not in asked.suites:
            continue
        source = fetch(suite.package, suite.release)
        stock, ours = (run(suite, source, given, suite.tests if whole else ()) for given in ("stock", "ours"))
        different = differences(suite, source, stock, ours)
        tell(f"{suite.package} {suite.release}: {suite.swap}", f"  stock: {stock.summary}", f"  ours:  {ours.summary}")
        tell(*explained(suite, stock, ours), *different, *(f"  not swapped: {name}" for name in ours.not_swapped))
        if different or ours.not_swapped or not ours.made:
            status = 1
    return status


def tell(*lines: str) -> None:
    print(*lines, sep="\n", end="\n" if lines else "", flush=True)  # noqa: T201 - a script's result


if __name__ == "__main__":
    sys.exit(main())
