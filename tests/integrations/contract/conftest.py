"""Every scenario is played by every framework that is installed here; the toy is always there."""

from __future__ import annotations

import importlib
import warnings
from importlib.util import find_spec

import pytest
from tests.integrations.contract.driver import FRAMEWORKS
from tests.integrations.contract.world import World

from settlemark import Settlement

TOY = "toy"


def missing(name):
    """Why a framework is left out here, or None."""
    module = FRAMEWORKS.get(name)
    if module is None or (find_spec(module.partition(".")[0]) and find_spec(module)):
        return None
    return f'{name} is not installed here: pip install "settlemark[{name.replace("_", "-")}]"'


def driver_of(name):
    """Return a driver by its framework's name."""
    where = f"tests.integrations.contract.{name}" if name == TOY else f"tests.integrations.{name}.driver"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a framework warns of when it is loaded is not ours to mend
        return importlib.import_module(where).Driver()


EACH = [
    pytest.param(name, marks=[pytest.mark.skip(reason=missing(name))] if missing(name) else [])
    for name in (*FRAMEWORKS, TOY)
]


@pytest.fixture(params=EACH)
def driver(request):
    return driver_of(request.param)


@pytest.fixture(params=["run", "arun"])
def face(request):
    """The one face of a framework and the other."""
    return request.param


@pytest.fixture(params=["sync", "async"])
def sort(request):
    """Tools that are functions, and tools that are coroutine functions."""
    return request.param


@pytest.fixture
def world():
    return World()


@pytest.fixture
def settlement():
    with Settlement("memory:", wait=20) as settlement:
        yield settlement
