"""An API for all tests of a module, told to forget everything before each."""

from __future__ import annotations

import pytest
from tests.adapters.http.service import Api

from settlemark import Settlement
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


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def open_here(clock):
    """Open settlements in the clock's time, where nobody asks again but the test itself."""
    opened = []

    def open_(url="memory:", **options):
        settlement = Settlement(url, **{**clock.options(), "keep_open": 0, **options})
        settlement.driver.on_doubt = None
        opened.append(settlement)
        return settlement

    yield open_
    for settlement in opened:
        settlement.close()


@pytest.fixture
def settlement(open_here):
    return open_here()
