"""Every shipped adapter has every property: a test for each of both, so that they run beside each other."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from tests.extent import ALL

from settlemark_adapters.testing import conformance, properties

_POINTS = None if ALL else 1
_COSTLY = frozenset(
    {"undo-fails-once", "undo-fails-always", "two-transactions", "crash-between-steps", "crash-inside-a-step"}
)
_EACH_TIME = frozenset({"queue"})
"""Adapters of which what is costly is looked at each time; of the others it waits for SETTLEMARK_TESTS=all."""
_OF_OTHERS = frozenset({"commit"})
"""What is asked of a module's further subjects each time: the first shows all that they share."""


def _cases():
    """What the tests of each adapter say of it, by property; a module whose dependency is missing is left out."""
    for file in sorted(Path(__file__).parent.glob("*/subject.py")):
        module = file.parent.name
        try:
            subjects = importlib.import_module(f"tests.adapters.{module}.subject").SUBJECTS
        except ImportError:
            continue
        for number, (name, subject) in enumerate(subjects.items()):
            for known in properties():
                waits = known not in _OF_OTHERS if number else module not in _EACH_TIME and known in _COSTLY
                yield pytest.param(subject, known, id=f"{name}-{known}", marks=[pytest.mark.long] if waits else [])


_CASES = list(_cases())


@pytest.mark.parametrize(("subject", "name"), _CASES)
def test_an_adapter_has_the_property(subject, name):
    conformance(subject, only=name, points=_POINTS).check()


def test_there_are_adapters_to_look_at():
    assert _CASES
