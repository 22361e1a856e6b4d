"""Room for the files of processes that are killed: in memory where there is any, since a kill takes nothing along."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from tests.servers import _roomy_memory


@pytest.fixture
def folder():
    made = Path(tempfile.mkdtemp(dir=_roomy_memory()))
    yield made
    shutil.rmtree(made)
