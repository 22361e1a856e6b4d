"""How deep a payload may be nested is one stated limit, however deep the caller stands."""

from __future__ import annotations

import sys

import pytest
from tests.rooms.edges import HEADROOM
from tests.rooms.model import MOST_LEVELS

from settlemark import PayloadError, Payloads, effect

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

INSIDE = MOST_LEVELS - 1
"""Levels of a value that is the argument of a call: the arguments themselves are one."""


def lists(levels):
    value = "leaf"
    for _ in range(levels):
        value = [value]
    return value


def objects(levels):
    value = "leaf"
    for _ in range(levels):
        value = {"in": value}
    return value


class Own(dict):
    """A class of somebody's own, which says for itself what it holds."""

    def items(self):
        return dict.items(self)


def own(levels):
    value = "leaf"
    for _ in range(levels):
        value = Own({"in": value})
    return value


SHAPES = {"lists": lists, "objects": objects, "a class of its own": own}


def at_once(work):
    return work()


def far_down(work):
    """Do it where the engine has as little room as it accepts."""
    try:
        sys._getframe(sys.getrecursionlimit() - HEADROOM - 30)
    except ValueError:
        return far_down(work)
    return work()


STACKS = {"a shallow stack": at_once, "a deep stack": far_down}


@pytest.fixture(params=STACKS)
def stand(request):
    return STACKS[request.param]


@pytest.fixture(params=SHAPES)
def make(request):
    return SHAPES[request.param]


class Counterparty:
    def __init__(self):
        self.log = []

    def tool(self, kind="reversible", returns=None, **parts):
        if kind == "reversible":
            parts["undo"] = lambda: self.log.append("undone")

        @effect(kind, scope="thing:/x", name="act", **parts)
        def act(value=None):
            self.log.append("done")
            return returns

        return act


@pytest.mark.parametrize("kind", ["reversible", "irreversible"])
def test_arguments_up_to_the_limit_are_taken_and_those_past_it_refused_before_anything_runs(
    settlement, make, stand, kind
):
    counterparty = Counterparty()
    act = counterparty.tool(kind)
    stand(lambda: settlement.run("inside", lambda tx: tx.call(act, value=make(INSIDE))))
    assert counterparty.log == ["done"]
    with pytest.raises(PayloadError, match="is nested too deeply, or contains itself: 100 levels are the most"):
        stand(lambda: settlement.run("past", lambda tx: tx.call(act, value=make(INSIDE + 1))))
    assert counterparty.log == ["done"]
    assert [t.row.name for t in settlement.transactions()] == ["inside"]


def plain(value):
    """What JSON makes of it."""
    return {key: plain(item) for key, item in dict.items(value)} if isinstance(value, dict) else value


@pytest.mark.parametrize("levels", [MOST_LEVELS, MOST_LEVELS + 1, 700])
def test_a_result_of_any_depth_is_on_record_and_replayed(settlement, make, stand, levels):
    counterparty = Counterparty()
    result = make(levels)
    act = counterparty.tool(returns=result)
    work = lambda tx: tx.call(act)  # noqa: E731
    assert stand(lambda: settlement.run("trip", work)) is result
    again = stand(lambda: settlement.run("trip", work))
    told = again if levels > MOST_LEVELS else None
    assert (again == plain(result)) if told is None else list(told) == ["$repr"]
    assert stand(lambda: settlement.run("trip", work)) == again
    assert counterparty.log == ["done"]


def test_a_result_past_the_limit_is_undone_as_any_other(settlement, make, stand):
    counterparty = Counterparty()
    act = counterparty.tool(returns=make(700))

    def work(tx):
        tx.call(act)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        stand(lambda: settlement.run("trip", work))
    assert counterparty.log == ["done", "undone"]
    assert [(t.state.value, [e.outcome.value for e in t.effects]) for t in settlement.transactions()] == [
        ("aborted", ["undone"])
    ]


def test_a_hook_is_told_of_a_result_past_the_limit(settlement, make, stand):
    seen, act = [], Counterparty().tool(returns=make(700))
    hook = lambda plan: seen.extend(list(e["result"]) for e in plan.effects)  # noqa: E731
    stand(lambda: settlement.run("trip", lambda tx: tx.call(act), before_commit=hook))
    assert seen == [["$repr"]]


@pytest.mark.parametrize("levels", [MOST_LEVELS, 700])
def test_what_a_probe_tells_is_on_record_whatever_its_depth(settlement, make, stand, levels):
    counterparty = Counterparty()
    found = make(levels)

    @effect("reversible", scope="thing:/x", undo=lambda: None, probe=lambda: found)
    def act():
        counterparty.log.append("done")
        raise TimeoutError

    assert stand(lambda: settlement.run("trip", lambda tx: tx.call(act))) is found
    again = stand(lambda: settlement.run("trip", lambda tx: tx.call(act)))
    assert again == plain(found) if levels == MOST_LEVELS else list(again) == ["$repr"]
    assert counterparty.log == ["done"]


def test_a_person_says_no_result_past_the_limit(settlement, make, stand):
    @effect("opaque", scope="thing:/x")
    def act():
        raise TimeoutError

    with pytest.raises(Exception, match="unknown"):
        settlement.run("trip", lambda tx: tx.call(act))
    (doubt,) = settlement.in_doubt()
    with pytest.raises(PayloadError, match="levels are the most"):
        stand(lambda: settlement.confirm(doubt.key, make(MOST_LEVELS + 1)))
    with pytest.raises(PayloadError, match="levels are the most"):
        stand(lambda: settlement.resolve(doubt.key, "confirmed", by="ada", result=make(MOST_LEVELS + 1)))
    assert stand(lambda: settlement.confirm(doubt.key, make(MOST_LEVELS))).value == "confirmed"


@pytest.mark.parametrize("rules", [["secret"], lambda tool, path, value: value], ids=["paths", "a function"])
def test_a_payload_as_deep_as_may_be_is_redacted_field_by_field(open_here, url, stand, rules):
    settlement = open_here(url, payloads=Payloads(redact=rules))
    act = Counterparty().tool(returns=objects(MOST_LEVELS))
    stand(lambda: settlement.run("trip", lambda tx: tx.call(act, value=objects(INSIDE))))
    (recorded,) = settlement.transactions()
    assert [("leaf" in e.row.arguments, "leaf" in e.result) for e in recorded.effects] == [(True, True)]
