"""These tests are for who has Pydantic AI; those of durability for who has DBOS, too."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

collect_ignore = ["worker.py"]  # a process to be started
collect_ignore_glob = [] if find_spec("pydantic_ai") else ["*.py"]
if not find_spec("dbos"):
    collect_ignore.append("test_durability.py")


@pytest.fixture
def world():
    from tests.integrations.contract.world import World

    return World()


@pytest.fixture
def settlement():
    """One whose patience no test would outlive: what never comes has to be known, not waited for."""
    from settlemark import Settlement

    with Settlement("memory:", wait=600) as settlement:
        yield settlement
