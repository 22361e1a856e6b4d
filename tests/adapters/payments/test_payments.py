"""A payment happens once, whatever happens to its answer: judged from the provider's own log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.payments.subject import API_KEY, AUTHORIZED, CAPTURED, treasury

from settlemark import InDoubt, PartialCommit, Refused, Settlement, Stale, Tag
from settlemark.hosting import declaration_of, host_of, run_sync
from settlemark.testing import die, in_child
from settlemark_adapters.http import HttpRefused, HttpUnanswered, Patience
from settlemark_adapters.payments import CURRENCIES, DAY, MARGIN, Payments

PAYMENT = {"customer": "ada", "amount": 1250, "currency": "EUR"}
PART = {"payment": "pay_a", "amount": 500, "currency": "EUR"}
NAME = "eod-2026-11-20/sweep"
KEY = f"{NAME}#1/0"


@pytest.fixture
def opened(clock, passes):
    """The adapter in the clock's time."""

    def open_(settlement, provider, **options):
        return treasury(settlement, provider, **{"clock": clock, "sleep": passes} | options)

    return open_


@pytest.fixture
def authorized(provider):
    provider.tell("seed", payments={"pay_a": AUTHORIZED})


@pytest.fixture
def captured(provider):
    provider.tell("seed", payments={"pay_a": CAPTURED})


def outcome(settlement, key=KEY):
    (found,) = [e for t in settlement.transactions() for e in t.effects if e.row.key == key]
    return found.outcome.value, found.tag and found.tag.value


# ---- what each does


def test_its_tools_say_what_they_are():
    tools = Payments("https://pay.example", api_key=API_KEY).tools()
    assert [(declaration_of(t).tool, declaration_of(t).kind.value, declaration_of(t).keyed) for t in tools] == [
        ("authorize_payment", "reversible", True),
        ("capture_payment", "irreversible", True),
        ("refund_payment", "irreversible", True),
        ("get_payment", "read", False),
    ]
    assert {declaration_of(t).window for t in tools[:3]} == {DAY - MARGIN}
    assert tools[0].__doc__.startswith("Reserve an amount of a customer's money")


def test_two_providers_have_tools_of_their_own_names_and_may_be_declared_otherwise():
    tools = Payments("https://pay.example", api_key=API_KEY, name="shop", effects={"refund_payment": "opaque"}).tools()
    told = [(declaration_of(tool).tool, declaration_of(tool).kind.value) for tool in tools]
    assert told == [
        ("shop_authorize_payment", "reversible"),
        ("shop_capture_payment", "irreversible"),
        ("shop_refund_payment", "opaque"),
        ("shop_get_payment", "read"),
    ]


def test_an_order_is_paid_authorized_at_once_and_captured_at_commit(settlement, provider, opened):
    payments = opened(settlement, provider)
    with settlement.transaction("t") as tx:
        payment = tx.call(payments.authorize, **PAYMENT, order="o7")
        queued = tx.call(payments.capture, payment=payment["id"], amount=1250, currency="EUR")
        assert provider.moved() == [("authorized", "t#1/0")]
    assert provider.moved() == [("authorized", "t#1/0"), ("captured", "t#1/1")]
    assert queued.result() == {"id": "pay_1", "amount": 1250, "currency": "EUR"}
    assert payments.payment("pay_1") == {
        "id": "pay_1", "customer": "ada", "amount": 1250, "currency": "EUR", "order": "o7", "status": "captured",
        "captured": 1250, "refunded": 0,
    }  # fmt: skip # a table


def test_an_abort_voids_what_was_authorized_and_captures_nothing(settlement, provider, opened):
    payments = opened(settlement, provider)
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        payment = tx.call(payments.authorize, **PAYMENT)
        tx.call(payments.capture, payment=payment["id"], amount=1250, currency="EUR")
        raise RuntimeError
    assert provider.moved() == [("authorized", "t#1/0"), ("voided", None)]
    assert (provider.payments()["pay_1"]["status"], settlement.residue()) == ("voided", [])


def test_what_somebody_has_captured_meanwhile_is_not_voided_but_named(settlement, provider, opened):
    payments = opened(settlement, provider)
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        payment = tx.call(payments.authorize, **PAYMENT)
        provider.tell("seed", payments={"pay_1": payment | {"status": "captured", "captured": 1250}})
        raise RuntimeError
    (left,) = settlement.residue()
    assert (left.tag, provider.payments()["pay_1"]["captured"]) == (Tag.UNRESOLVED, 1250)
    assert "it is captured: refund it" in left.note


def test_a_capture_and_its_refund_may_settle_together(settlement, provider, opened, authorized):
    payments = opened(settlement, provider)
    with settlement.transaction("t") as tx:
        tx.call(payments.capture, **PART)
        tx.call(payments.refund, **PART | {"amount": 200})
    assert provider.moved() == [("captured", "t#1/0"), ("refunded", "t#1/1")]
    assert provider.payments()["pay_a"]["refunded"] == 200


def test_a_payment_that_has_changed_since_it_was_read_makes_the_plan_stale(settlement, provider, opened, captured):
    payments = opened(settlement, provider)
    with pytest.raises(Stale), settlement.transaction("t") as tx:
        assert tx.call(payments.payment, payment="pay_a")["refunded"] == 0
        tx.call(payments.refund, **PART)
        provider.tell("seed", payments={"pay_a": CAPTURED | {"refunded": 400}})
    assert provider.moved() == []


# ---- the treasury wire: its acknowledgement is lost


def sweep(settlement, payments):
    with settlement.transaction(NAME) as tx:
        tx.call(payments.capture, **PART)


LOST = {
    "the answer is cut off": {"do": "cut", "acts": True},
    "the request is cut off": {"do": "cut"},
    "it says 503 and has done it": {"do": "status", "status": 503, "acts": True},
    "it says 500 and has not done it": {"do": "status", "status": 500},
    "it says 429": {"do": "status", "status": 429, "headers": {"Retry-After": "30"}},
    "it hangs up within the answer": {"do": "half", "acts": True},
    "it gets it twice": {"do": "twice", "acts": True},
}


@pytest.mark.parametrize("probed", [True, False], ids=["asked", "sent again"])
@pytest.mark.parametrize("fault", LOST)
def test_whatever_happens_to_its_answer_it_is_captured_once(settlement, provider, opened, authorized, fault, probed):
    payments = opened(settlement, provider)
    provider.fail("POST", **LOST[fault])
    if not probed:
        provider.fail("GET /keys", "status", status=500, times=-1)
    sweep(settlement, payments)
    assert [did for did, _ in provider.moved() if did != "replayed"] == ["captured"]
    assert {key for _, key in provider.moved()} == {KEY}
    assert (outcome(settlement), settlement.in_doubt(), settlement.residue()) == (("confirmed", None), [], [])
    assert provider.payments()["pay_a"]["captured"] == 500


def test_an_answer_that_does_not_come_in_time_is_asked_for(settlement, provider, opened, authorized):
    provider.fail("POST", "hang", acts=True)
    sweep(settlement, opened(settlement, provider, timeout=0.2))
    assert provider.moved() == [("captured", KEY)]
    assert outcome(settlement) == ("confirmed", None)


@pytest.mark.parametrize("fault", ["the answer is cut off", "the request is cut off"])
def test_an_authorization_whose_answer_is_lost_is_authorized_once_and_voided_once(settlement, provider, opened, fault):
    payments = opened(settlement, provider)
    provider.fail("POST /payments", **LOST[fault])
    provider.fail("POST /payments/pay_1/void", "cut", acts=True)
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        assert tx.call(payments.authorize, **PAYMENT)["id"] == "pay_1"
        raise RuntimeError
    assert [did for did, _ in provider.moved()] == ["authorized", "voided", "void-replayed"]
    assert settlement.residue() == []


def test_a_provider_that_neither_answers_nor_tells_leaves_it_in_doubt(settlement, provider, opened, authorized):
    payments = opened(settlement, provider)
    provider.fail("POST", "cut", acts=True, times=-1)
    provider.fail("GET /keys", "status", status=500, times=-1)
    with pytest.raises(InDoubt, match="capture_payment on payment:/pay_a is unknown .*: do not repeat it"):
        sweep(settlement, payments)
    assert [did for did, _ in provider.moved() if did != "replayed"] == ["captured"]
    (doubt,) = settlement.in_doubt()
    assert (doubt.key, doubt.tool, doubt.scope) == (KEY, "capture_payment", "payment:/pay_a")
    settlement.resolve(doubt, "confirmed", by="ada", note="on the statement", result={"id": "pay_a"})
    assert (outcome(settlement), settlement.in_doubt(), settlement.residue()) == (("confirmed", None), [], [])


def test_a_key_that_is_past_its_day_is_in_doubt_and_named_and_never_sent_again(
    settlement, provider, opened, authorized, passes
):
    payments = opened(settlement, provider)
    provider.fail("POST", "cut", acts=True)
    provider.fail("GET /keys", "status", status=500, times=-1)
    once = payments._client._once

    def slow(sending, url):
        try:
            return once(sending, url)
        finally:
            passes(DAY if sending.method == "POST" else 0)

    payments._client._once = slow
    with pytest.raises(
        InDoubt, match="not sent again: its counterparty remembers a key for 85500 s, which have passed"
    ):
        sweep(settlement, payments)
    assert provider.moved() == [("captured", KEY)]
    assert [doubt.key for doubt in settlement.in_doubt()] == [KEY]
    payments._client._once = once
    provider.heal()
    sent = len(provider.log())
    run_sync(host_of(settlement).driver.resolution.ask_again())
    passes(host_of(settlement).driver.resolution.until_due())
    run_sync(host_of(settlement).driver.resolution.ask_again())
    assert [entry["request"][:9] for entry in provider.log()[sent:]] == ["GET /keys"]  # forgotten: it proves nothing
    assert (provider.moved(), [d.key for d in settlement.in_doubt()]) == ([("captured", KEY)], [KEY])


def test_an_authorization_that_was_found_out_about_later_is_voided_when_its_step_has_failed(
    settlement, provider, opened
):
    payments = opened(settlement, provider)
    provider.fail("POST /payments", "cut", acts=True)
    provider.fail("POST /payments", "status", status=500, times=-1)
    provider.fail("GET /keys", "status", status=500, times=-1)
    with pytest.raises(InDoubt), settlement.transaction("t") as tx:
        tx.call(payments.authorize, **PAYMENT)
    (doubt,) = settlement.in_doubt()
    provider.heal()
    settlement.resolve(doubt, "confirmed", by="ada")  # on the statement, where nobody sees the provider's answer
    assert [did for did, _ in provider.moved()] == ["authorized", "voided"]
    assert (provider.payments()["pay_1"]["status"], settlement.residue()) == ("voided", [])


def test_however_patient_it_is_no_try_comes_so_late_that_the_provider_may_have_forgotten_the_key(
    provider, clock, opened, authorized
):
    began = clock()
    payments = opened(None, provider, patience=Patience(tries=50, first=400, most=800))
    provider.fail("POST", "status", status=503, acts=True, times=-1)
    with pytest.raises(HttpUnanswered):
        payments.capture("pay_a", 500, "EUR")
    sent = [entry["now"] - began for entry in provider.log()]
    assert len(sent) == 2
    assert max(sent) < MARGIN


# ---- a process that dies


def dies_in(payments, when):
    """Let its process end before or behind the next request that moves money."""
    once = payments._client._once

    def dying(sending, url):
        if sending.method == "POST":
            if when == "behind":
                once(sending, url)
            die()
        return once(sending, url)

    payments._client._once = dying


@pytest.mark.parametrize("waited", [3600, DAY])
@pytest.mark.parametrize("when", ["before", "behind"])
@pytest.mark.usefixtures("authorized")
def test_the_next_process_captures_it_once_and_within_its_day_only(
    open_here, provider, clock, passes, opened, url, when, waited
):
    def play(_tell):
        with Settlement(url, **clock.options()) as settlement:
            payments = opened(settlement, provider)
            dies_in(payments, when)
            sweep(settlement, payments)

    assert in_child(play).killed
    passes(waited)
    settlement = open_here(url)
    opened(settlement, provider)
    settlement.recover(keep_open=0)
    done = [("captured", KEY)]
    if waited < DAY:
        assert (provider.moved(), outcome(settlement), settlement.in_doubt()) == (done, ("confirmed", None), [])
    else:
        assert provider.moved() == (done if when == "behind" else [])
        assert [doubt.key for doubt in settlement.in_doubt()] == [KEY]


@pytest.mark.parametrize("when", ["before", "behind"])
def test_the_next_process_voids_what_a_dead_one_had_authorized(open_here, provider, clock, opened, url, when):
    def play(_tell):
        with Settlement(url, **clock.options()) as settlement:
            payments = opened(settlement, provider)
            dies_in(payments, when)
            with settlement.transaction("t") as tx:
                tx.call(payments.authorize, **PAYMENT)

    assert in_child(play).killed
    settlement = open_here(url)
    opened(settlement, provider)
    settlement.recover(keep_open=0)
    assert [did for did, _ in provider.moved()] == {"before": [], "behind": ["authorized", "voided"]}[when]
    assert (settlement.residue(), settlement.in_doubt()) == ([], [])


# ---- refused


@given(st.one_of(st.integers(max_value=0), st.floats(), st.booleans(), st.text(), st.none(), st.just("12.50")))
def test_an_amount_that_is_no_positive_whole_number_is_refused(amount):
    with pytest.raises(ValueError, match="give a whole number above 0, in the smallest unit of EUR"):
        Payments("https://pay.example", api_key=API_KEY).authorize("ada", amount, "EUR")


@pytest.mark.parametrize("currency", ["eur", "EURO", "", "€", "XXX", None, 978, ["EUR"]])
def test_a_currency_that_is_none_is_refused(currency):
    with pytest.raises(ValueError, match="is not taken here: give its ISO 4217 code"):
        Payments("https://pay.example", api_key=API_KEY).authorize("ada", 1, currency)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("authorize_payment", PAYMENT | {"amount": -1}, "amount=-1: give a whole number above 0"),
        ("authorize_payment", PAYMENT | {"amount": 12.5}, "amount=12.5: give a whole number above 0"),
        ("authorize_payment", PAYMENT | {"currency": "EURO"}, "currency='EURO' is not taken here"),
        ("capture_payment", PART | {"amount": 501}, "pay_a is for 500 EUR: give no more than that, not 501"),
        ("capture_payment", PART | {"currency": "USD"}, "pay_a is in EUR: give the amount in it, not in USD"),
        ("refund_payment", PART | {"amount": 0}, "amount=0: give a whole number above 0"),
        ("refund_payment", PART | {"payment": "pay_b"}, "404 .*there is no payment pay_b"),
        ("refund_payment", PART | {"payment": "../keys"}, "would lead out of /payments/{payment}"),
    ],
)
def test_what_cannot_be_paid_is_refused_before_anything_is_recorded(
    settlement, provider, opened, authorized, tool, arguments, said
):
    call = opened(settlement, provider).tool(tool)
    with pytest.raises((ValueError, HttpRefused), match=said), settlement.transaction("t") as tx:
        tx.call(call, **arguments)
    assert (provider.moved(), settlement.transactions()) == ([], [])


def test_a_capture_that_the_provider_refuses_undoes_the_rest(settlement, provider, opened, captured):
    payments = opened(settlement, provider)
    with pytest.raises(Refused, match="409 .*it is captured"), settlement.transaction("t") as tx:
        tx.call(payments.authorize, **PAYMENT)
        tx.call(payments.capture, **PART)
    assert [did for did, _ in provider.moved()] == ["authorized", "voided"]
    assert settlement.residue() == []


def test_a_refund_that_the_provider_refuses_behind_a_capture_is_named(settlement, provider, opened, authorized):
    payments = opened(settlement, provider)
    with pytest.raises(PartialCommit, match="refund_payment .*there is not so much"):
        with settlement.transaction("t") as tx:
            tx.call(payments.capture, **PART | {"amount": 100})
            tx.call(payments.refund, **PART | {"amount": 200})
    assert provider.moved() == [("captured", "t#1/0")]
    assert [left.tool for left in settlement.residue()] == ["refund_payment"]


@pytest.mark.parametrize(("amount", "currency"), [(9, "EUR"), (500, "USD")], ids=["amount", "currency"])
def test_an_answer_about_another_amount_or_currency_is_told_and_believed_by_nobody(
    settlement, provider, opened, authorized, amount, currency
):
    payments = opened(settlement, provider)
    other = f'{{"id": "pay_9", "amount": {amount}, "currency": "{currency}"}}'
    provider.fail("POST", "status", status=200, body=other, times=-1)
    provider.fail("GET /keys", "status", status=200, body=f'{{"answer": {other}}}', times=-1)
    with pytest.raises(InDoubt, match=f"the answer is about {amount} {currency}, not 500 EUR: ask the provider what"):
        sweep(settlement, payments)
    assert [doubt.key for doubt in settlement.in_doubt()] == [KEY]


def test_an_answer_that_is_no_payment_is_unknown(provider, opened):
    provider.fail("POST", "status", status=200, body="<html>")
    with pytest.raises(HttpUnanswered, match="the answer is no payment") as told:
        opened(None, provider).authorize(**PAYMENT)
    assert (told.value.tool, told.value.body["text"]) == ("authorize_payment", "<html>")
    provider.fail("GET", "status", status=200, body="[]")
    with pytest.raises(ValueError, match="what the provider says of pay_a is no payment"):
        opened(None, provider).payment("pay_a")


@pytest.mark.parametrize("amount", ['"500"', "null", "true", "[500]"])
@pytest.mark.parametrize("tool", ["capture_payment", "refund_payment"])
def test_a_payment_whose_amount_is_none_is_not_taken_from_and_nothing_is_sent(
    settlement, provider, opened, tool, amount
):
    body = f'{{"id": "pay_a", "status": "authorized", "currency": "EUR", "amount": {amount}}}'
    provider.fail("GET", "status", status=200, body=body, times=-1)
    with pytest.raises(ValueError, match="which is no amount: ask it"), settlement.transaction("t") as tx:
        tx.call(opened(settlement, provider).tool(tool), payment="pay_a", amount=5, currency="EUR")
    assert settlement.transactions() == []


# ---- the api key


def test_the_api_key_stands_in_no_record_error_or_repr(settlement, provider, opened):
    payments = opened(settlement, provider, api_key="sk_live_another")
    provider.fail("POST", "status", status=403, body='{"you": "Bearer sk_live_another"}')
    with pytest.raises(HttpRefused) as refused, settlement.transaction("t") as tx:
        tx.call(payments.authorize, **PAYMENT)
    told = [str(refused.value), str(refused.value.body), repr(payments), str(settlement.transactions())]
    assert [text for text in told if "sk_live" in text] == []
    with pytest.raises(ValueError, match="header Authorization") as malformed:
        Payments("https://pay.example", api_key="sk_live_\n")
    assert "sk_live" not in str(malformed.value)


def test_a_wrong_api_key_is_a_definite_no(settlement, provider, opened):
    payments = opened(settlement, provider, api_key="sk_live_another")
    with pytest.raises(HttpRefused, match="401"), settlement.transaction("t") as tx:
        tx.call(payments.authorize, **PAYMENT)
    assert (provider.moved(), settlement.in_doubt()) == ([], [])


# ---- three ways


def test_bare_it_goes_at_once_under_a_key_of_its_own(provider, opened, authorized):
    opened(None, provider).capture("pay_a", 500, "EUR")
    ((did, key),) = provider.moved()
    assert (did, len(key)) == ("captured", 32)


def test_a_function_of_the_users_own_runs_under_the_declaration(settlement, provider, opened):
    payments = opened(settlement, provider)

    def reserve(who: str, amount: int, currency: str) -> dict:
        return payments.authorize(who, amount, currency)

    mine = payments.declare("authorize_payment", reserve, customer="who")
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(mine, who="ada", amount=5, currency="EUR")
        raise RuntimeError
    assert provider.moved() == [("authorized", "t#1/0"), ("voided", None)]


def test_its_patience_ends_within_the_margin_of_a_key():
    assert Patience().longest(30.0) <= MARGIN
    assert {"EUR", "USD", "JPY", "GBP", "CHF"} < CURRENCIES
