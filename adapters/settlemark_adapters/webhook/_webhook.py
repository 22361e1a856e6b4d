"""Publishes events to one address when their transaction commits, at least once, under an id that never changes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, unquote_plus, urlsplit

from settlemark import Settlement
from settlemark.hosting import EffectName, escape, json_text
from settlemark_adapters._adapter import Adapter, operation
from settlemark_adapters.webhook._signature import ID, SIGNATURE, TIMESTAMP, secrets_of, signature

if TYPE_CHECKING:
    import httpx

    from settlemark_adapters.http._patience import Patience

_ID_DIGITS = 40


class Webhook(Adapter):
    """The tool `publish_event`: tells one address what happened, when the transaction commits.

    Args:
        url: where events go; nothing is sent to any other address, and redirects are not followed. It is a secret
            itself, as far as errors go: only its host is told.
        settlement: as in every adapter, and so are `name` and `effects`.
        secret: signs what is sent: `whsec_` and Base64. Several, while one is replaced by another.
        source: told apart from others that publish to the same address: it makes the ids of this one its own.
        timeout, patience, clock, sleep, transport: as in `Http`.

    Laws: an event leaves after its transaction's commit, and never without one. It arrives at least once while the
    address answers within the settlement's tries; each delivery of it has the same `webhook-id` and the same body, so
    that [Seen][settlemark_adapters.webhook.Seen] has it handled once. What was not acknowledged is in doubt, and named.

    Raises:
        ImportError: httpx is not there.
        ValueError: the address or the secret is malformed.

    >>> import base64, httpx
    >>> came = []
    >>> sink = httpx.MockTransport(lambda request: came.append(request.content) or httpx.Response(204))
    >>> settlement = Settlement("memory:")
    >>> secret = "whsec_" + base64.b64encode(b"s" * 24).decode()
    >>> events = Webhook("https://sink.example/in", settlement, secret=secret, transport=sink)
    >>> with settlement.transaction("monday") as tx:
    ...     _ = tx.call(events.publish, topic="order.made", payload={"order": 7})
    ...     came
    []
    >>> came
    [b'{"data":{"order":7},"type":"order.made"}']
    """

    def __init__(
        self,
        url: str,
        settlement: Settlement | None = None,
        *,
        secret: str | Sequence[str],
        source: str = "",
        timeout: float = 30.0,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = time.sleep,
        transport: httpx.BaseTransport | None = None,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
    ) -> None:
        # Imported here: a receiver needs no client.
        from settlemark_adapters.http._client import MOST, Client, readable

        parts = urlsplit(readable(url))
        self._client = Client(
            f"{parts.scheme}://{parts.netloc}",
            headers={},
            timeout=timeout,
            patience=patience,
            most=MOST,
            clock=clock,
            sleep=sleep,
            transport=transport,
            shown=f"{parts.hostname}/…",
            hidden=_told_apart(parts.path, parts.query),  # servers like to repeat what they do not know
        )
        self._secrets = secrets_of(secret)
        self._path = f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"
        self._source = source
        self._scope = f"webhook:/{escape(self._client.host)}"
        super().__init__(settlement, name=name, effects=effects)

    def event_id(self, key: str) -> str:
        """Return the `webhook-id` of the event that is published under a key."""
        # A digest: the key names a transaction, which is nobody else's business, and may have a dot.
        named = hashlib.sha256(f"{self._source}\x00{key}".encode()).hexdigest()
        return f"msg_{named[:_ID_DIGITS]}"

    def _address(self, topic: str) -> str:
        return f"{self._scope}/{escape(topic)}"

    def _body(self, topic: str, payload: dict[str, Any]) -> bytes:
        return json_text.encode({"type": topic, "data": payload}).encode()

    @operation("publish_event", "irreversible", scope=_address, check=_body, keyed=True)
    def publish(self, topic: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Publish that something happened; it leaves when this step settles.

        Args:
            topic: what kind of event it is, such as `order.created`.
            payload: what happened.
        """
        from settlemark_adapters.http._client import Sending

        event, body, at = self.event_id(self.key), self._body(topic, payload), int(self._client.clock())
        signed = " ".join(signature(event, at, body, secret) for secret in self._secrets)
        headers = {"Content-Type": "application/json", ID: event, TIMESTAMP: str(at), SIGNATURE: signed}
        answer = self._client.send(Sending("publish_event", "POST", self._path, body, headers, repeatable=True))
        return {"id": event, "status": answer.status}


def _told_apart(path: str, query: str) -> list[str]:
    """Return the parts of an address, as written and unquoted, any of which may be secret."""
    whole = [path, query, f"{path}?{query}"]
    values = [value for pair in query.split("&") for value in pair.partition("=")[::2]]
    every = [*whole, *path.split("/"), *values]
    return [spelled for each in every for spelled in (each, unquote(each), unquote_plus(each)) if spelled]


__all__ = ["Webhook"]
