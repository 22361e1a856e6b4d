"""How much is tested: what a change needs in minutes, what CI runs, or everything.

`SETTLEMARK_TESTS` says which: without it the quick tests run, `more` is what CI runs, `all` is all.

The quick tests leave out `DEEP`, and what is marked `deep`: what kills processes, starts servers and whole frameworks,
or explores. Of a parametrized test they have a few cases, spread over all of them, and of a property a quarter of its
examples. Of a sweep (`sampled(n)`) `more` has one case in n: a fault rarely hides in one case alone.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

_ASKED = os.environ.get("SETTLEMARK_TESTS", "")
if _ASKED not in ("", "more", "all"):
    raise pytest.UsageError(f"SETTLEMARK_TESTS can be 'more' or 'all', not {_ASKED!r}; without it the quick tests run")
ALL = _ASKED == "all"
MORE = ALL or _ASKED == "more"

CASES = 2
"""How many cases of a parametrized test the quick tests have: the first, the last, and what lies between."""
DEEP = (
    "adapters/filesystem/test_crashes.py",
    "adapters/git/test_git_crashes.py",
    "adapters/git/test_git_landing.py",
    "adapters/git/test_git_programs.py",
    "adapters/git/test_git_remote.py",
    "adapters/mcp/test_mcp.py",
    "adapters/records/test_crashes.py",
    "adapters/store/test_letta.py",
    "adapters/store/test_store_crashes.py",
    "adapters/test_conformance.py",
    "benchmarks",
    "core/commands/test_doubts.py",
    "core/commands/test_hanging.py",
    "core/commands/test_printing.py",
    "core/commands/test_recover.py",
    "core/commands/test_residue.py",
    "core/crashes",
    "core/explorer",
    "core/ledgers/test_statements.py",
    "core/lint/test_annotation_errors.py",
    "core/test_cut_off.py",
    "core/test_forking.py",
    "core/test_interpreter_ends.py",
    "core/test_interrupts.py",
    "core/test_shared_stores.py",
    "core/test_taking_up.py",
    "core/testing",
    "core/tla",
    "core/workers",
    "evidence",
    "examples/test_treasury.py",
    "integrations/autogen/test_death.py",
    "integrations/autogen/test_upstream.py",
    "integrations/contract",
    "integrations/crewai/test_death.py",
    "integrations/dbos",
    "integrations/demo",
    "integrations/langgraph/death",
    "integrations/langgraph/test_answered_elsewhere.py",
    "integrations/pydantic_ai/test_again.py",
    "integrations/pydantic_ai/test_durability.py",
    "integrations/test_upstream_tool_node.py",
    "mutants",
    "test_guides.py",
    "test_servers.py",
)
"""Folders and files, of which the quick tests have none."""
NAMED = "what kills processes, starts whole frameworks or explores (DEEP in tests/extent.py, and tests marked deep)"
"""What is in them, in the words in which a run says that it left them out."""

_HERE = Path(__file__).parent
_DEEP = frozenset(_HERE / deep for deep in DEEP)


@cache
def is_deep(path: Path) -> bool:
    """Whether a folder or file has no quick tests."""
    return not _DEEP.isdisjoint((path, *path.parents))


def examples(number: int) -> int:
    """How many examples a property is tried with, of so many that CI tries it with."""
    return number if MORE else max(1, number // 4)


def divided(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that are to run, and those that are left out, each in its order."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    runs: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for each in cases.values():
        chosen = set(_chosen(each))
        for item in each:
            (runs if item in chosen else left_out).append(item)
    return runs, left_out


def _chosen(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return those of one test's cases that run."""
    if ALL:
        return cases
    found = [item for item in cases if item.get_closest_marker("long") is None]
    sampled = found[0].get_closest_marker("sampled") if found else None
    if sampled is not None:
        found = found[:: sampled.args[0]]
    if MORE:
        return found
    if found and (is_deep(found[0].path) or found[0].get_closest_marker("deep") is not None):
        return []
    last = len(found) - 1
    return [found[n * last // (CASES - 1)] for n in range(CASES)] if len(found) > CASES else found


__all__ = ["ALL", "MORE", "NAMED", "divided", "examples", "is_deep"]
