"""What is stuck is mended by a plan that is checked, gated, run and proven; else a person is paged, once."""

from __future__ import annotations

import threading

import pytest
from tests.core.mending.conftest import Pager

from settlemark import Budget, Outcome, Payloads, Policy, PolicyRule, UsageError, effect

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


class Boom(Exception):
    """A failure of the caller's own."""


def call(tool, **arguments):
    return {"tool": tool, "arguments": arguments}


def fail(settlement, hotel, name="trip", room="7"):
    with pytest.raises(Boom), settlement.transaction(name) as tx:
        tx.call(hotel.book, room=room)
        raise Boom


def remedy(settlement):
    (stuck,) = settlement.stuck()
    return stuck.remedy


def test_a_plan_is_run_as_a_transaction_of_its_own_and_proven_by_the_probe(settlement, hotel, proposed, pager):
    proposed.plan = [call("void", room="7")]
    fail(settlement, hotel)
    settlement.recover()
    assert [(each.transaction, each.effects[0].key) for each in proposed] == [
        ("trip", settlement.transactions()[0].effects[0].row.key)
    ]
    assert (hotel.log, hotel.taken, settlement.stuck(), settlement.residue(), pager.notices) == (
        [("book", "7"), ("void", "7")],
        set(),
        [],
        [],
        [],
    )
    trip, mend = settlement.transactions()
    (mended,) = trip.effects
    assert (mended.outcome, mended.disposition, mended.link) == (Outcome.UNDONE, "mended", mend.row.name)
    assert (mend.row.name.startswith("mends/"), mend.row.run, mend.state) == (True, "trip", "committed")


def test_it_is_asked_about_once_and_never_again(settlement, hotel, proposed, pager):
    fail(settlement, hotel)
    for _ in range(3):
        settlement.recover()
    assert (len(proposed), pager.told()) == (1, [("trip", "silent")])
    assert (remedy(settlement).state, remedy(settlement).told) == ("paged", ("pager",))


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ([call("nothing_of_that_name", room="7")], "is not declared in this process"),
        ([call("void", room="8")], "which trip did not touch: it may touch room:/7"),
        ([call("void", rooms="7")], "a call that its tool does not take"),
        ([{"tool": "void"}], "a plan is a list of calls"),
        ("void 7", "a plan is a list of calls"),
    ],
)
def test_a_plan_that_it_may_not_have_is_refused_before_anything_runs_and_a_person_is_paged(
    settlement, hotel, proposed, pager, plan, why
):
    proposed.plan = plan
    fail(settlement, hotel)
    settlement.recover()
    assert (hotel.log, pager.told(), len(settlement.transactions())) == ([("book", "7")], [("trip", "refused")], 1)
    assert why in pager.notices[0].data["tried"]["why"]


def test_a_plan_that_does_not_mend_is_taken_back_and_a_person_is_paged(settlement, hotel, proposed, pager):
    hotel.works, proposed.plan = False, [call("void", room="7")]
    fail(settlement, hotel)
    settlement.recover()
    assert hotel.log == [("book", "7"), ("void", "7"), ("take again", "7")]
    assert pager.told() == [("trip", "unproven")]
    assert [each.transaction for each in settlement.stuck()] == ["trip"]


def test_a_proposer_that_fails_is_told_to_a_person(settlement, hotel, proposed, pager):
    proposed.plan = RuntimeError("no model")
    fail(settlement, hotel)
    settlement.recover()
    assert (pager.told(), pager.notices[0].data["tried"]["why"]) == (
        [("trip", "failed")],
        "on_stuck= failed: RuntimeError: no model",
    )


def test_what_has_no_probe_is_not_asked_about_since_nothing_could_prove_a_mend(settlement, hotel, proposed, pager):
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(hotel.ring, room="7")
        raise Boom
    settlement.recover()
    assert (proposed, pager.told()) == ([], [("trip", "refused")])


def test_a_plan_that_cannot_be_undone_waits_for_a_yes_before_any_of_it_runs(settlement, hotel, proposed, pager):
    proposed.plan = [call("void", room="7"), call("evict", room="7")]
    fail(settlement, hotel)
    settlement.recover()
    settlement.recover()
    (asked,) = settlement.approvals()
    assert (hotel.log, asked.tool, remedy(settlement).state) == ([("book", "7")], "settlemark.mend", "gated")
    assert asked.arguments["plan"] == proposed.plan
    settlement.approve(asked, by="ada")
    settlement.recover()
    assert (hotel.log[1:], settlement.stuck(), pager.notices) == ([("void", "7"), ("evict", "7")], [], [])


def test_a_plan_to_which_a_person_says_no_does_not_run(settlement, hotel, proposed, pager):
    proposed.plan = [call("evict", room="7")]
    fail(settlement, hotel)
    settlement.recover()
    settlement.reject(settlement.approvals()[0], because="they sleep", by="ada")
    settlement.recover()
    assert (hotel.log, pager.told()) == ([("book", "7")], [("trip", "refused")])


def test_a_channel_that_fails_is_told_again_under_the_same_id(settlement, hotel, pager, clock):
    pager.broken = True
    fail(settlement, hotel)
    settlement.recover()
    assert (remedy(settlement).state, remedy(settlement).told) == ("paged", ())
    pager.broken = False
    settlement.recover()
    assert pager.notices == []  # another worker may be telling it
    clock.advance(61)
    settlement.recover()
    settlement.recover()
    assert [notice.id for notice in pager.notices] == [f"mend-{remedy(settlement).id}"]


def test_of_two_processes_one_asks_and_one_pages(shared_url, open_here, hotel):
    asked, pagers = [], (Pager(), Pager())
    desks = [open_here(shared_url, on_stuck=asked.append, channels=[each]) for each in pagers]
    fail(desks[0], hotel)
    for desk in (*desks, *desks):
        desk.recover()
    assert (len(asked), sum(len(each.notices) for each in pagers)) == (1, 1)


def test_who_was_asked_and_says_nothing_for_a_minute_is_silent(shared_url, open_here, hotel, clock):
    pager = Pager()
    other = open_here(shared_url, channels=[pager])
    plans = []

    def hangs(stuck):
        clock.advance(61)
        other.recover()
        plans.append(stuck)
        return [call("void", room="7")]

    desk = open_here(shared_url, on_stuck=hangs)
    fail(desk, hotel)
    desk.recover()
    assert (len(plans), hotel.log, pager.told()) == (1, [("book", "7")], [("trip", "silent")])


def test_an_async_proposer_and_async_tools_do_as_well(url, open_here, hotel):
    @effect("reversible", scope="room:/{room}", undo=lambda room: None, name="void_async")
    async def void_async(room):
        hotel.taken.discard(room)

    async def propose(stuck):
        return [call("void_async", room="7")]

    settlement = open_here(url, on_stuck=propose)
    fail(settlement, hotel)
    settlement.recover()
    assert (hotel.taken, settlement.stuck()) == (set(), [])


def test_the_plan_on_record_is_redacted_as_its_tools_are(url, open_here, hotel, pager):
    settlement = open_here(
        url, on_stuck=lambda stuck: [call("evict", room="7")], channels=[pager], payloads=Payloads(redact=["room"])
    )
    fail(settlement, hotel)
    settlement.recover()
    assert remedy(settlement).plan == ({"tool": "evict", "arguments": {"room": {"$redacted": None}}},)


@pytest.mark.parametrize("given", [{"channels": [Pager(), Pager()]}, {"on_stuck": "ask"}])
def test_what_is_no_channel_and_no_proposer_is_refused(open_here, given):
    with pytest.raises(UsageError):
        open_here(**given)


def test_without_either_nothing_is_recorded_about_what_is_stuck(url, open_here, hotel):
    settlement = open_here(url)
    fail(settlement, hotel)
    settlement.recover()
    assert remedy(settlement) is None


# ---- what holds for its run holds for its plan


def test_a_plan_spends_from_the_budget_of_the_run_that_it_mends(url, open_here, hotel, pager):
    @effect("reversible", scope="room:/{room}", undo=lambda room: None, spends={"usd": 30}, name="buy_out")
    def buy_out(room):
        hotel.taken.discard(room)

    plan = [call("buy_out", room="7")]
    settlement = open_here(url, on_stuck=lambda stuck: plan, channels=[pager], budgets=[Budget("usd", 40)])
    settlement.charge("usd", 20, run="trip", key="model")
    fail(settlement, hotel)
    settlement.recover()
    assert (hotel.taken, pager.told()) == ({"7"}, [("trip", "failed")])
    assert "usd" in pager.notices[0].data["tried"]["why"]


def test_a_plan_is_judged_by_the_policy_as_any_call(url, open_here, hotel, pager):
    policy = Policy("v1", [PolicyRule("no voids", "deny", tool="void")], default="allow")
    settlement = open_here(url, on_stuck=lambda stuck: [call("void", room="7")], channels=[pager], policy=policy)
    fail(settlement, hotel)
    settlement.recover()
    assert (hotel.log, pager.told()) == ([("book", "7")], [("trip", "failed")])


def test_a_plan_waits_while_its_scopes_are_halted(settlement, hotel, proposed, pager):
    proposed.plan = [call("void", room="7")]
    fail(settlement, hotel)
    halt = settlement.halt("room:/**", by="eve", because="odd")
    settlement.recover()
    assert (hotel.log, remedy(settlement).state, pager.notices) == ([("book", "7")], "proposed", [])
    settlement.resume(halt, by="eve")
    settlement.recover()
    assert (hotel.taken, settlement.stuck()) == (set(), [])


def test_a_plan_for_a_cancelled_run_does_not_run(settlement, hotel, proposed, pager):
    proposed.plan = [call("void", room="7")]
    fail(settlement, hotel)
    settlement.cancel("trip")
    settlement.recover()
    assert (hotel.log, pager.told()) == ([("book", "7")], [("trip", "failed")])


def test_a_plan_stands_on_nothing_that_its_run_had_read(settlement, hotel, proposed, pager):
    proposed.plan = [call("void", room="7")]
    put = effect("reversible", scope="price:/{of}", undo=lambda of: None, name="put_price")(lambda of: None)
    with settlement.transaction("trip/1") as tx:
        tx.read("price:/a", lambda: 1)
    fail(settlement, hotel, "trip/2")
    with settlement.transaction("other") as tx:
        tx.call(put, of="a")
    settlement.recover()
    assert (hotel.taken, settlement.stuck(), pager.notices) == (set(), [], [])


def test_in_the_background_it_is_done_without_being_asked_for(url, open_settlement, hotel):
    paged = threading.Event()

    class Bell:
        name = "bell"

        def tell(self, notice):
            paged.set()

    settlement = open_settlement(url, on_stuck=lambda stuck: None, channels=[Bell()])
    fail(settlement, hotel)
    assert paged.wait(30)


def test_a_name_that_a_mend_would_have_is_refused_before_anything_begins(settlement):
    for begin in (
        lambda: settlement.transaction("mends/7"),
        lambda: settlement.run("mends/7", lambda tx: None),
        lambda: settlement.speculate([lambda tx: None], lambda found: 0, name="mends/7"),
    ):
        with pytest.raises(UsageError, match="names that begin with mends/ are those of mends"):
            begin()
    assert settlement.transactions() == []
