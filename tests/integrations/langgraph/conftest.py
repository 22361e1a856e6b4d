from __future__ import annotations

import asyncio

import pytest
from tests.integrations.langgraph.world import World

from settlemark import Settlement


@pytest.fixture
def world():
    return World()


@pytest.fixture
def settlement():
    with Settlement("memory:") as settlement:
        yield settlement


@pytest.fixture(params=["sync", "async"])
def invoke(request):
    """Invoke a runnable the one way and the other."""
    if request.param == "sync":
        return lambda runnable, *given, **options: runnable.invoke(*given, **options)
    return lambda runnable, *given, **options: asyncio.run(runnable.ainvoke(*given, **options))
