"""Each experiment is played once for the tests of its module, small."""

from __future__ import annotations

import importlib

import pytest
from tests.evidence._cells import close_cells
from tests.rooms.model import Registry, declare


@pytest.fixture(scope="session", autouse=True)
def one_counterparty():
    yield
    close_cells()


@pytest.fixture(scope="module")
def found(request):
    """What the experiment has found that the module's tests are of, at the module's `RUNS`."""
    name = request.module.__name__.rpartition(".")[2].removeprefix("test_")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(declare, "_declared", Registry())
        return importlib.import_module(f"tests.evidence.{name}").run(request.module.RUNS, lambda: None)
