"""A policy judges each call before it acts: what it says is on record with the call's intent, or alone if it is no."""

from __future__ import annotations

import pytest
from tests.core.test_ledger_contract import url_of

from settlemark import Denied, Policy, PolicyRule, Settlement, UsageError, effect

TABLE = Policy(
    "treasury-v7",
    [
        PolicyRule("small", "allow", tool="wire", scope="account:/ops", amount="{amount}", up_to=100),
        PolicyRule("large", "ask", tool="wire", scope="account:/ops", amount="{amount}", up_to=1000),
        PolicyRule("mails", "ask", tool="mail"),
        PolicyRule("notes", "allow", tool="note"),
    ],
)


class Bank:
    """What was done, in its order."""

    def __init__(self):
        self.done = []

        @effect("reversible", scope="account:/{account}", undo=lambda account, amount: self.done.append("undone"))
        def wire(account, amount):
            self.done.append((account, amount))
            return amount

        @effect("irreversible", scope="mail:/{to}")
        def mail(to):
            self.done.append(to)
            return to

        @effect("opaque")
        def note(text):
            self.done.append(text)

        self.wire, self.mail, self.note = wire, mail, note


@pytest.fixture
def bank():
    return Bank()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def opened(request):
    """Open settlements on one store, each under a policy of its own."""
    url, found = url_of(request.param, request), []

    def open_(policy=TABLE, **options):
        if url == "memory:" and found:
            pytest.skip("a memory ledger is of one settlement")
        found.append(Settlement(url, policy=policy, **options))
        return found[-1]

    yield open_
    for settlement in found:
        settlement.close()


def verdicts(settlement):
    return [(said.tool, said.verdict, said.rule, said.policy) for said in settlement.verdicts()]


def effects(settlement):
    return [(e.row.tool, e.outcome.value) for t in settlement.transactions() for e in t.effects]


# ---- allowed


def test_an_allowed_call_acts_and_its_verdict_is_on_record(opened, bank):
    settlement = opened()
    with settlement.transaction("eod/1") as tx:
        assert tx.call(bank.wire, account="ops", amount=5) == 5
    (said,) = settlement.verdicts()
    (why,) = [settlement.why(e.row.key) for t in settlement.transactions() for e in t.effects]
    assert (said.tool, said.scope, said.verdict, said.rule, said.policy) == (
        "wire",
        "account:/ops",
        "allow",
        "small",
        "treasury-v7",
    )
    assert (said.key, said.transaction, said.attempt, said.run, said.version) == (why.key, "eod/1", 1, "eod", 1)
    assert (why.verdict, why.rule, why.judged_by, why.policy) == ("allow", "small", "treasury-v7", None)
    assert settlement.audit("eod").faults == ()


def test_a_verdict_is_not_recorded_where_its_effect_is_not(opened, bank, monkeypatch):
    settlement = opened()

    def fail(*_args, **_options):
        raise UsageError("no")

    with settlement.transaction("eod/1") as tx:
        monkeypatch.setattr(type(tx._attempt), "intent", fail)
        with pytest.raises(UsageError):
            tx.call(bank.wire, account="ops", amount=5)
        monkeypatch.undo()
    assert (verdicts(settlement), effects(settlement), bank.done) == ([], [], [])


def test_without_a_policy_nothing_is_said(opened, bank):
    settlement = opened(policy=None)
    with settlement.transaction("eod/1") as tx:
        tx.call(bank.wire, account="tax", amount=5_000)
    assert (verdicts(settlement), bank.done) == ([], [("tax", 5_000)])


def test_reads_are_not_judged(opened, bank):
    @effect("read", scope="rate:/{fund}")
    def rate(fund):
        return 3

    settlement = opened()
    with settlement.transaction("eod/1") as tx:
        assert (tx.call(rate, fund="A"), tx.read("rate:/B", lambda: 4)) == (3, 4)
    assert verdicts(settlement) == []


def test_what_nobody_declared_is_judged(opened, bank):
    settlement = opened()
    with settlement.transaction("eod/1") as tx:
        tx.call(bank.note, text="done")
    assert (verdicts(settlement), bank.done) == ([("note", "allow", "notes", "treasury-v7")], ["done"])


def test_what_is_replayed_is_not_judged_again(opened, bank):
    settlement = opened()
    for _ in range(2):
        with settlement.transaction("eod/1") as tx:
            tx.call(bank.wire, account="ops", amount=5)
    assert (len(verdicts(settlement)), bank.done) == (1, [("ops", 5)])


def test_what_was_denied_is_denied_again_where_it_is_replayed(opened, bank):
    settlement, told = opened(), []
    for _ in range(2):
        with settlement.transaction("eod/1") as tx:
            with pytest.raises(Denied) as refused:
                tx.call(bank.wire, account="tax", amount=5)
            tx.call(bank.note, text="done")
        told.append(refused.value.key)
        settlement.enforce(Policy("treasury-v8", default="allow"))
    assert (bank.done, len(verdicts(settlement)), told[0] == told[1]) == (["done"], 2, True)


# ---- denied


def test_a_denied_call_does_not_act_and_only_the_refusal_is_on_record(opened, bank):
    settlement = opened()
    with settlement.transaction("eod/1") as tx:
        with pytest.raises(Denied, match="denied by the rule 'default' of the policy treasury-v7") as refused:
            tx.call(bank.wire, account="tax", amount=5)
        tx.call(bank.note, text="done")
    error, no = refused.value, settlement.verdicts(verdict="deny")
    assert (error.transaction, error.tool, error.scope, error.rule, error.policy) == (
        "eod/1",
        "wire",
        "account:/tax",
        "default",
        "treasury-v7",
    )
    assert [(said.key, said.tool, said.scope, said.rule) for said in no] == [
        (error.key, "wire", "account:/tax", "default")
    ]
    assert (effects(settlement), bank.done) == ([("note", "confirmed")], ["done"])


def test_a_denied_call_is_on_record_where_its_transaction_is_not(opened, bank):
    settlement = opened()
    with pytest.raises(Denied), settlement.transaction("eod/1") as tx:
        tx.call(bank.wire, account="tax", amount=5)
    assert (verdicts(settlement), settlement.transactions(), bank.done) == (
        [("wire", "deny", "default", "treasury-v7")],
        [],
        [],
    )


def test_what_acted_before_a_denied_call_is_undone_with_its_transaction(opened, bank):
    settlement = opened()
    with pytest.raises(Denied), settlement.transaction("eod/1") as tx:
        tx.call(bank.wire, account="ops", amount=5)
        tx.call(bank.wire, account="tax", amount=5)
    assert (bank.done, settlement.residue()) == ([("ops", 5), "undone"], [])


def test_a_denied_call_waits_for_nobody(opened, bank):
    settlement = opened(wait=0)
    with settlement.transaction("first") as first, settlement.transaction("second") as second:
        first.call(bank.wire, account="ops", amount=5)
        with pytest.raises(Denied):
            second.call(bank.wire, account="ops", amount=5_000)


# ---- asked


def test_an_eager_call_that_is_asked_about_acts_after_the_yes(opened, bank):
    asked = []
    settlement = opened(approver=lambda gate: asked.append((gate.tool, dict(gate.arguments), len(bank.done))) or True)
    with settlement.transaction("eod/1") as tx:
        assert tx.call(bank.wire, account="ops", amount=500) == 500
    assert asked == [("wire", {"account": "ops", "amount": 500}, 0)]
    assert (verdicts(settlement), bank.done) == ([("wire", "ask", "large", "treasury-v7")], [("ops", 500)])


def test_a_no_stops_a_call_that_is_asked_about(opened, bank):
    from settlemark import Rejected

    settlement = opened(approver=lambda gate: False)
    with pytest.raises(Rejected), settlement.transaction("eod/1") as tx:
        tx.call(bank.wire, account="ops", amount=500)
    assert (verdicts(settlement), bank.done) == ([("wire", "ask", "large", "treasury-v7")], [])


def test_with_nobody_to_ask_an_eager_call_is_refused(opened, bank):
    settlement = opened()
    with pytest.raises(UsageError, match="there is nobody to ask"), settlement.transaction("eod/1") as tx:
        tx.call(bank.wire, account="ops", amount=500)
    assert bank.done == []


def test_with_nobody_to_ask_a_held_call_waits_at_the_commit(opened, bank):
    settlement = opened()
    with settlement.transaction("eod/1") as tx:
        tx.call(bank.mail, to="ada")
    (question,) = settlement.approvals()
    assert (question.tool, bank.done) == ("mail", [])
    assert settlement.approve(question.key, by="ada").settled
    assert (bank.done, settlement.approvals()) == (["ada"], [])


def test_what_both_a_policy_and_a_tool_ask_is_asked_once(opened, bank):
    asked = []

    @effect("irreversible", scope="mail:/{to}", approve=True)
    def mail(to):
        bank.done.append(to)

    settlement = opened(approver=lambda gate: asked.append(gate.tool) or True)
    with settlement.transaction("eod/1") as tx:
        tx.call(mail, to="ada")
    assert (asked, bank.done) == (["mail"], ["ada"])


# ---- functions


def judged_by(answer):
    def treasury(call):
        return answer(call) if callable(answer) else answer

    return Policy("treasury-v8", judge=treasury)


def test_a_function_judges_and_may_name_its_rule(opened, bank):
    calls = []
    settlement = opened(judged_by(lambda call: calls.append(call) or ("allow", "own account")))
    with settlement.transaction("eod/1") as tx:
        tx.call(bank.wire, account="ops", amount=5)
    (call,) = calls
    assert (call.tool, call.kind, call.run, call.transaction, call.agent, dict(call.arguments)) == (
        "wire",
        "reversible",
        "eod",
        "eod/1",
        None,
        {"account": "ops", "amount": 5},
    )
    assert verdicts(settlement) == [("wire", "allow", "own account", "treasury-v8")]


async def test_an_async_function_judges(opened, bank):
    async def treasury(call):
        return "deny"

    settlement = opened(Policy("treasury-v8", judge=treasury))
    async with settlement.transaction("eod/1") as tx:
        with pytest.raises(Denied, match="the rule 'treasury'"):
            await tx.call(bank.wire, account="ops", amount=5)
    assert (verdicts(settlement), bank.done) == ([("wire", "deny", "treasury", "treasury-v8")], [])


def _fail(call):
    raise ValueError("the table is away")


@pytest.mark.parametrize("answer", [None, True, "yes", ("allow",), ("allow", 7), _fail])
def test_a_function_that_fails_or_says_no_verdict_lets_nothing_act(opened, bank, answer):
    settlement = opened(judged_by(answer))
    with settlement.transaction("eod/1") as tx, pytest.raises(UsageError, match="the policy treasury-v8 failed"):
        tx.call(bank.wire, account="ops", amount=5)
    assert (verdicts(settlement), effects(settlement), bank.done) == ([], [], [])


def test_rules_for_agents_ask_the_policy_who_runs(opened, bank):
    clerks = Policy("v1", [PolicyRule("clerks", "allow", agent="clerk")], agent=lambda run: run.split("-")[0])
    settlement = opened(clerks)
    with settlement.transaction("clerk-7") as tx:
        tx.call(bank.wire, account="ops", amount=5)
    with settlement.transaction("intern-7") as tx, pytest.raises(Denied):
        tx.call(bank.wire, account="ops", amount=5)
    assert [said.verdict for said in settlement.verdicts()] == ["allow", "deny"]


# ---- what is asked of the record


def test_verdicts_are_listed_by_run_and_by_verdict(opened, bank):
    settlement = opened()
    for run, amount in (("eod", 5), ("late", 5_000)):
        with settlement.transaction(run) as tx:
            try:
                tx.call(bank.wire, account="ops", amount=amount)
            except Denied:
                continue
    assert [said.run for said in settlement.verdicts()] == ["eod", "late"]
    assert [said.run for said in settlement.verdicts(run="eod")] == ["eod"]
    assert [said.run for said in settlement.verdicts(verdict="deny")] == ["late"]
    with pytest.raises(UsageError, match="choose one of"):
        settlement.verdicts(verdict="maybe")


def test_what_is_no_policy_is_refused_at_the_settlement():
    with pytest.raises(UsageError, match=r"policy='treasury-v7': give a settlemark\.Policy"):
        Settlement("memory:", policy="treasury-v7")
