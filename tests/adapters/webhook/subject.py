"""What the conformance kit is told of the webhook adapter: its sink handles what is delivered again once."""

from __future__ import annotations

from tests.adapters.webhook.service import SECRET, Sink

from settlemark.hosting import escape
from settlemark_adapters.http import Patience
from settlemark_adapters.testing import Example, Subject
from settlemark_adapters.webhook import Webhook


def publisher(settlement, sink, **options):
    """The adapter as these tests use it: it waits briefly, and pauses without time passing."""
    options = {"timeout": 5.0, "patience": Patience(first=0.0), "secret": SECRET} | options
    return Webhook(f"{sink.url}/hooks/T0K3N", settlement, **options)


def resources(sink):
    found = {}
    for event in sink.handled():
        found.setdefault(f"webhook:/{escape(sink.host)}/{escape(event['topic'])}", []).append(event["payload"])
    return found


SUBJECTS = {
    "webhook": Subject(
        make=publisher,
        world=Sink,
        look=lambda sink: sink.handled(),
        examples=[Example("publish_event", {"topic": "order.made", "payload": {"order": 7}})],
        lose=lambda sink: sink.fail("POST", "cut", acts=True),
        resources=resources,
    )
}
