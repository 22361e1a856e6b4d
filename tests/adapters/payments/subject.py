"""What the conformance kit is told of the payments adapter."""

from __future__ import annotations

from tests.adapters.payments.service import Provider

from settlemark.hosting import escape
from settlemark_adapters.http import Patience
from settlemark_adapters.payments import Payments
from settlemark_adapters.testing import Example, Subject

API_KEY = "sk_live_treasury"
AUTHORIZED = {
    "id": "pay_a", "customer": "ada", "amount": 500, "currency": "EUR", "order": "o1",
    "status": "authorized", "captured": 0, "refunded": 0,
}  # fmt: skip # a table
CAPTURED = AUTHORIZED | {"status": "captured", "captured": 500}


def treasury(settlement, provider, **options):
    """The adapter as these tests use it: it waits briefly, and pauses without time passing."""
    options = {"timeout": 5.0, "patience": Patience(first=0.0), "api_key": API_KEY} | options
    return Payments(provider.url, settlement, **options)


def look(provider):
    """What holds money: a voided authorization does not."""
    payments = [{**p, "id": ""} for p in provider.payments().values() if p["status"] != "voided"]
    return sorted(payments, key=str)


def have(payment):
    return lambda provider: provider.tell("seed", payments={"pay_a": payment})


def meddle(provider, _example):
    """Somebody captures at the provider what was only to be reserved."""
    taken = {name: p | {"status": "captured", "captured": p["amount"]} for name, p in provider.payments().items()}
    provider.tell("seed", payments=taken)


def resources(provider):
    """What a customer has promised to pay, and what of it was moved."""
    found = {}
    for name, payment in provider.payments().items():
        if payment["status"] != "voided":
            found.setdefault(f"customer:/{escape(payment['customer'])}", []).append((name, payment["amount"]))
        if payment["captured"]:
            found[f"payment:/{name}"] = (payment["captured"], payment["refunded"])
    return found


SUBJECTS = {
    "payments": Subject(
        make=treasury,
        world=Provider,
        look=look,
        examples=[
            Example("authorize_payment", {"customer": "ada", "amount": 1250, "currency": "EUR", "order": "o7"}),
            Example("capture_payment", {"payment": "pay_a", "amount": 500, "currency": "EUR"}, before=have(AUTHORIZED)),
            Example("refund_payment", {"payment": "pay_a", "amount": 200, "currency": "EUR"}, before=have(CAPTURED)),
            Example("get_payment", {"payment": "pay_a"}, before=have(CAPTURED)),
        ],
        lose=lambda provider: provider.fail("POST", "cut", acts=True),
        meddle=meddle,
        resources=resources,
    )
}
