"""What is written for Elle says the same as the log: a list-append checker of it finds the same order."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.history.test_serializability import access, conflicts, logs
from tests.extent import examples

from settlemark import Scope, ScopeError
from settlemark.history import Access, elle_history, serializability

apart = st.lists(
    st.builds(
        access,
        st.sampled_from("pqrs"),
        st.sampled_from([("read", ""), ("write", "")]),
        st.sampled_from(["db:/x", "db:/y"]),
    ),
    max_size=12,
)


def parsed(log, **options):
    """The completed operations, as a program reads them from the file."""
    history = json.loads(json.dumps(elle_history(log, **options)))
    return [operation for operation in history if operation["type"] == "ok"]


def steps(operations):
    return [
        (operation["process"], how, key, value) for operation in operations for how, key, value in operation["value"]
    ]


def orders(operations):
    """The order of each list's elements: the longest read, of which all others are a beginning."""
    longest = {}
    for _, how, key, value in steps(operations):
        if how == "r":
            longest[key] = max(longest.get(key, []), value, key=len)
    for _, how, key, value in steps(operations):
        assert value in longest[key] if how == "append" else value == longest[key][: len(value)]
    return longest


def edges(operations):
    """What list-append infers: who wrote behind, read from, and wrote behind what was read by whom."""
    writer = {(key, value): process for process, how, key, value in steps(operations) if how == "append"}
    order, found = orders(operations), set()
    for process, how, key, value in steps(operations):
        if how == "append":
            at = order[key].index(value)
            if at:
                found.add((writer[key, order[key][at - 1]], process, "ww"))
            continue
        if value:
            found.add((writer[key, value[-1]], process, "wr"))
        if len(value) < len(order[key]):
            found.add((process, writer[key, order[key][len(value)]], "rw"))
    return {edge for edge in found if edge[0] != edge[1]}


def named(found, operations):
    """The edges between transactions that have a name: the last reader has none."""
    names = {operation["process"]: operation["transaction"] for operation in operations}
    assert not any(names[before] is None for before, _, _ in found)  # nothing comes behind it
    return {(names[before], names[after], how) for before, after, how in found if names[after] is not None}


def closed(pairs):
    reached = set(pairs)
    while more := {(a, d) for a, b in reached for c, d in reached if b == c} - reached:
        reached |= more
    return reached


def direct(log):
    """The conflicts of accesses to one scope that nobody has written to between."""
    for place, earlier in enumerate(log):
        for later in log[place + 1 :]:
            if later.scope == earlier.scope:
                how = earlier.kind[0] + later.kind[0]
                if how != "rr" and later.transaction != earlier.transaction:
                    yield earlier.transaction, later.transaction, how
                if later.kind == "write":
                    break


@settings(max_examples=examples(300))
@given(apart)
def test_of_scopes_that_do_not_overlap_its_edges_are_those_of_the_checker(log):
    operations = parsed(log)
    assert named(edges(operations), operations) == set(direct(log))


@settings(max_examples=examples(300))
@given(logs)
def test_of_any_scopes_it_puts_in_order_exactly_what_the_conflicts_put_in_order(log):
    operations = parsed(log)
    found = {(before, after) for before, after, _ in named(edges(operations), operations)}
    assert closed(found) == closed(conflicts(log))
    assert serializability(log).serializable is all(before != after for before, after in closed(found))


@settings(max_examples=examples(300))
@given(logs)
def test_it_is_a_history_as_elle_wants_one(log):
    history = elle_history(log)
    half = len(history) // 2
    assert [operation["index"] for operation in history] == list(range(len(history)))
    assert [operation["type"] for operation in history] == ["invoke"] * half + ["ok"] * half  # all are concurrent
    assert [operation["process"] for operation in history] == [*range(half)] * 2
    for asked, answered in zip(history[:half], history[half:], strict=True):
        assert {operation["f"] for operation in (asked, answered)} == {"txn"}
        assert asked["value"] == [[how, key, None if how == "r" else v] for how, key, v in answered["value"]]
    appended = [(key, value) for _, how, key, value in steps(history[half:]) if how == "append"]
    assert len(set(appended)) == len(appended)
    assert set(orders(history[half:])) >= {key for key, _ in appended}  # the last reader has seen all


def test_a_write_skew_is_written_out():
    log = [
        Access("p", "read", "db:/x"),
        Access("q", "read", "db:/y"),
        Access("p", "write", "db:/y"),
        Access("q", "write", "db:/x"),
    ]
    assert elle_history(log) == [
        {"index": n, "process": n % 3, "type": kind, "f": "txn", "transaction": name, "value": value}
        for n, (kind, name, value) in enumerate(
            [
                ("invoke", "p", [["r", "db:/x", None], ["append", "db:/y", 3]]),
                ("invoke", "q", [["r", "db:/y", None], ["append", "db:/x", 4]]),
                ("invoke", None, [["r", "db:/x", None], ["r", "db:/y", None]]),
                ("ok", "p", [["r", "db:/x", []], ["append", "db:/y", 3]]),
                ("ok", "q", [["r", "db:/y", []], ["append", "db:/x", 4]]),
                ("ok", None, [["r", "db:/x", [4]], ["r", "db:/y", [3]]]),
            ]
        )
    ]


def test_scopes_that_overlap_share_a_list_for_each_pair_and_neighbours_share_none():
    log = [Access("p", "write", "db:/x"), Access("q", "write", "db:/x/1"), Access("r", "read", "db:/x/2")]
    assert [(operation["transaction"], operation["value"]) for operation in parsed(log)][:3] == [
        ("p", [["append", "db:/x {and} db:/x/1", 1], ["append", "db:/x {and} db:/x/2", 1]]),
        ("q", [["append", "db:/x {and} db:/x/1", 2]]),
        ("r", [["r", "db:/x {and} db:/x/2", [1]]]),
    ]


ADD = ("write", "add")


def test_those_that_add_share_a_list_with_who_reads_or_overwrites_and_none_with_each_other():
    log = [access("p", ADD, "db:/x"), access("q", ADD, "db:/x"), access("p", ADD, "db:/x")]
    log += [access("r", ("read", ""), "db:/x"), access("w", ("write", ""), "db:/x")]
    both = ["db:/x {and} db:/x {adds from 1}", "db:/x {and} db:/x {adds from 2}"]
    assert [(operation["transaction"], operation["value"]) for operation in parsed(log)] == [
        ("p", [["append", both[0], 1], ["append", both[0], 3]]),
        ("q", [["append", both[1], 2]]),
        ("r", [["r", both[0], [1, 3]], ["r", both[1], [2]]]),
        ("w", [["append", both[0], 5], ["append", both[1], 5]]),
        (None, [["r", both[0], [1, 3, 5]], ["r", both[1], [2, 5]]]),
    ]


def test_those_that_only_add_have_a_list_each():
    log = [access(name, ADD, "db:/x") for name in "pq"]
    assert [operation["value"] for operation in parsed(log)[:2]] == [
        [["append", "db:/x {adds from 1}", 1]],
        [["append", "db:/x {adds from 2}", 2]],
    ]


@pytest.mark.parametrize("name", ["db:/x {and} db:/y", "db:/x {adds from 1}"])
def test_no_scope_is_called_as_such_a_list_is(name):
    with pytest.raises(ScopeError, match="has a brace"):
        Scope.parse(name)


def test_what_did_not_commit_is_left_out_and_the_places_are_those_of_the_whole_log():
    log = [Access("p", "write", "db:/x"), Access("q", "write", "db:/x"), Access("p", "read", "db:/x")]
    assert [operation["value"] for operation in parsed(log, committed={"q"})] == [
        [["append", "db:/x", 2]],
        [["r", "db:/x", [2]]],
    ]


def test_of_an_empty_log_nothing_is_written():
    assert elle_history([]) == []


def test_a_scope_that_is_none_is_refused():
    with pytest.raises(ScopeError, match="has no type"):
        elle_history([Access("p", "read", "x")])
