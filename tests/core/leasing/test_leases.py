"""Leases of agents: one has a resource, who comes later is told at once, and what has lapsed is taken after a grace."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest
from tests.rooms.ledger import MemoryLeases, SqlLeases

from settlemark import Fenced, LeaseHeld, Scope, ScopeError, Settlement, UsageError, effect

pytestmark = pytest.mark.own_time

REPO = "checkout:/repo"


def held(settlement):
    """Who has what, and under which token."""
    return [(row.scope, row.holder, row.token) for row in settlement.leases()]


def refused(settlement, scope=REPO, by="bob"):
    with pytest.raises(LeaseHeld) as error:
        settlement.lease(scope, for_=60, by=by)
    return error.value


def counting(function, read):
    """Return a function that also notes how many rows the other has returned."""

    def counted(*given):
        found = function(*given)
        read.append(len(found) if isinstance(found, list) else int(found is not None))
        return found

    return counted


def test_a_lease_is_on_record_until_it_is_released(settlement, clock):
    lease = settlement.lease(REPO, for_=60, by="ada")
    (row,) = settlement.leases()
    assert (row.scope, row.holder, row.token, row.period) == (REPO, "ada", lease.token, 60.0)
    assert (row.since, row.until) == (lease.since, lease.since + 60)
    assert (lease.scope, lease.holder, lease.until, lease.lost) == (REPO, "ada", row.until, None)
    lease.release()
    lease.release()
    assert settlement.leases() == []


@pytest.mark.every_store
def test_who_comes_later_is_told_at_once_who_has_it_since_when_and_nothing_changed(settlement, clock):
    lease = settlement.lease(REPO, for_=60, by="ada")
    before = settlement.leases()
    clock.advance(5)
    error = refused(settlement)
    assert (error.scope, error.holder, error.since, error.until) == (REPO, "ada", lease.since, lease.until)
    assert (error.token, error.free_at) == (lease.token, lease.until + 10)
    assert "ada holds checkout:/repo since" in str(error)
    assert settlement.leases() == before


@pytest.mark.parametrize("scope", ["checkout:/", "checkout:/repo/docs", "checkout:/*", "checkout:/**"])
def test_a_lease_is_of_all_that_overlaps_its_scope(settlement, scope):
    settlement.lease(REPO, for_=60, by="ada")
    assert refused(settlement, scope).holder == "ada"
    assert len(settlement.leases()) == 1


def test_leases_that_do_not_overlap_are_granted_beside_each_other(settlement):
    one = settlement.lease(Scope.parse(REPO), for_=60, by="ada")
    two = settlement.lease("checkout:/other", for_=timedelta(minutes=1), by="bob")
    assert held(settlement) == [("checkout:/other", "bob", two.token), (REPO, "ada", one.token)]


def test_each_token_is_greater_than_all_before_also_of_a_lease_that_was_released(settlement):
    tokens = []
    for number in range(3):
        with settlement.lease(f"checkout:/{number % 2}", for_=60) as lease:
            tokens.append(lease.token)
    assert tokens == sorted(set(tokens))


def test_one_that_is_renewed_in_time_is_nobody_elses(settlement, clock):
    lease = settlement.lease(REPO, for_=60, by="ada")
    for _ in range(5):
        clock.advance(50)
        assert lease.renew() == lease.until
        refused(settlement)
    assert (held(settlement), lease.left) == ([(REPO, "ada", lease.token)], 60.0)


@pytest.mark.every_store
def test_one_that_has_lapsed_is_not_taken_at_the_first_request_but_a_grace_after_it(settlement, clock):
    lease = settlement.lease(REPO, for_=60, by="ada", grace=7)
    clock.advance(1_000)
    error = refused(settlement)
    assert (error.holder, error.until, error.free_at) == ("ada", lease.until, lease.since + 1_007)
    clock.advance(6)
    assert refused(settlement).free_at == lease.since + 1_007
    clock.advance(1)
    taken = settlement.lease(REPO, for_=60, by="bob")
    assert held(settlement) == [(REPO, "bob", taken.token)]
    assert taken.token > lease.token


@pytest.mark.every_store
def test_within_the_grace_its_holder_has_it_again(settlement, clock):
    lease = settlement.lease(REPO, for_=60, by="ada")
    clock.advance(1_000)
    refused(settlement)
    clock.advance(5)
    lease.renew()
    clock.advance(30)
    refused(settlement)
    assert ((lease.lost, lease.left), held(settlement)) == ((None, 30.0), [(REPO, "ada", lease.token)])
    clock.advance(40)
    refused(settlement)  # the grace begins anew
    clock.advance(9)
    refused(settlement)


def test_without_a_grace_it_is_taken_as_soon_as_it_has_lapsed(settlement, clock):
    settlement.lease(REPO, for_=60, by="ada", grace=0)
    clock.advance(59)
    refused(settlement)
    clock.advance(1)
    assert settlement.lease(REPO, for_=60, by="bob").holder == "bob"


def test_who_has_lost_it_is_told_to_whom_and_since_when_and_does_not_disturb_the_other(settlement, clock):
    lease = settlement.lease(REPO, for_=60, by="ada", grace=0)
    clock.advance(60)
    other = settlement.lease("checkout:/repo/docs", for_=60, by="bob")
    for act in (lease.renew, lease.release):
        with pytest.raises(Fenced) as error:
            act()
        assert (error.value.scope, error.value.token) == (REPO, lease.token)
        assert (error.value.holder, error.value.since, error.value.current) == ("bob", other.since, other.token)
    assert str(lease.lost).startswith("the lease of ada on checkout:/repo is lost: bob holds it since")
    assert held(settlement) == [("checkout:/repo/docs", "bob", other.token)]


def test_one_that_was_given_back_is_not_renewed(settlement):
    lease = settlement.lease(REPO, for_=60, by="ada")
    lease.release()
    with pytest.raises(Fenced, match="it is on record no more"):
        lease.renew()
    assert settlement.leases() == []


def test_in_a_block_it_is_renewed_when_a_third_of_it_is_over(settlement, clock):
    with settlement.lease(REPO, for_=60) as lease:
        clock.advance(19)
        settlement.recover()
        assert lease.left == 41.0
        clock.advance(1)
        settlement.recover()
        assert lease.left == 60.0
    assert settlement.leases() == []


def test_outside_of_a_block_nobody_renews_it(settlement, clock):
    lease = settlement.lease(REPO, for_=60)
    clock.advance(50)
    settlement.recover()
    assert lease.left == 10.0


@pytest.mark.every_store
def test_a_block_whose_lease_was_lost_is_told_so_in_it_and_at_its_end(settlement, clock, caplog):
    with pytest.raises(Fenced, match="bob holds it"), settlement.lease(REPO, for_=60, by="ada", grace=0) as lease:
        clock.advance(60)
        settlement.lease(REPO, for_=60, by="bob")
        with caplog.at_level(logging.ERROR, logger="settlemark"):
            settlement.recover()
            settlement.recover()
        assert lease.lost.holder == "bob"
    assert [record.levelname for record in caplog.records if "is lost" in record.message] == ["ERROR"]
    assert [row.holder for row in settlement.leases()] == ["bob"]


def test_what_a_block_raises_is_raised_also_where_the_lease_was_lost(settlement, clock):
    with pytest.raises(ZeroDivisionError), settlement.lease(REPO, for_=60, grace=0):
        clock.advance(60)
        settlement.lease(REPO, for_=60, by="bob")
        _ = 1 / 0


def test_one_that_was_given_back_is_not_entered_again_and_whoever_has_it_by_then_keeps_it(settlement):
    lease = settlement.lease(REPO, for_=60, by="ada")
    with lease:
        assert lease.left > 0
    other = settlement.lease(REPO, for_=60, by="bob")
    with pytest.raises(UsageError, match="has one block, and was given back: ask for it anew"), lease:
        pytest.fail("it was entered")
    assert (lease.left, held(settlement)) == (0.0, [(REPO, "bob", other.token)])


def test_a_block_within_its_block_is_refused_and_gives_nothing_back(settlement):
    with settlement.lease(REPO, for_=60, by="ada") as lease:
        with pytest.raises(UsageError, match="has one block, and is in it"), lease:
            pytest.fail("it was entered")
        assert held(settlement) == [(REPO, "ada", lease.token)]
    assert held(settlement) == []


def test_one_that_is_known_to_be_lost_is_not_entered(settlement):
    lease = settlement.lease(REPO, for_=60, by="ada")
    settlement.end_lease(REPO, by="eve", because="ada is gone")
    with pytest.raises(Fenced, match="eve has ended it"):
        lease.renew()
    with pytest.raises(Fenced, match="eve has ended it") as told, lease:
        pytest.fail("it was entered")
    assert (told.value, lease.left, held(settlement)) == (lease.lost, 0.0, [])


def test_an_event_loop_has_it_too(settlement, clock):
    async def work():
        async with await settlement.alease(REPO, for_=60, by="ada") as lease:
            clock.advance(10)
            assert await lease.arenew() == lease.until
            with pytest.raises(LeaseHeld):
                await settlement.alease(REPO, for_=60)
        assert settlement.leases() == []
        again = await settlement.alease(REPO, for_=60)
        await again.arelease()

    asyncio.run(work())
    assert settlement.leases() == []


def test_within_a_call_its_holder_is_the_calls_transaction(settlement):
    holders = []

    @effect("opaque")
    def look():
        with settlement.lease(REPO, for_=60) as lease:
            holders.append(lease.holder)

    with settlement.transaction("trip-42") as tx:
        tx.call(look)
    assert (holders, settlement.leases()) == (["trip-42"], [])


def test_a_transaction_needs_no_lease_and_none_is_held_against_it(settlement):
    done = []
    act = effect("opaque")(lambda: done.append("done"))
    with settlement.lease(REPO, for_=60), settlement.transaction("trip", may_touch=[REPO]) as tx:
        tx.call(act)
    assert done == ["done"]


PLACES = [
    "desk:/", "desk:/hall", "desk:/hall/1", "desk:/hall/1/lamp", "desk:/hall/*", "desk:/*/1", "desk:/hall!",
    "desk:/hallway", "desk:/Hall", "desk:/h\u00e4ll", "desk:/hall/\U0001f4a1", "chair:/hall",
]  # fmt: skip # a list of names and values


@pytest.mark.every_store
def test_what_a_grant_finds_is_what_overlaps_whatever_else_is_leased(settlement):
    for one in PLACES:
        with settlement.lease(one, for_=60, by="ada"):
            for other in PLACES:
                if Scope.parse(one).overlaps(Scope.parse(other)):
                    assert refused(settlement, other).scope == Scope.parse(one).text
                else:
                    settlement.lease(other, for_=60, by="bob").release()


@pytest.mark.every_store
@pytest.mark.parametrize("beside", [10, 40])
def test_what_granting_renewing_and_releasing_one_reads_does_not_grow_with_the_leases_beside_it(
    settlement, monkeypatch, beside
):
    for number in range(beside):
        settlement.lease(f"desk:/hall/{number}", for_=60)
    read = []
    for kind in (SqlLeases, MemoryLeases):
        for name in ("every", "near", "on"):
            monkeypatch.setattr(kind, name, counting(getattr(kind, name), read))
    lease = settlement.lease("desk:/hall/mine", for_=60)
    lease.renew()
    lease.release()
    assert read == [0, 1, 1]


# ---- ended by an operator


@pytest.mark.every_store
def test_one_that_is_ended_is_free_at_once_and_its_holder_is_told_by_whom_and_why(settlement):
    lease = settlement.lease(REPO, for_=3600, by="ada")
    ended = settlement.end_lease(REPO, by="eve", because="ada is gone")
    assert (ended.holder, ended.token, settlement.leases()) == ("ada", lease.token, [])
    with pytest.raises(Fenced, match=r"of ada on checkout:/repo is lost: eve has ended it at .*: ada is gone; stop"):
        lease.renew()
    other = settlement.lease(REPO, for_=60, by="bob")
    assert other.token > lease.token
    with pytest.raises(Fenced, match=r"eve has ended it at .*: ada is gone; bob holds it since"):
        lease.release()
    assert held(settlement) == [(REPO, "bob", other.token)]


@pytest.mark.every_store
def test_what_is_not_leased_is_not_ended_and_what_overlaps_it_is_named(settlement):
    lease = settlement.lease(REPO, for_=60, by="ada")
    with pytest.raises(UsageError, match=r"nobody has a lease on checkout:/: .* are on checkout:/repo: name one"):
        settlement.end_lease("checkout:/", by="eve", because="odd")
    with pytest.raises(UsageError, match="nobody has a lease on desk:/hall: nothing was ended; see"):
        settlement.end_lease("desk:/hall", by="eve", because="odd")
    for by, because in (("", "odd"), ("eve", " ")):
        with pytest.raises(UsageError, match="nothing was recorded"):
            settlement.end_lease(REPO, by=by, because=because)
    assert held(settlement) == [(REPO, "ada", lease.token)]


def test_another_namespace_has_leases_of_its_own(url, open_here):
    ours, other = open_here(url), open_here(url, namespace="other")
    one, two = ours.lease(REPO, for_=60, by="ada"), other.lease(REPO, for_=60, by="bob")
    assert (held(ours), held(other)) == ([(REPO, "ada", one.token)], [(REPO, "bob", two.token)])


@pytest.mark.every_store
def test_what_has_lapsed_long_ago_and_nobody_wants_is_forgotten(settlement, clock):
    settlement.lease("checkout:/old", for_=60)
    clock.advance(7 * 86_400 + 61)
    lease = settlement.lease(REPO, for_=60, by="ada")
    assert held(settlement) == [(REPO, "ada", lease.token)]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"for_": 0}, "for_=0: give seconds"),
        ({"for_": -1}, "for_=-1"),
        ({"for_": float("nan")}, "for_=nan"),
        ({"for_": float("inf")}, "for_=inf"),
        ({"for_": timedelta(0)}, "for_="),
        ({"for_": "60"}, "for_='60'"),
        ({"for_": 60, "grace": -1}, "grace=-1"),
        ({"for_": 60, "grace": float("inf")}, "grace=inf"),
        ({"for_": 60, "by": ""}, "by= is who asks"),
        ({"for_": 60, "by": "half \ud83d"}, "half a character"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_granted(quick, options, match):
    with pytest.raises(UsageError, match=match):
        quick.lease(REPO, **options)
    assert quick.leases() == []


@pytest.mark.parametrize("scope", ["repo", "", "checkout:/" + "x" * 600])
def test_a_scope_that_is_none_or_that_no_store_can_hold_is_refused(quick, scope):
    with pytest.raises((ScopeError, UsageError)):
        quick.lease(scope, for_=60)
    assert quick.leases() == []


def test_settlements_that_share_a_store_see_each_others_leases(shared_url, open_here, clock):
    ours, theirs = open_here(shared_url), open_here(shared_url)
    lease = ours.lease(REPO, for_=60, by="ada")
    assert refused(theirs).token == lease.token
    lease.release()
    assert theirs.lease(REPO, for_=60, by="bob").token > lease.token
    assert refused(ours, by="ada").holder == "bob"


def test_what_the_store_keeps_is_there_after_a_restart_and_not_taken_before_a_grace_is_over(
    shared_url, open_settlement, clock
):
    with Settlement(shared_url, **clock.options()) as before:
        token = before.lease(REPO, for_=60, by="ada").token
    clock.advance(3_600)  # nobody was there
    settlement = open_settlement(shared_url, **clock.options())
    assert refused(settlement).token == token
    clock.advance(10)
    assert settlement.lease(REPO, for_=60, by="bob").token > token
