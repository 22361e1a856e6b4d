"""Prepares a request: templates filled, address and headers quoted, body as canonical JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack, cast
from urllib.parse import quote, urlencode

from settlemark.hosting import json_text
from settlemark_adapters.http._call import Request
from settlemark_adapters.http._client import Options, Sending
from settlemark_adapters.http._filling import fill, fill_header, fill_path


def prepared(
    tool: str,
    request: Request,
    values: Mapping[str, Any],
    *,
    left_out: Collection[str] = (),
    **options: Unpack[Options],
) -> Sending:
    """Return a tool's request, ready to be sent; `left_out` are names of its query and body that are not sent.

    Raises:
        ValueError: a value is missing, or would leave its place.
        PayloadError: the body cannot be written as JSON.

    >>> order = Request("POST", "/orders/{who}", query={"dry": "{dry}"}, body={"sku": "{sku}"})
    >>> sending = prepared("order", order, {"who": "Ada", "sku": "tea", "dry": True})
    >>> sending.path, sending.content
    ('/orders/Ada?dry=true', b'{"sku":"tea"}')
    """
    path = fill_path(request.path, values)
    query = [
        (name, _in_query(name, part))
        for name, value in fill(without(request.query, left_out), values).items()
        for part in (cast("Sequence[Any]", value) if isinstance(value, list) else [value])
        if part is not None
    ]
    headers = {name: fill_header(name, template, values) for name, template in request.headers.items()}
    content = None
    if request.body is not None:
        # The same bytes for the same arguments: a server may compare the requests under one key.
        content = json_text.encode(fill(without(request.body, left_out), values)).encode()
        headers = {"Content-Type": "application/json", **headers}
    path += f"?{urlencode(query, quote_via=quote)}" if query else ""
    return Sending(tool, request.method, path, content, headers, **options)


def without(parts: Any, names: Collection[str]) -> Any:
    """Return an object without some of its parts; anything else unchanged."""
    if not isinstance(parts, Mapping):
        return parts
    return {name: part for name, part in cast("Mapping[str, Any]", parts).items() if name not in names}


def _in_query(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float | None):
        return str(value)
    raise ValueError(f"{name} is a {type(value).__name__}, which stands in no query: pass a text, a number or a list")
