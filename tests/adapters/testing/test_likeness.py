"""What two runs have in common is asked of a third, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from settlemark_adapters.testing._likeness import common, fits

_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(_PLAIN, _PLAIN)
def test_both_runs_fit_what_they_have_in_common(one, other):
    shape = common(one, other)
    assert (fits(shape, one), fits(shape, other)) == (True, True)


@given(_PLAIN, _PLAIN)
def test_of_two_runs_that_are_the_same_nothing_else_fits(one, other):
    assert fits(common(one, one), other) == (one == other)


@given(_PLAIN, _PLAIN, _PLAIN)
def test_what_a_third_run_has_in_common_with_both_fits_all_three(one, other, third):
    shape = common(common(one, other), third)
    assert fits(shape, third)


def test_names_that_differ_are_counted():
    shape = common({"k1": {"to": "Ada"}}, {"k2": {"to": "Ada"}})
    assert fits(shape, {"k3": {"to": "Ada"}})
    assert not fits(shape, {"k3": {"to": "Bee"}})
    assert not fits(shape, {"k3": {"to": "Ada"}, "k4": {"to": "Ada"}})
    assert not fits(shape, {})


def test_a_list_has_its_length():
    shape = common([1, "a"], [2, "a"])
    assert [fits(shape, found) for found in ([3, "a"], [3, "b"], [3], [3, "a", "a"], None)] == [True] + [False] * 4
