"""Settlements in the time of a counterparty, whose folder has the `clock` that both go by."""

from __future__ import annotations

import pytest

from settlemark import Settlement
from settlemark.hosting import host_of


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def open_here(clock):
    """Open settlements in the clock's time, where nobody asks again but the test itself."""
    opened = []

    def open_(url="memory:", **options):
        settlement = Settlement(url, **{**clock.options(), "keep_open": 0, **options})
        host_of(settlement).driver.probing.on_doubt = None
        opened.append(settlement)
        return settlement

    yield open_
    for settlement in opened:
        settlement.close()


@pytest.fixture
def settlement(open_here):
    return open_here()
