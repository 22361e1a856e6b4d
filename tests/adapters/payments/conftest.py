"""A payment provider for all tests of a module, told to forget everything before each."""

from __future__ import annotations

import pytest
from tests.adapters.payments.service import Provider

from settlemark import Settlement
from settlemark.testing import VirtualClock


@pytest.fixture(scope="module")
def provider_process():
    with Provider() as provider:
        yield provider


@pytest.fixture
def provider(provider_process):
    provider_process.reset()
    return provider_process


@pytest.fixture
def clock(provider):
    clock = VirtualClock()
    provider.at(clock())
    return clock


@pytest.fixture
def passes(provider, clock):
    """Let time pass, here and at the provider."""

    def passing(seconds):
        clock.advance(seconds)
        provider.at(clock())

    return passing


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
