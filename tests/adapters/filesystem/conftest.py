"""A folder, and a settlement over it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.adapters.filesystem.desk import Desk

from settlemark import Retries, Settlement


@pytest.fixture
def root(tmp_path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def settlement():
    with Settlement("memory:", retries=Retries(first=0, most=0)) as opened:
        yield opened


@pytest.fixture
def desk(root, settlement):
    return Desk(root, settlement)
