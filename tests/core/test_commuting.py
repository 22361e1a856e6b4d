"""Effects that commute: those of one group on one scope claim it together, wait for nobody of it, and undo alone."""

from __future__ import annotations

import threading

import pytest
from tests.rooms.protocol import Mode

from settlemark import DeclarationError, Entangled, Refused, Scope, Stale, State, current_call, effect
from settlemark.hosting import Protocol, Reason
from settlemark.testing import Bank

AGENTS = 16


def add(stage, txn, scope, group="add", mode=Mode.EAGER):
    """Ask for a commuting effect; return the call and who is in the way."""
    call = stage.protocol.request(txn, Scope.parse(scope), mode, commutes=group)
    blocked = stage.protocol.admit(call)
    return call, blocked and blocked.holder


def added(stage, txn, scope, group="add"):
    call, holder = add(stage, txn, scope, group)
    assert holder is None
    stage.protocol.acted(call, happened=True)
    return call


def settled(stage, txn):
    stage.protocol.seal(txn)
    return stage.protocol.decide(txn)


# ---- who waits


def test_effects_of_one_group_claim_a_scope_together_and_settle_in_any_order(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    added(stage, older, "stock:/nails")
    added(stage, younger, "stock:/nails")
    assert settled(stage, younger) is None
    assert settled(stage, older) is None
    assert (older.state, younger.state) == (State.COMMITTED, State.COMMITTED)


def test_held_effects_of_one_group_pass_each_other_too(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    add(stage, older, "stock:/nails", mode=Mode.HELD)
    added(stage, younger, "stock:/nails")
    assert settled(stage, younger) is None


@pytest.mark.parametrize("mode", [Mode.READ, Mode.EAGER, Mode.FINAL])
def test_a_read_and_any_other_effect_wait_for_all_of_them(stage, mode):
    first, second, other = stage.begin("first"), stage.begin("second"), stage.begin("other")
    for txn in (first, second):
        added(stage, txn, "stock:/nails")
    call, holder = stage.ask(other, "stock:/nails", mode)
    assert holder in {first, second}
    assert settled(stage, second) is None
    assert stage.protocol.admit(call).holder is first
    assert settled(stage, first) is None
    assert stage.protocol.admit(call) is None


@pytest.mark.parametrize(
    ("scope", "group"),
    [("stock:/nails", "multiply"), ("stock:/nails/long", "add"), ("stock:", "add"), ("stock:/*", "add")],
    ids=["another group", "a child", "a parent", "a wildcard"],
)
def test_what_is_of_another_group_or_on_another_scope_that_overlaps_waits(stage, scope, group):
    older, younger = stage.begin("older"), stage.begin("younger")
    added(stage, older, "stock:/nails")
    assert add(stage, younger, scope, group)[1] is older


def test_one_that_reads_the_scope_too_does_not_commute(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.read(older, "stock:/nails")
    added(stage, older, "stock:/nails")
    assert add(stage, younger, "stock:/nails")[1] is older


def test_one_that_reads_below_what_its_group_has_settled_is_restamped_above_it_first(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    added(stage, older, "stock:/nails")
    added(stage, younger, "stock:/nails")
    position = younger.position
    assert settled(stage, younger) is None
    stage.read(older, "stock:/nails")
    assert older.position > position


def test_the_older_of_two_that_then_reads_wounds_the_younger(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    added(stage, older, "stock:/nails")
    added(stage, younger, "stock:/nails")
    call, holder = stage.ask(older, "stock:/nails", Mode.READ)
    assert (younger.state, holder, call.admitted) == (State.ABORTING, younger, False)  # until that is undone


def test_effects_of_two_groups_on_one_scope_stand_for_neither(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    added(stage, older, "stock:/nails", "add")
    added(stage, older, "stock:/nails", "multiply")
    for group in ("add", "multiply"):
        assert add(stage, younger, "stock:/nails", group)[1] is older


def test_a_scope_that_is_declared_commutes_with_nothing_until_it_is_touched(stage):
    older, younger = stage.begin("older", "stock:/nails"), stage.begin("younger")
    added(stage, younger, "stock:/nails")
    assert settled(stage, younger).holder is older
    added(stage, older, "stock:/nails")
    assert stage.protocol.decide(younger) is None


def test_a_retry_has_touched_nothing_yet_and_is_passed_by_nobody(stage):
    older, younger = stage.begin("older", retry=True), stage.begin("younger")
    undone = added(stage, older, "stock:/nails")
    added(stage, younger, "stock:/nails")
    stage.protocol.abort(older, Reason.STALE)
    stage.undo(older, undone)
    assert settled(stage, younger).holder is older.successor
    added(stage, older.successor, "stock:/nails")
    assert stage.protocol.decide(younger) is None


def test_one_that_was_wounded_for_touching_it_in_another_way_holds_it_alone_when_it_is_tried_again(stage):
    older, younger = stage.begin("older"), stage.begin("younger", retry=True)
    added(stage, older, "stock:/nails")
    undone = added(stage, younger, "stock:/nails")
    read = stage.protocol.request(younger, Scope.parse("stock:/nails"), Mode.READ)
    assert stage.protocol.admit(read).holder is older
    more = stage.protocol.request(older, Scope.parse("stock:/nails"), Mode.EAGER, commutes="add")
    assert (stage.protocol.admit(more).holder, younger.reason) == (younger, Reason.WOUNDED)
    stage.undo(younger, undone)
    again = stage.protocol.request(younger.successor, Scope.parse("stock:/nails"), Mode.EAGER, commutes="add")
    assert stage.protocol.admit(again).holder is older
    assert stage.protocol.admit(more) is None
    assert younger.successor.state is State.OPEN


def test_one_that_may_touch_a_part_of_the_scope_in_another_way_is_waited_for_at_the_end_alone(stage):
    older, younger = stage.begin("older", "stock:/nails/long"), stage.begin("younger")
    added(stage, older, "stock:/nails")
    added(stage, younger, "stock:/nails")
    assert settled(stage, younger).holder is older
    assert settled(stage, older) is None
    assert stage.protocol.decide(younger) is None


def test_an_older_one_with_claims_of_its_own_wounds_nobody_of_its_group_and_stays_where_it_is(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.write(older, "room:/Ada")
    added(stage, younger, "stock:/nails")
    position = older.position
    added(stage, older, "stock:/nails")
    assert (older.position, younger.state) == (position, State.OPEN)


def test_below_what_its_group_has_settled_one_goes_on_in_its_group_where_it_is_and_in_another_way_above_it(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    for txn in (older, younger):
        added(stage, txn, "stock:/nails")
    position = older.position
    assert settled(stage, younger) is None
    added(stage, older, "stock:/nails")
    assert older.position == position
    added(stage, older, "stock:/nails", "multiply")
    assert older.position > younger.position


def test_below_what_its_group_has_settled_one_that_touches_a_part_of_the_scope_is_restamped(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    for txn in (older, younger):
        added(stage, txn, "stock:/nails")
    assert settled(stage, younger) is None
    added(stage, older, "stock:/nails/long")
    assert older.position > younger.position


@pytest.mark.parametrize("first", ["held", "undone"])
def test_what_is_held_leaves_beside_the_undo_of_one_of_its_group(stage, first):
    txns = {name: stage.begin(name) for name in sorted(("held", "undone"), key=first.__ne__)}
    held, undone = txns["held"], txns["undone"]
    add(stage, held, "stock:/nails", mode=Mode.HELD)
    call = added(stage, undone, "stock:/nails")
    stage.protocol.abort(undone, Reason.FAILED)
    assert (settled(stage, held), held.state, undone.state) == (None, State.RELEASING, State.ABORTING)
    stage.undo(undone, call)


def test_branches_of_a_choice_share_a_scope_with_effects_of_one_group_and_with_nothing_else(stage):
    choice = stage.begin("choice", role="choice")
    first, second, third = (stage.begin(f"choice~{number}", group=choice.id) for number in range(3))
    added(stage, first, "stock:/nails")
    added(stage, second, "stock:/nails")
    for group in ("multiply", ""):
        with pytest.raises(Entangled):
            add(stage, third, "stock:/nails", group)
    with pytest.raises(Entangled):
        add(stage, third, "stock:/nails/long")
    with pytest.raises(Entangled):
        stage.ask(second, "stock:/nails", Mode.READ)


def test_a_commuting_write_makes_a_read_stale(stage):
    writer, reader = stage.begin("writer"), stage.begin("reader")
    stage.read(reader, "stock:/nails")
    added(stage, writer, "stock:/nails")
    assert settled(stage, writer) is None
    stage.protocol.seal(reader)
    with pytest.raises(Stale, match="changed after it was read"):
        stage.protocol.decide(reader)
    assert reader.state is State.ABORTED


def test_the_log_of_a_store_says_what_commutes():
    first, replica = Protocol(), Protocol()
    first.journal = []
    scope = Scope.parse("stock:/nails")
    older, younger = first.begin("older"), first.begin("younger")
    for txn in (older, younger):
        call = first.request(txn, scope, Mode.EAGER, commutes="add")
        first.admit(call)
        first.acted(call, happened=True)
    first.seal(younger)
    assert first.decide(younger) is None
    for command in first.journal:
        replica.apply(command)
    assert replica.freeze() == first.freeze()


# ---- who may commute


REFUSED = {
    "read": ({}, "drop commutes="),
    "idempotent": ({"undo": print}, "declare it reversible"),
    "irreversible": ({}, "declare it staged"),
    "opaque": ({}, "declare it reversible with undo="),
}


def nothing() -> None:
    """Do nothing."""


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_taken_back_or_kept_back_is_refused_with_the_fix(quick, kind):
    parts, fix = REFUSED[kind]
    undo = {"undo": nothing} if parts else {}
    with pytest.raises(DeclarationError, match=fix):
        quick.declare("count", kind, scope="stock:/nails", commutes="add", **undo)


def test_a_cost_and_a_scope_that_is_not_exact_are_refused(quick):
    with pytest.raises(DeclarationError, match="leaves a cost"):
        quick.declare("count", "reversible", scope="stock:/nails", undo=nothing, cost="a fee", commutes="add")
    with pytest.raises(DeclarationError, match="one exact scope"):
        quick.declare("count", "reversible", scope="stock:/a", undo=nothing, may_touch="stock:", commutes="add")


@pytest.mark.parametrize("group", ["", 7, True])
def test_a_group_without_a_name_is_refused(quick, group):
    with pytest.raises(DeclarationError, match="names no group"):
        quick.declare("count", "reversible", scope="stock:/nails", undo=nothing, commutes=group)


# ---- sixteen agents and a bank


class CutShortError(Exception):
    """An agent's own failure."""


@pytest.fixture
def bank():
    with Bank({"payer": 1_000, "fund": 0}) as bank:
        yield bank


def pay_into(bank, **parts):
    @effect("reversible", scope="account:/fund", undo=lambda result: bank.reverse(result), **parts)
    def pay(amount: int) -> str:
        return bank.wire(current_call().key, "payer", "fund", amount)

    return pay


@pytest.mark.parametrize("failing", [(), (1, 5, 9, 13)], ids=["all settle", "a part is undone"])
def test_sixteen_agents_pay_into_one_account_and_nobody_waits_or_is_undone_for_another(settlement, bank, failing):
    pay = pay_into(bank, commutes="pay in")
    all_have_paid = threading.Barrier(AGENTS, timeout=60)
    ended = {}

    def agent(number):
        try:
            with settlement.transaction(f"agent-{number}") as tx:
                tx.call(pay, amount=number + 1)
                all_have_paid.wait()  # none has settled yet, and each has acted
                if number in failing:
                    raise CutShortError
            ended[number] = "committed"
        except CutShortError:
            ended[number] = "failed"
        except Refused as error:
            ended[number] = str(error)

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(AGENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == {number: "failed" if number in failing else "committed" for number in range(AGENTS)}
    paid = sum(number + 1 for number in range(AGENTS) if number not in failing)
    assert bank.balances() == {"payer": 1_000 - paid, "fund": paid}
    assert len(bank.wires()) == AGENTS + len(failing)  # each acted once, and the failed were taken back
    assert settlement.residue() == []
