"""These tests are for who has AutoGen."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("autogen_agentchat") else ["*.py"]
collect_ignore = ["child.py"]  # a process to be started

if find_spec("autogen_agentchat"):
    from tests.integrations.autogen.world import World

    from settlemark import Settlement

    @pytest.fixture
    def world():
        return World()

    @pytest.fixture
    def settlement():
        with Settlement("memory:") as settlement:
            yield settlement
