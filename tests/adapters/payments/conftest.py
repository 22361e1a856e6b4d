"""A payment provider for all tests of a module, told to forget everything before each."""

from __future__ import annotations

import pytest
from tests.adapters.payments.service import Provider

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
