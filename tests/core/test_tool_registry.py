"""The tool registry is a resource: what was planned with a tool does not settle with another one."""

from __future__ import annotations

import pytest

from settlemark import KeyConflict, Revoked, Settlement, Stale, Transaction, UsageError, effect
from settlemark.history import analyze, read
from settlemark.hosting import host_of, run_sync


@pytest.fixture
def sent():
    return []


@pytest.fixture(params=["memory:", "sqlite"])
def url(request, tmp_path):
    return request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'trip.db'}"


@pytest.fixture
def open_settlement(url, tmp_path):
    opened = []

    def open_one(**options):
        opened.append(Settlement(url, history=tmp_path / "history.jsonl", **options))
        opened[-1].declare("send_mail", "irreversible", scope="mail:/{to}")
        return opened[-1]

    yield open_one
    for settlement in opened:
        settlement.close()


@pytest.fixture
def send_mail(sent):
    def send_mail(to):
        sent.append(to)

    return send_mail


def change(settlement):
    settlement.declare("send_mail", "irreversible", scope="mail:/{to}", version="2")


def test_a_revoked_tool_is_not_run(open_settlement, sent, send_mail):
    settlement = open_settlement()
    settlement.revoke("send_mail")
    with (
        pytest.raises(Revoked, match="send_mail was revoked: it was not run") as refused,
        settlement.transaction("t") as tx,
    ):
        tx.call(send_mail, to="ada")
    assert (refused.value.tool, sent, settlement.residue()) == ("send_mail", [], [])


@pytest.mark.parametrize("tools", ["checked", "pinned"])
def test_what_was_queued_with_a_tool_that_is_revoked_then_never_leaves(open_settlement, sent, send_mail, tools):
    settlement = open_settlement(tools=tools)
    with pytest.raises(Stale, match="registry:/tool/send_mail was revoked after the call was planned"):
        with settlement.transaction("t") as tx:
            tx.call(send_mail, to="ada")
            settlement.revoke("send_mail")
    assert sent == []


def test_a_tool_that_is_changed_before_the_commit_makes_the_plan_stale(open_settlement, sent, send_mail):
    settlement = open_settlement()
    with pytest.raises(Stale, match="registry:/tool/send_mail was changed after the call was planned"):
        with settlement.transaction("t") as tx:
            tx.call(send_mail, to="ada")
            change(settlement)
    assert sent == []


def test_run_plans_again_with_the_tool_as_it_is_now(open_settlement, sent, send_mail):
    settlement = open_settlement()
    tries = []

    def plan(tx):
        tries.append(len(tries))
        tx.call(send_mail, to="ada")
        if len(tries) == 1:
            change(settlement)

    settlement.run("t", plan)
    assert (tries, sent) == ([0, 1], ["ada"])


def test_a_pinned_tool_is_called_as_it_was_planned(open_settlement, tmp_path, sent, send_mail):
    settlement = open_settlement(tools="pinned")
    with settlement.transaction("t") as tx:
        tx.call(send_mail, to="ada")
        change(settlement)
    assert sent == ["ada"]
    settlement.close()
    assert analyze(read(tmp_path / "history.jsonl"))["A2"].count == 0


def test_the_same_declaration_again_changes_nothing(open_settlement, sent, send_mail):
    settlement = open_settlement()
    with settlement.transaction("t") as tx:
        tx.call(send_mail, to="ada")
        settlement.declare("send_mail", "irreversible", scope="mail:/{to}")
    assert sent == ["ada"]


def test_declaring_it_again_does_not_bring_a_revoked_tool_back_and_reinstating_does(open_settlement, sent, send_mail):
    settlement = open_settlement()
    settlement.revoke("send_mail")
    change(settlement)
    with pytest.raises(Revoked), settlement.transaction("t") as tx:
        tx.call(send_mail, to="ada")
    settlement.reinstate("send_mail")
    with settlement.transaction("u") as tx:
        tx.call(send_mail, to="ada")
    assert sent == ["ada"]


def test_without_the_guard_a_phantom_leaves_and_the_history_says_so(open_settlement, tmp_path, sent, send_mail):
    settlement = open_settlement(prevent={"A1", "A3", "A6"})
    with settlement.transaction("t") as tx:
        tx.call(send_mail, to="ada")
        settlement.revoke("send_mail")
    assert sent == ["ada"]
    settlement.close()
    (witness,) = analyze(read(tmp_path / "history.jsonl"))["A2"].witnesses
    assert "chose send_mail" in witness.sentence


def test_all_who_share_a_ledger_know_it(tmp_path, sent, send_mail):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    with Settlement(url) as one, Settlement(url) as other:
        for settlement in (one, other):
            settlement.declare("send_mail", "irreversible", scope="mail:/{to}")
        one.revoke("send_mail")
        with pytest.raises(Revoked), other.transaction("t") as tx:
            tx.call(send_mail, to="ada")
    with Settlement(url) as later:
        later.declare("send_mail", "irreversible", scope="mail:/{to}")
        with pytest.raises(Revoked), later.transaction("u") as tx:
            tx.call(send_mail, to="ada")
    assert sent == []


def test_a_yes_to_a_call_is_no_yes_to_the_same_call_of_another_version(open_settlement, sent):
    settlement = open_settlement()

    def build(version):
        @effect("idempotent", scope="card:/{card}", approve=True, version=version)
        def pay(card):
            sent.append((version, card))

        return pay

    class Asked(BaseException):
        pass

    def ask(gate):
        raise Asked

    def visit(pay, approver):
        program = host_of(settlement).driver.entrance.enter(
            **host_of(settlement).options("t", None, approver=approver), independent=False
        )
        part = run_sync(program)
        face = Transaction(host_of(settlement), part)
        made = face._effect(pay, (), {"card": "visa"})
        return part, lambda: run_sync(host_of(settlement).driver.calls.call(part.attempt, made, let_through=(Asked,)))

    part, call = visit(build("1"), ask)
    with pytest.raises(Asked):
        call()
    run_sync(host_of(settlement).driver.undoing.suspend(part.attempt))
    _, call = visit(build("2"), lambda gate: True)
    with pytest.raises(Stale, match="registry:/tool/pay was changed after the call was planned"):
        call()
    assert sent == []


@pytest.mark.parametrize("scope", ["card:/{card}", "account:/{card}"], ids=["like the first", "unlike it"])
def test_another_call_in_the_place_of_a_question_is_told_so_and_not_that_a_tool_was_changed(
    open_settlement, sent, scope
):
    settlement = open_settlement()

    @effect("idempotent", scope="card:/{card}", approve=True)
    def pay(card):
        sent.append(("pay", card))

    @effect("idempotent", scope=scope, approve=True)
    def refund(card):
        sent.append(("refund", card))

    class Asked(BaseException):
        pass

    def ask(gate):
        raise Asked

    host = host_of(settlement)

    def visit(tool, call_id, approver):
        part = run_sync(host.driver.entrance.enter(**host.options("t", None, approver=approver), independent=False))
        made = Transaction(host, part)._effect(tool, (), {"card": "visa"})
        made.call_id = call_id
        return part, lambda: run_sync(host.driver.calls.call(part.attempt, made, let_through=(Asked,)))

    part, call = visit(pay, "call-1", ask)
    with pytest.raises(Asked):
        call()
    run_sync(host.driver.undoing.suspend(part.attempt))
    _, call = visit(refund, "call-2", lambda gate: True)
    with pytest.raises(KeyConflict, match=r'was pay\({"card":"visa"}\) before and is refund\({"card":"visa"}\) now'):
        call()
    assert (sent, settlement.residue()) == ([], [])


def test_a_revocation_ends_what_was_planned_at_once(open_settlement, sent):
    settlement = open_settlement()
    undone = []

    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: undone.append(hotel))
    def reserve(hotel):
        sent.append(hotel)

    planned = settlement.transaction("t")
    planned.__enter__().call(reserve, hotel="Ada")
    settlement.revoke("reserve")
    assert (sent, undone) == (["Ada"], ["Ada"])
    with pytest.raises(Stale, match=r"choose another tool, or settlement.reinstate\('reserve'\)"):
        planned.__exit__(None, None, None)


def test_what_was_split_off_knows_its_tools_in_a_later_process(url, tmp_path, sent, send_mail, open_settlement):
    if url == "memory:":
        pytest.skip("nothing of it is left for a later process")
    settlement = open_settlement()
    with settlement.transaction("t", park="split") as tx:
        tx.call(send_mail, to="ada")
        tx.park()
    (name,) = [parked.transaction for parked in settlement.parked()]
    settlement.close()
    settlement = open_settlement()
    host_of(settlement).tools.know("send_mail", send_mail)
    settlement.revoke("send_mail")
    with pytest.raises((Stale, UsageError)):
        settlement.answer(name, approve=True)
    assert sent == []


def test_a_change_is_seen_whatever_other_tool_is_revoked_and_given_back_meanwhile(open_settlement, sent, send_mail):
    settlement = open_settlement(prevent={"A1", "A3", "A6", "A2"}, tools="checked")
    with pytest.raises(Stale, match="registry:/tool/send_mail was changed after the call was planned"):
        with settlement.transaction("t") as tx:
            tx.call(send_mail, to="ada")
            change(settlement)
            settlement.revoke("send_letter")
            settlement.reinstate("send_letter")
    assert (sent, settlement.residue()) == ([], [])


def test_a_revocation_of_what_nobody_knows_is_said(open_settlement, caplog):
    open_settlement().revoke("snd_mail")
    assert "snd_mail was revoked, and nothing is declared here under that name" in caplog.text


def test_a_function_where_a_name_belongs_is_refused_and_nothing_is_declared():
    def wire(to): ...

    with Settlement("memory:") as settlement:
        with pytest.raises(UsageError, match="a tool is given by its name, a text, not <function"):
            settlement.declare(wire, "irreversible", scope="wire:/{to}")
        assert settlement.declared("wire") is None
