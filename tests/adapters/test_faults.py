"""An adapter's error carries what it is about, as attributes."""

from __future__ import annotations

import pickle

import pytest

from settlemark_adapters._faults import Fault


def test_what_an_error_carries_outlives_the_process_that_raised_it():
    error = pickle.loads(pickle.dumps(Fault("no such door", door="north", tries=2)))
    assert (type(error), str(error), error.door, error.tries) == (Fault, "no such door", "north", 2)
    with pytest.raises(AttributeError, match="'Fault' object has no attribute 'window'"):
        _ = error.window
