from __future__ import annotations

import pytest

pytest.importorskip("crewai")

from tests.integrations.crewai.offline import hush
from tests.integrations.crewai.world import World

from settlemark import Settlement


@pytest.fixture(autouse=True)
def hushed():
    hush()


@pytest.fixture
def world():
    return World()


@pytest.fixture
def settlement():
    with Settlement("memory:") as settlement:
        yield settlement


@pytest.fixture
def patient():
    """A settlement that waits longer than its tests may take: who waits for a call that never comes fails."""
    with Settlement("memory:", wait=500) as settlement:
        yield settlement


@pytest.fixture(params=[True, False], ids=["native", "react"])
def native(request):
    """Whether the model calls functions, or writes its calls down."""
    return request.param
