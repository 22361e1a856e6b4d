"""The checker says what is so: an order that explains a log, or a shortest cycle that shows there is none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.extent import examples
from tests.rooms.history import _conflicts, lines

from settlemark import Scope, ScopeError
from settlemark.history import Access, Serializability, serializability

SCOPES = ["db:/x", "db:/y", "db:/x/1", "db:/*/1", "db:/", "row:/x"]
WAYS = [("read", ""), ("write", ""), ("write", "add"), ("write", "multiply")]


def access(name, way, scope):
    kind, group = way
    return Access(name, kind, scope, group)


def of(scopes, names="pqrs"):
    return st.builds(access, st.sampled_from(names), st.sampled_from(WAYS), st.sampled_from(scopes))


logs = st.one_of(st.lists(of(SCOPES), max_size=12), st.lists(of(["db:/x", "db:/x/1"]), max_size=12))


def in_conflict(log):
    """Every two accesses whose order tells something, the earlier first."""
    for one, other in itertools.combinations(log, 2):
        commute = one.commutes and one.commutes == other.commutes and Scope.parse(one.scope) == Scope.parse(other.scope)
        overlap = Scope.parse(one.scope).overlaps(Scope.parse(other.scope))
        if one.transaction != other.transaction and "write" in (one.kind, other.kind) and overlap and not commute:
            yield one, other


def conflicts(log):
    return {(one.transaction, other.transaction) for one, other in in_conflict(log)}


def explains(order, log):
    return all(order.index(before) < order.index(after) for before, after in conflicts(log))


@settings(max_examples=examples(300))
@given(logs)
def test_it_is_serializable_exactly_when_some_order_explains_all_conflicts(log):
    found = serializability(log)
    names = sorted({access.transaction for access in log})
    assert found.serializable is any(explains(order, log) for order in itertools.permutations(names))
    if found.serializable:
        assert sorted(found.order) == names
        assert explains(found.order, log)


@settings(max_examples=examples(300))
@given(logs)
def test_a_cycle_is_made_of_conflicts_that_are_in_the_log_and_leads_back(log):
    for cycle in serializability(log).cycles:
        for edge, following in zip(cycle.edges, (*cycle.edges[1:], cycle.edges[0]), strict=True):
            assert edge.after == following.before
            first, last = (log[place - 1] for place in edge.places)
            assert (first.transaction, last.transaction) == (edge.before, edge.after)
            assert (first.kind[0] + last.kind[0], edge.places[0] < edge.places[1]) == (edge.how, True)
            assert (first, last) in in_conflict([first, last])
        assert len({edge.before for edge in cycle.edges}) == len(cycle.edges)


def ways(log):
    """In which ways each transaction comes before each other one."""
    found = {}
    for one, other in in_conflict(log):
        found.setdefault((one.transaction, other.transaction), set()).add(one.kind[0] + other.kind[0])
    return found


def lengths(log):
    """How long the shortest cycle of each phenomenon is, by looking at every cycle there may be."""
    known, found = ways(log), {}
    for size in (2, 3):
        for ring in itertools.permutations("pqr", size):
            steps = [known.get(step, ()) for step in zip(ring, (*ring[1:], ring[0]), strict=True)]
            for hows in itertools.product(*steps):
                anti = hows.count("rw")
                name = "G2" if anti > 1 else "G-single" if anti else "G1c" if "wr" in hows else "G0"
                found.setdefault(name, size)
    if "G-single" in found:
        found.pop("G2", None)
    return found


@settings(max_examples=examples(300))
@given(st.lists(of(SCOPES, "pqr"), max_size=12))
def test_the_cycle_of_each_phenomenon_is_as_short_as_the_shortest_there_is(log):
    found = {cycle.phenomenon: cycle for cycle in serializability(log).cycles}
    assert {name: len(cycle.edges) for name, cycle in found.items()} == lengths(log)
    for name, cycle in found.items():
        hows = [edge.how for edge in cycle.edges]
        assert name == {0: "G1c" if "wr" in hows else "G0", 1: "G-single"}.get(hows.count("rw"), "G2")


@pytest.mark.parametrize("size", [2, 3, 100])
def test_where_all_read_and_then_all_write_any_two_are_a_cycle(size):
    log = [Access(n, kind, "db:/x") for kind in ("read", "write") for n in range(size)]
    assert [(cycle.phenomenon, len(cycle.edges)) for cycle in serializability(log).cycles] == [("G-single", 2)]


@pytest.mark.parametrize("size", [2, 3, 100])
def test_a_ring_is_told_whole(size):
    log = [Access(n, "read", f"db:/{n}") for n in range(size)]
    log += [Access(n, "write", f"db:/{(n + 1) % size}") for n in range(size)]
    (cycle,) = serializability(log).cycles
    assert (cycle.phenomenon, {edge.before for edge in cycle.edges}) == ("G2", {*range(size)})


def test_no_cycle_is_shorter_than_the_one_that_is_told():
    ring = [Access(name, "write", f"db:/{n}") for n, name in enumerate("pqrs")]
    ring += [Access("qrsp"[n], "write", f"db:/{n}") for n in range(4)]
    assert [len(cycle.edges) for cycle in serializability(ring).cycles] == [4]
    triple = [Access(name, "write", f"db:/{n}") for n, pair in enumerate(["rp", "pq", "qr", "rq"]) for name in pair]
    assert [len(cycle.edges) for cycle in serializability(triple).cycles] == [2]
    short = [Access("p", "write", "row:/1"), Access("q", "write", "row:/1"), Access("q", "write", "row:/2")]
    short += [Access("p", "write", "row:/2")]
    assert [len(cycle.edges) for cycle in serializability(ring + short).cycles] == [2]


@pytest.mark.parametrize(
    ("log", "phenomenon", "told"),
    [
        ("pw/x qw/x qw/y pw/y", "G0", "p wrote db:/x before q wrote it; q wrote db:/y before p wrote it"),
        ("pw/x qr/x qw/y pr/y", "G1c", "p wrote db:/x before q read it; q wrote db:/y before p read it"),
        ("pr/x qr/x pw/x qw/x", "G-single", "p wrote db:/x before q wrote it"),
        ("pr/x qr/y pw/y qw/x", "G2", "q read db:/y before p wrote it; p read db:/x before q wrote it"),
    ],
)
def test_each_phenomenon_has_its_name(log, phenomenon, told):
    kinds = {"r": "read", "w": "write"}
    found = serializability([Access(step[0], kinds[step[1]], f"db:{step[2:]}") for step in log.split()])
    assert [cycle.phenomenon for cycle in found.cycles] == [phenomenon]
    assert told in str(found.cycles[0])


def test_a_parent_and_its_child_conflict_and_neighbours_do_not():
    def crossed(one, other):
        return [
            Access("p", "read", one),
            Access("q", "read", other),
            Access("p", "write", other),
            Access("q", "write", one),
        ]

    assert not serializability(crossed("file:/a", "file:/a/b")).serializable
    assert not serializability(crossed("file:/*/b", "file:/a")).serializable
    assert serializability([Access("p", "write", "file:/a"), Access("q", "write", "file:/ab")] * 2).serializable


ADD = ("write", "add")


def test_two_that_add_to_two_sums_in_either_order_are_serializable_unless_their_writes_are_told_apart():
    crossed = [access(name, ADD, f"sum:/{n}") for n, name in enumerate("pqqp", 2)]
    crossed = [line._replace(scope=f"sum:/{n // 2}") for n, line in enumerate(crossed)]
    assert serializability(crossed) == Serializability(order=("q", "p"))
    plain = [line._replace(commutes="") for line in crossed]
    assert [cycle.phenomenon for cycle in serializability(plain).cycles] == ["G0"]


@pytest.mark.parametrize("other", ["multiply", ""], ids=["of another group", "of none"])
def test_a_write_that_does_not_commute_comes_after_every_addition_before_it_and_before_every_one_behind(other):
    log = [access("p", ADD, "sum:/x"), access("q", ADD, "sum:/x")]
    log += [access("w", ("write", other), "sum:/x"), access("q", ADD, "sum:/x")]
    (cycle,) = serializability(log).cycles
    assert str(cycle) == "G0: q wrote sum:/x before w wrote it; w wrote sum:/x before q wrote it"
    assert serializability(log[:3]).order[-1] == "w"


def test_a_read_comes_after_every_addition_before_it_and_before_every_one_behind():
    log = [access(name, ADD, "sum:/x") for name in "pq"]
    log += [access("r", ("read", ""), "sum:/x"), *(access(name, ADD, "sum:/x") for name in "st")]
    for late in "pq":
        (cycle,) = serializability([*log, access(late, ADD, "sum:/x")]).cycles
        assert {edge.how for edge in cycle.edges} == {"wr", "rw"}
        assert {(edge.before, edge.after) for edge in cycle.edges} == {(late, "r"), ("r", late)}
    found = serializability(log).order
    assert (set(found[:2]), found[2], set(found[3:])) == ({*"pq"}, "r", {*"st"})


def test_a_read_of_a_parent_between_two_additions_is_after_the_one_and_before_the_other():
    log = [access("p", ADD, "sum:/x"), access("r", ("read", ""), "sum:/"), access("q", ADD, "sum:/x")]
    assert serializability(log).order == ("p", "r", "q")
    assert not serializability([*log, access("p", ADD, "sum:/x")]).serializable


def test_many_that_add_and_many_that_read_are_told_by_few_pairs():
    size = 300
    log = [access(n, ADD, "sum:/x") for n in range(size)]
    log += [access(n, ("read", ""), "sum:/x") for n in range(size, 2 * size)]
    found = _conflicts(lines(log, None))
    assert sum(map(len, found.values())) == 2 * size
    assert serializability(log).serializable


def test_a_read_with_a_group_is_refused():
    log = [Access("p", "write", "db:/x", "add"), Access("p", "read", "db:/x", "add")]
    with pytest.raises(ValueError, match="line 2 of the log is a read of db:/x with commutes='add': .*leave commutes"):
        serializability(log)


def test_what_did_not_commit_does_not_count():
    log = [Access("p", "write", "db:/x"), Access("q", "write", "db:/x"), Access("p", "write", "db:/x")]
    assert not serializability(log).serializable
    assert serializability(log, committed={"p"}).order == ("p",)


def test_an_empty_log_is_serializable():
    assert serializability([]).serializable


def test_a_scope_that_is_none_is_refused():
    with pytest.raises(ScopeError, match="has no type"):
        serializability([Access("p", "read", "x")])
