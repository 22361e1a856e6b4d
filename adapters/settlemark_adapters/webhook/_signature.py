"""Signs events and verifies deliveries by Standard Webhooks: id, time and body under one secret."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from settlemark_adapters._spans import span

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"
_PREFIX = "whsec_"
_VERSION = "v1"
_SHORTEST = 24
_DIGITS = 12
TOLERANCE = 300.0


class WebhookRejected(ValueError):
    """A delivery is not what the sender signed, or is too old: answer 400, and handle nothing of it."""


@dataclass(frozen=True)
class Event:
    """A verified delivery.

    Attributes:
        id: the same for every delivery of the event: `Seen` uses it.
        topic: its kind.
        payload: what happened.
        at: when this delivery was signed, in seconds since 1970.
    """

    id: str
    topic: str
    payload: Any
    at: float


def secret_bytes(secret: str) -> bytes:
    """Return the bytes of a secret in its usual form: `whsec_` and Base64.

    Raises:
        ValueError: it is invalid; the message does not repeat it.
    """
    try:
        found = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if len(found) < _SHORTEST:
        raise ValueError(
            f"the secret is no webhook secret: make one of {_SHORTEST} random bytes or more, written as {_PREFIX}"
            " and their Base64"
        )
    return found


def secrets_of(secret: str | Sequence[str]) -> list[bytes]:
    """Return the bytes of one secret, or of several during a replacement.

    Raises:
        ValueError: one is invalid, or there is none.
    """
    found = [secret_bytes(each) for each in ([secret] if isinstance(secret, str) else secret)]
    if not found:
        raise ValueError("there is no secret: give at least one")
    return found


def signature(event_id: str, timestamp: int, body: bytes, secret: bytes) -> str:
    """Return the signature of a delivery.

    >>> signature("msg_1", 1700000000, b"{}", b"s" * 24)
    'v1,iy9HBAnIn1t8nLHdE5svMi8UUTI9AVJH8SgIsR4MppE='
    """
    signed = b".".join((event_id.encode(), str(timestamp).encode(), body))
    digest = hmac.digest(secret, signed, hashlib.sha256)
    return f"{_VERSION},{base64.b64encode(digest).decode()}"


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> Event:
    """Return the event that a delivery tells, when its sender has signed it and it is fresh.

    Args:
        headers: the request's, in any case.
        body: the request's, to the byte: what a framework has parsed is not what was signed.
        secret: shared with the sender; several while one is replaced by another.
        tolerance: how many seconds its time may differ from now.
        now: seconds since 1970; the system's time without it.

    Laws: no byte of the body is parsed before the signature is found right, and signatures are compared in constant
    time. A repeated delivery is as valid as the first: ask `Seen` whether it was handled.

    Raises:
        WebhookRejected: a header is missing or malformed, the signature is wrong, or it is too old or from the future.
        ValueError: the secret is none, or the tolerance no length of time.
    """
    keys = secrets_of(secret)
    span("tolerance", tolerance)
    by_name = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not by_name.get(name)]
    if missing:
        raise WebhookRejected(f"there is no {missing[0]} header: this is no signed webhook")
    event_id, told = by_name[ID], by_name[TIMESTAMP]
    if not (told.isascii() and told.isdigit() and len(told) <= _DIGITS):
        raise WebhookRejected(f"{TIMESTAMP} is no time")
    timestamp = int(told)
    if "." in event_id or not event_id.isascii():
        raise WebhookRejected(f"{ID} is none")  # a dot would let the time be read as a part of it
    expected = [signature(event_id, timestamp, body, key).encode() for key in keys]
    # A signature that is not ASCII matches none, and some servers pass it on undecodable.
    given = [each.encode() for each in by_name[SIGNATURE].split() if each.isascii()]
    # All of them, whichever matches: the time taken reveals nothing.
    if not any([hmac.compare_digest(one, other) for one in expected for other in given]):  # noqa: C419 - see above
        raise WebhookRejected("the signature is wrong: it was not signed with this secret, or changed on its way")
    late = (time.time() if now is None else now) - timestamp
    if abs(late) > tolerance:
        raise WebhookRejected(f"it was signed {late:g} s ago, and {tolerance:g} s are allowed: have it sent again")
    try:
        content: Any = json.loads(body)
        return Event(event_id, str(content["type"]), content["data"], float(timestamp))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise WebhookRejected("the body is no event: an object with `type` and `data`") from None
