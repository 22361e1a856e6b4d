"""One server has one name in scopes, however its address is spelled; what nothing can be sent to is no address."""

from __future__ import annotations

import base64

import httpx
import pytest

from settlemark import Settlement
from settlemark_adapters.channels import WebhookChannel
from settlemark_adapters.http import Call, Http
from settlemark_adapters.webhook import Webhook

SECRET = "whsec_" + base64.b64encode(b"s" * 24).decode()
ORDER = Call("order", "PUT", "/orders/{order}", kind="idempotent")
SAME = {
    "https://api.example/v1": [
        "https://API.Example/v1",
        "HTTPS://api.example/v1/",
        "https://api.example:443/v1",
        "https://api.example./v1",
        "https://api.example//v1",
        "https://api.example/%761",
    ],
    "http://127.0.0.1": ["http://127.0.0.1:80", "http://127.0.0.1:80/"],
    "http://[::1]:8080": ["http://[0:0:0:0:0:0:0:1]:8080", "http://[0::1]:8080"],
    "https://xn--bcher-kva.example": ["https://bücher.example", "https://BÜCHER.example:443"],
}
TAKERS = {
    "Http": lambda address, settlement: Http(address, settlement, calls=[ORDER]),
    "Webhook": lambda address, settlement: Webhook(address, settlement, secret=SECRET),
    "WebhookChannel": lambda address, _: WebhookChannel(address, secret=SECRET),
}
GIVEN = {"order": 7, "topic": "order.made", "payload": {}}


def scopes(taker, address):
    adapter = TAKERS[taker](address, None)
    return [scope.text for declared in adapter.declarations() for scope in declared.scopes(GIVEN)]


@pytest.mark.parametrize("taker", ["Http", "Webhook"])
@pytest.mark.parametrize(("address", "spelled"), [(one, other) for one, others in SAME.items() for other in others])
def test_two_spellings_of_one_server_are_one_scope(taker, address, spelled):
    assert scopes(taker, spelled) == scopes(taker, address)


@pytest.mark.parametrize("taker", ["Http", "Webhook"])
def test_other_servers_and_other_ports_are_others(taker):
    others = [*SAME, "https://api.example:8443/v1", "https://else.example/v1"]
    assert len({scope for address in others for scope in scopes(taker, address)}) == len(others)


def test_an_address_is_sent_to_as_it_was_given():
    came = []
    server = httpx.MockTransport(lambda request: came.append(str(request.url)) or httpx.Response(200, json={}))
    with Settlement("memory:") as settlement, settlement.transaction("t") as tx:
        tx.call(Http("http://h.example.:8080/%761", settlement, calls=[ORDER], transport=server).tool("order"), order=7)
    assert came == ["http://h.example.:8080/%761/orders/7"]


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("wrong", ["\ud800", "?q=\0", "\x7f"], ids=ascii)
def test_an_address_that_nothing_can_be_sent_to_is_refused_without_being_repeated(taker, wrong):
    with pytest.raises(ValueError, match="the address") as refused:
        TAKERS[taker](f"https://a.example/T0K3N{wrong}", None)
    assert "T0K3N" not in str(refused.value)
