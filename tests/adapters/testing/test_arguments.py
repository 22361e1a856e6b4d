"""What is generated in place of a tool's arguments is what its annotations allow, and small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from settlemark_adapters.testing import Example
from settlemark_adapters.testing._arguments import Pool


def weigh(pieces: int, kilos: float) -> None:
    """Weigh some pieces."""


@given(st.data())
def test_a_number_that_is_generated_is_none_below_zero_since_few_tools_take_those(data):
    arguments = data.draw(Pool([]).arguments(weigh, Example("weigh", {})))
    assert min(arguments.values()) >= 0
