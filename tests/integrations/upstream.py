"""LangGraph's own released tool-node tests, run with the stock node and with ours in its place.

The source archive of the *installed* `langgraph-prebuilt` is fetched from PyPI with pip, only its tests are
unpacked, and they run in a process of their own, against the installed library. As a script it prints both
summaries and every test that ends differently: `python tests/integrations/upstream.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath

PACKAGE = "langgraph-prebuilt"
SWAP = "settlemark_langgraph:SequencedToolNode"
HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "upstream"
DEADLINE = 240


class FetchError(RuntimeError):
    """The released archive could not be fetched."""


class OfflineError(FetchError):
    """It is not in the cache, and `SETTLEMARK_OFFLINE=1` forbids to fetch it."""


@dataclass(frozen=True, repr=False)
class Report:
    """How the released tests ended, with one class in the place of `ToolNode`."""

    outcomes: dict[str, str]
    failures: dict[str, str]
    constructed: int
    not_swapped: list[str]
    output: str

    @property
    def summary(self) -> str:
        return f"{self.output.strip().splitlines()[-1].strip('= ')}, {self.constructed} nodes constructed"

    def not_passed(self) -> dict[str, str]:
        return {test: outcome for test, outcome in self.outcomes.items() if outcome != "passed"}


def fetch(release: str, cache: Path = CACHE) -> Path:
    """The directory with the released tests of that version; fetched once, then taken from the cache."""
    source = cache / f"{PACKAGE}-{release}"
    if source.is_dir():
        return source
    if os.environ.get("SETTLEMARK_OFFLINE") == "1":
        raise OfflineError(f"{PACKAGE} {release} is not in {cache}; unset SETTLEMARK_OFFLINE to fetch it")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        fresh = Path(scratch, "fresh")
        unpack(download(release, Path(scratch)), fresh)
        try:
            fresh.rename(source)  # atomic: a second process fetching it at the same time sees all or nothing
        except OSError:
            if not source.is_dir():
                raise
    return source


def download(release: str, target: Path) -> Path:
    """The path of the source archive, as pip saved it under `target`."""
    # `--no-binary :all:` would make pip build the build tools from source, too
    command = ["-m", "pip", "download", "--no-deps", "--no-binary", PACKAGE, "--dest", str(target)]
    done = subprocess.run(
        [sys.executable, *command, f"{PACKAGE}=={release}"],
        capture_output=True,
        text=True,
        check=False,
    )
    archives = list(target.glob("*.tar.gz"))
    if done.returncode or len(archives) != 1:
        raise FetchError(
            f"pip could not fetch the source archive of {PACKAGE} {release}; connect to PyPI and "
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


def run(source: Path, swap: str = "") -> Report:
    """How the tests under `source` end with `swap` (`package:Class`) in the place of `ToolNode`."""
    with tempfile.TemporaryDirectory() as scratch:
        # alone in a directory: this one has names beside it that must not shadow an import of the tests
        shutil.copy(HERE / "upstream_plugin.py", scratch)
        report = Path(scratch, "report.json")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "upstream_plugin",
                "-p",
                "no:cacheprovider",
                "-q",
                "tests",
            ],
            cwd=source,
            env=environment(Path(scratch), {"UPSTREAM_SWAP": swap, "UPSTREAM_REPORT": str(report)}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=DEADLINE,
        )
        if not report.exists():
            raise RuntimeError(f"pytest ended with {done.returncode} before it ran a test:\n{done.stdout}")
        return Report(**json.loads(report.read_text(encoding="utf-8")), output=done.stdout)


def environment(plugin: Path, extra: dict[str, str]) -> dict[str, str]:
    """This process's environment and import path, without what the outer pytest put there for itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = [str(plugin), *(entry for entry in sys.path if entry and Path(entry) != HERE)]
    return kept | {"LANGGRAPH_TEST_FAST": "true", "PYTHONPATH": os.pathsep.join(path)} | extra


def differences(stock: Report, ours: Report) -> list[str]:
    """One line per test that does not end as it does with the stock node."""
    return [
        f"{test}: {stock.outcomes.get(test, 'not run')} with the stock node, "
        f"{ours.outcomes.get(test, 'not run')} with ours\n{ours.failures.get(test, '')}".rstrip()
        for test in sorted(stock.outcomes | ours.outcomes)
        if stock.outcomes.get(test) != ours.outcomes.get(test)
    ]


def main() -> int:
    """Print both runs and what differs; 0 when nothing does."""
    source = fetch(version(PACKAGE))
    stock, ours = run(source), run(source, SWAP)
    different = differences(stock, ours)
    print(f"stock:  {stock.summary}", f"ours:   {ours.summary}", *different, sep="\n")  # noqa: T201 - a script's result
    return 1 if different or stock.not_passed() or ours.not_swapped or not ours.constructed else 0


if __name__ == "__main__":
    sys.exit(main())
