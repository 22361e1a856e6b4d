"""A sink for all tests of a module, told to forget everything before each."""

from __future__ import annotations

import pytest
from tests.adapters.webhook.service import Sink

from settlemark.testing import VirtualClock


@pytest.fixture(scope="module")
def sink_process():
    with Sink() as sink:
        yield sink


@pytest.fixture
def sink(sink_process):
    sink_process.reset()
    return sink_process


@pytest.fixture
def clock(sink):
    clock = VirtualClock()
    sink.at(clock())
    return clock


@pytest.fixture
def passes(sink, clock):
    """Let time pass, here and at the sink."""

    def passing(seconds):
        clock.advance(seconds)
        sink.at(clock())

    return passing
