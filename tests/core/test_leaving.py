"""What is held leaves as it was issued, what cannot be undone behind the rest; on one scope always as issued."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from settlemark import Scope
from settlemark._protocol.leaving import Held, Leaves, leaving_order

SCOPES = [Scope.parse(f"room:/{path}") for path in ("a", "a/1", "a/2", "b", "*", "c")]

holdings = st.builds(
    Held,
    st.sampled_from([0, Leaves.LAST, Leaves.AS_ISSUED, Leaves.LAST | Leaves.AS_ISSUED]),
    st.lists(st.sampled_from(SCOPES), min_size=1, max_size=2),
)


def tied(one, other):
    """Whether two of which one was issued before the other leave in that order, whatever they are."""
    strict = one.leaves & other.leaves & Leaves.AS_ISSUED
    return strict or any(ours.overlaps(theirs) for ours in one.scopes for theirs in other.scopes)


def naive(issued):
    """One after the other: the first that must not wait for another, and cannot be undone only if all others must."""
    left, order = list(range(len(issued))), []
    while left:
        free = [n for n in left if not any(tied(issued[m], issued[n]) for m in left if m < n)]
        last = [n for n in left if issued[n].leaves & Leaves.LAST]
        free = [n for n in free if not issued[n].leaves & Leaves.LAST or n == last[0]]
        order.append(next((n for n in free if not issued[n].leaves & Leaves.LAST), free[0]))
        left.remove(order[-1])
    return order


@given(st.lists(holdings, max_size=9))
def test_the_order_keeps_what_is_tied_and_lets_nothing_that_cannot_be_undone_leave_before_it_must(issued):
    order = leaving_order(range(len(issued)), issued.__getitem__)
    assert sorted(order) == list(range(len(issued)))
    at = {n: place for place, n in enumerate(order)}
    for n, one in enumerate(issued):
        for m, other in enumerate(issued[:n]):
            both = one.leaves & other.leaves & Leaves.LAST
            if tied(other, one) or both:
                assert at[m] < at[n]
    last = {n for n in order if issued[n].leaves & Leaves.LAST}
    assert [n in last for n in order] == [n in last for n in naive(issued)]
    assert [n for n in order if n in last] == [n for n in naive(issued) if n in last]


@given(st.lists(holdings, max_size=9), st.integers(0, 9))
def test_who_goes_on_with_the_rest_has_the_same_order(issued, done):
    order = leaving_order(range(len(issued)), issued.__getitem__)
    rest = sorted(order[done:])
    assert leaving_order(rest, issued.__getitem__) == order[done:]


def test_with_nothing_behind_what_leaves_last_the_order_is_that_of_issuance():
    mail, page = (Scope.parse(text) for text in ("mail:/ada", "page:/home"))
    issued = [Held(0, [page]), Held(Leaves.LAST, [mail]), Held(Leaves.LAST, [mail])]
    assert leaving_order(range(3), issued.__getitem__) == [0, 1, 2]
