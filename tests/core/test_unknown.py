"""An outcome nobody can tell is asked for, re-issued under its key, or recorded as in doubt: never guessed."""

from __future__ import annotations

from contextlib import suppress

import pytest

from settlemark import UNKNOWN, InDoubt, Outcome, Retries, Settlement, Tag, WaitTimeout, current_call, effect


class Boom(Exception):
    """A failure of the caller's own."""


class ReadTimeout(Exception):
    """A timeout class of some library, which is no TimeoutError."""


class Counterparty:
    """Acts, may lose its answer, and may be asked afterwards."""

    def __init__(self):
        self.done = {}  # key -> what was done first under it
        self.log = []
        self.lose = []

    def act(self, what):
        """Do it once a key, as a counterparty with idempotency keys does; then maybe lose the answer."""
        key = current_call().key
        self.log.append((what, key))
        self.done.setdefault(key, f"done {what}")
        if self.lose:
            raise self.lose.pop(0)
        return self.done[key]


@pytest.fixture
def counterparty():
    return Counterparty()


def tool(counterparty, kind="reversible", **parts):
    if kind == "reversible":
        parts.setdefault("undo", lambda what: counterparty.log.append(("undo", what)))

    @effect(kind, scope="thing:/{what}", **parts)
    def act(what):
        return counterparty.act(what)

    return act


LOST = [TimeoutError("late"), ConnectionResetError("gone"), ReadTimeout("late")]


@pytest.mark.parametrize("lost", LOST, ids=lambda e: type(e).__name__)
def test_a_lost_answer_that_the_probe_confirms_is_the_result(settlement, counterparty, recorded, lost):
    act = tool(counterparty, probe=lambda key: counterparty.done.get(key))
    counterparty.lose = [lost]
    with settlement.transaction("trip") as tx:
        assert tx.call(act, what="a") == "done a"
    assert counterparty.log == [("a", "trip#1/0")]
    assert recorded(settlement, "trip") == [("committed", [("act", "confirmed", None)])]


@pytest.mark.parametrize("lost", LOST, ids=lambda e: type(e).__name__)
def test_a_lost_call_that_the_probe_calls_absent_is_issued_again_under_its_key(settlement, world, lost):
    keys = []

    @effect("reversible", scope="thing:/x", undo=lambda: None, probe=lambda: None)
    def act():
        keys.append(current_call().key)
        if len(keys) < 3:
            raise lost
        return "done"

    with settlement.transaction("trip") as tx:
        assert tx.call(act) == "done"
    assert keys == ["trip#1/0"] * 3


@pytest.mark.parametrize("lost", LOST, ids=lambda e: type(e).__name__)
def test_with_neither_probe_nor_key_a_lost_answer_is_in_doubt_and_not_repeated(
    settlement, counterparty, lost, recorded
):
    counterparty.lose = [lost]
    with pytest.raises(InDoubt, match="the outcome of act on thing:/a is unknown") as doubt:
        with settlement.transaction("trip") as tx:
            tx.call(tool(counterparty), what="a")
    assert (doubt.value.key, doubt.value.tool, doubt.value.scope) == ("trip#1/0", "act", "thing:/a")
    assert doubt.value.__cause__ is lost
    assert counterparty.log == [("a", "trip#1/0")]
    assert recorded(settlement, "trip") == [("aborted", [("act", "unknown", "unresolved")])]


@pytest.mark.parametrize("kinds", [(Boom,), [Boom], Boom, {Boom}], ids=["tuple", "list", "one", "set"])
def test_what_is_declared_unknown_is_in_doubt_however_it_is_said_and_is_not_done_again(
    settlement, counterparty, recorded, kinds
):
    counterparty.lose = [Boom("closed")]
    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(tool(counterparty, unknown=kinds), what="a")
    assert counterparty.log == [("a", "trip#1/0")]
    assert recorded(settlement, "trip") == [("aborted", [("act", "unknown", "unresolved")])]


@pytest.mark.parametrize("probe", [lambda: UNKNOWN, lambda: 1 / 0], ids=["cannot tell", "raises"])
def test_a_probe_that_cannot_tell_leaves_it_in_doubt(settlement, counterparty, probe):
    counterparty.lose = [TimeoutError()]
    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(tool(counterparty, probe=probe), what="a")
    assert [(r.key, r.tag) for r in settlement.residue()] == [("trip#1/0", Tag.UNRESOLVED)]


def test_a_keyed_call_is_re_issued_under_the_same_key_and_happens_once(settlement, counterparty):
    counterparty.lose = [TimeoutError(), ConnectionError()]
    with settlement.transaction("trip") as tx:
        assert tx.call(tool(counterparty, "idempotent"), what="a") == "done a"
    assert counterparty.log == [("a", "trip#1/0")] * 3
    assert counterparty.done == {"trip#1/0": "done a"}


def test_a_keyed_call_that_stays_silent_is_in_doubt_after_its_tries(open_settlement, counterparty):
    settlement = open_settlement(retries=Retries(tries=2, first=0))
    counterparty.lose = [TimeoutError()] * 9
    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(tool(counterparty, "idempotent"), what="a")
    assert counterparty.log == [("a", "trip#1/0")] * 2


def test_that_a_later_try_failed_says_nothing_of_an_earlier_one_that_may_have_happened(
    url, open_settlement, counterparty, recorded
):
    settlement = open_settlement(url, retries=Retries(tries=2, first=0))
    counterparty.lose = [TimeoutError(), Boom("closed")]
    with pytest.raises(InDoubt, match="the outcome of act on thing:/a is unknown"), settlement.transaction("t") as tx:
        tx.call(tool(counterparty, "idempotent"), what="a")
    assert counterparty.log == [("a", "t#1/0")] * 2
    assert recorded(settlement, "t") == [("aborted", [("act", "unknown", "unresolved")])]
    assert [(r.key, r.tag) for r in settlement.residue()] == [("t#1/0", Tag.UNRESOLVED)]


def test_a_tool_that_raises_after_its_effect_is_known_to_have_acted_when_it_can_be_asked(settlement, counterparty):
    counterparty.lose = [Boom("bad answer")]
    act = tool(counterparty, probe=lambda key: counterparty.done.get(key))
    with settlement.transaction("trip") as tx:
        assert tx.call(act, what="a") == "done a"
    counterparty.lose = [Boom("bad answer")]
    with pytest.raises(RuntimeError), settlement.transaction("trip/2") as tx:
        tx.call(act, what="b")
        raise RuntimeError
    assert counterparty.log[-1] == ("undo", "b")


def test_a_failure_that_is_no_loss_is_a_failure(settlement, counterparty, recorded):
    counterparty.lose = [Boom("refused")]
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(tool(counterparty), what="a")
    assert recorded(settlement, "trip") == [("aborted", [("act", "failed", "clean")])]


def test_an_exception_declared_to_leave_it_open_does(settlement, counterparty):
    counterparty.lose = [Boom("who knows")]
    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(tool(counterparty, unknown=(Boom,)), what="a")


@pytest.mark.parametrize(("found", "tag", "outcome"), [("yes", "unresolved", "confirmed"), (None, "clean", "failed")])
def test_an_abort_asks_about_an_idempotent_effect_and_never_issues_it_again(
    settlement, counterparty, recorded, found, tag, outcome
):
    act = tool(counterparty, "idempotent", probe=lambda: found)
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(act, what="a")
        raise Boom
    assert counterparty.log == [("a", "trip#1/0")]
    assert recorded(settlement, "trip") == [("aborted", [("act", outcome, tag)])]


def test_an_abort_undoes_what_a_probe_finds_after_all(settlement, counterparty, recorded):
    asked = []
    act = tool(counterparty, probe=lambda key: asked.append(key) or (UNKNOWN if len(asked) <= 3 else "found"))
    counterparty.lose = [TimeoutError()]
    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(act, what="a")
    assert counterparty.log == [("a", "trip#1/0"), ("undo", "a")]
    assert recorded(settlement, "trip") == [("aborted", [("act", "undone", "clean")])]


@pytest.mark.parametrize("lost", LOST, ids=lambda e: type(e).__name__)
def test_a_read_that_gets_no_answer_raises_its_own_error_since_it_left_nothing(settlement, lost):
    def fetch():
        raise lost

    with settlement.transaction("trip") as tx:
        with pytest.raises(type(lost)) as raised:
            tx.read("price:/a", fetch)
        assert raised.value is lost
    assert settlement.transactions() == []


def test_a_settlement_inside_a_tool_that_refused_is_a_failure_and_not_a_doubt(settlement, tools, recorded):
    @effect("opaque")
    def delegate():
        with settlement.transaction("inner", wait=0, independent=True) as inner:
            inner.call(tools.book, room="a")

    with settlement.transaction("holder") as holder:
        holder.call(tools.book, room="a")
        with pytest.raises(WaitTimeout), settlement.transaction("outer") as outer:
            outer.call(delegate)
    assert recorded(settlement, "outer") == [("aborted", [("delegate", "failed", "clean")])]


def test_a_settlement_inside_a_tool_that_is_in_doubt_leaves_its_caller_in_doubt(settlement, counterparty, recorded):
    inner_tool = tool(counterparty)

    @effect("opaque")
    def delegate():
        with settlement.transaction("inner", independent=True) as inner:
            inner.call(inner_tool, what="a")

    counterparty.lose = [TimeoutError()]
    with pytest.raises(InDoubt), settlement.transaction("outer", on_failure="retry") as outer:
        outer.call(delegate)
    assert len(counterparty.log) == 1
    assert recorded(settlement, "outer") == [("aborted", [("delegate", "unknown", "unresolved")])]


def test_a_call_that_is_gone_on_from_in_doubt_is_named_and_its_scope_is_free(quick):
    @effect("idempotent", scope="account:/{account}")
    def charge(account):
        raise TimeoutError

    @effect("idempotent", scope="account:/{account}")
    def look_into(account):
        return "charged"

    with quick.transaction("trip", on_failure="continue") as tx:
        with pytest.raises(Exception, match="unknown"):
            tx.call(charge, account="ada")
        tx.call(look_into, account="bo")

    assert [t.state.value for t in quick.transactions()] == ["committed"]
    assert [(r.tool, r.tag.value) for r in quick.residue()] == [("charge", "unresolved")]
    assert [d.tool for d in quick.in_doubt()] == ["charge"]
    with quick.transaction("other", wait=0) as tx:
        assert tx.call(look_into, account="ada") == "charged"


def test_several_in_doubt_are_told_with_the_one_that_has_waited_longest_first(counterparty, clock):
    act = tool(counterparty)
    with Settlement("memory:", **clock.options()) as settlement:
        for name in ("trip-2", "trip-3", "trip-1"):
            counterparty.lose = [TimeoutError("late")]
            with suppress(Boom), settlement.transaction(name) as tx:
                with suppress(InDoubt):
                    tx.call(act, what=name)
                raise Boom
            clock.advance(10)
        told = settlement.in_doubt()
    assert [doubt.transaction for doubt in told] == ["trip-2", "trip-3", "trip-1"]


def test_what_turns_out_to_have_happened_is_on_record_as_that_before_its_undo_begins(shared_url, open_settlement):
    settlement, can_tell, seen = open_settlement(shared_url), [], []

    def undo():
        with Settlement(shared_url) as other:
            seen.extend((e.outcome, e.result) for t in other.transactions() for e in t.effects)

    @effect("reversible", scope="room:/a", undo=undo, probe=lambda: "number 7" if can_tell else UNKNOWN)
    def book():
        raise TimeoutError

    with pytest.raises(ZeroDivisionError), settlement.transaction("trip") as tx:
        with pytest.raises(InDoubt):
            tx.call(book)
        can_tell.append(True)
        raise ZeroDivisionError
    assert seen == [(Outcome.CONFIRMED, '"number 7"')]
    assert settlement.residue() == []
