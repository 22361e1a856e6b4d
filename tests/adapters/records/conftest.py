"""Places of every kind."""

from __future__ import annotations

import pytest
from tests.adapters.records.places import KINDS, QUICK, fresh

from settlemark import Settlement


def _place(request, kind):
    return fresh(kind, request.getfixturevalue("postgres_url") if kind == "postgres" else None)


@pytest.fixture(params=KINDS)
def anywhere(request):
    """A place of each kind."""
    with _place(request, request.param) as made:
        yield made


@pytest.fixture(params=[kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS])
def place(request):
    """A place of each kind; what differs from another only in who serves it is tried when there is time."""
    with _place(request, request.param) as made:
        yield made


@pytest.fixture
def place_of(request):
    """A place of a certain kind."""
    opened = []

    def make(kind):
        opened.append(_place(request, kind))
        return opened[-1].__enter__()

    yield make
    for each in opened:
        each.__exit__(None, None, None)


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened
