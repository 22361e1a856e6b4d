"""What the tests of the testing tools share."""

from __future__ import annotations

import pytest

from settlemark import Retries


@pytest.fixture
def no_pauses():
    """Options of a settlement that never pauses between retries."""
    return {"retries": Retries(first=0, most=0)}
