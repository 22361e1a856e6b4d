"""An API for all tests of a module, told to forget everything before each."""

from __future__ import annotations

import pytest
from tests.adapters.http.service import Api

from settlemark.testing import VirtualClock


@pytest.fixture(scope="module")
def api_process():
    with Api() as api:
        yield api


@pytest.fixture
def api(api_process):
    api_process.reset()
    return api_process


@pytest.fixture
def clock(api):
    clock = VirtualClock()
    api.at(clock())
    return clock
