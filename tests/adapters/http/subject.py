"""What the conformance kit is told of the HTTP adapter: a shop that takes orders, keeps notes and sends letters."""

from __future__ import annotations

import contextlib

from tests.adapters.http.service import DAY, Api

from settlemark.hosting import escape
from settlemark_adapters.http import Call, Field, Http, Patience, Request
from settlemark_adapters.testing import Example, Subject

TOKEN = "sk_live_0123456789"
KEY = "Idempotency-Key"
CALLS = [
    Call(
        "create_order",
        "POST",
        "/orders",
        kind="reversible",
        doc="Order an item for a customer.",
        scope="order:/{customer}/{sku}",
        body={"customer": str, "sku": str, "count": Field(int, "how many", default=1)},
        undo=Request("DELETE", "/orders/{result.id}", headers={"If-Match": "{result.version}"}),
        keep={"version": "ETag"},
        probe=Request("GET", "/orders/by-key/{key}"),
        key_header=KEY,
        window=DAY,
        echoes=("customer", "sku"),
    ),
    Call("get_order", "GET", "/orders/{order}", doc="Look at an order.", live=True),
    Call("put_note", "PUT", "/notes/{name}", kind="staged", body={"text": str}, parts={"keyed": True}),
    Call("get_note", "GET", "/notes/{name}"),
    Call(
        "send_letter",
        "POST",
        "/letters",
        scope="letter:/{to}",
        body={"to": str, "text": str},
        key_header=KEY,
        window=DAY,
    ),
]


def shop(settlement, api, calls=CALLS, **options):
    """The adapter as these tests use it: it waits briefly, and pauses without time passing."""
    options = {
        "timeout": 5.0,
        "patience": Patience(first=0.0),
        "headers": {"Authorization": f"Bearer {TOKEN}"},
    } | options
    return Http(api.url, settlement, calls=calls, **options)


@contextlib.contextmanager
def world():
    with Api() as api:
        yield api


def look(api):
    state = api.state()
    return {**state, "orders": sorted((o["customer"], o["sku"], o["count"]) for o in state["orders"].values())}


def meddle(api, example):
    """Somebody orders one more."""
    orders = api.state()["orders"]
    changed = {name: {**order, "count": order["count"] + 1} for name, order in orders.items()}
    api.tell("seed", orders=changed)


def resources(api):
    state = api.state()
    return {
        **{f"order:/{escape(o['customer'])}/{escape(o['sku'])}": o for o in state["orders"].values()},
        **{f"http:/{api.host}/notes/{escape(name)}": note for name, note in state["notes"].items()},
        **{f"letter:/{escape(letter['to'])}": letter for letter in state["letters"]},
    }


ADA = {"id": "order-ada", "customer": "ada", "sku": "tea", "count": 1}

SUBJECTS = {
    "http": Subject(
        make=shop,
        world=world,
        look=look,
        examples=[
            Example("create_order", {"customer": "bob", "sku": "tea", "count": 2}),
            Example(
                "get_order", {"order": "order-ada"}, before=lambda api: api.tell("seed", orders={"order-ada": ADA})
            ),
            Example("put_note", {"name": "monday", "text": "call Ada"}),
            Example("get_note", {"name": "old"}, before=lambda api: api.tell("seed", notes={"old": {"text": "x"}})),
            Example("send_letter", {"to": "ada", "text": "hello"}),
        ],
        lose=lambda api: api.fail("", "cut", acts=True),
        meddle=meddle,
        resources=resources,
    )
}
