"""Fills templates with a call's arguments, so that no argument leaves its place.

`{x}` is an argument, `{result.id}` a field of a call's result, `{key}` the idempotency key as sent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, cast
from urllib.parse import quote, unquote, urlsplit

_FIELD = re.compile(r"\{([A-Za-z_]\w*)((?:\.\w+)*)\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_SEPARATOR = re.compile(r"[/\\]")
_PORTS = {"http": 80, "https": 443}
_LONGEST_KEY = 255  # common servers accept this
_KEY_SAFE = "#/:@+,;=!$&'()*"


def authority(url: str) -> str:
    """Return the server in an address, with its port unless that is the protocol's own: one server, one spelling.

    >>> [authority(url) for url in ("https://API.example.:443/v1", "http://bücher.example:8000", "http://[0:0::1]:80")]
    ['api.example', 'xn--bcher-kva.example:8000', '[::1]']
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    with suppress(ValueError):
        host = host.encode("idna").decode()
    with suppress(ValueError):
        host = ip_address(host).compressed
    shown = f"[{host}]" if ":" in host else host
    return shown if parts.port in (None, _PORTS.get(parts.scheme)) else f"{shown}:{parts.port}"


def parts_of(value: Any) -> Mapping[str, Any] | None:
    """Return an object's parts by name; None for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def fields_of(template: Any) -> Iterator[str]:
    """Yield the names that a template uses, anywhere in it.

    >>> list(fields_of({"to": "{customer}", "lines": ["{result.id}"]}))
    ['customer', 'result']
    """
    if isinstance(template, str):
        yield from (found[1] for found in _FIELD.finditer(template))
    elif isinstance(template, Mapping):
        for part in cast("Mapping[str, Any]", template).values():
            yield from fields_of(part)
    elif isinstance(template, list | tuple):
        for part in cast("Sequence[Any]", template):
            yield from fields_of(part)


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Fill JSON data with values; a text that is only a field becomes the value itself.

    Raises:
        ValueError: there is no such value.

    >>> fill({"n": "{count}", "note": "for {who}", "all": True}, {"count": 3, "who": "Ada"})
    {'n': 3, 'note': 'for Ada', 'all': True}
    """
    if isinstance(template, str):
        alone = _FIELD.fullmatch(template)
        return _taken(alone, values) if alone else _FIELD.sub(lambda found: _text(found, values), template)
    if isinstance(template, Mapping):
        return {name: fill(part, values) for name, part in cast("Mapping[str, Any]", template).items()}
    if isinstance(template, list | tuple):
        return [fill(part, values) for part in cast("Sequence[Any]", template)]
    return template


def fill_path(template: str, values: Mapping[str, Any]) -> str:
    """Return a path in which each value is quoted, and stays within its segment.

    Raises:
        ValueError: a value is missing, empty, has control characters or would lead to another place.

    >>> fill_path("/rooms/{name}", {"name": "a/b c"})
    '/rooms/a%2Fb%20c'
    >>> fill_path("/rooms/{name}", {"name": "../admin"})
    Traceback (most recent call last):
    ValueError: name='../admin' would lead out of /rooms/{name}: pass a plain name
    """

    def quoted(found: re.Match[str]) -> str:
        text = _text(found, values)
        where = f"{found[0][1:-1]}={text!r}"
        if not text:
            raise ValueError(f"{found[0][1:-1]} is empty, and names nothing in {template}: pass a name")
        if _CONTROL.search(unquote(text)):
            raise ValueError(f"{where} has control characters, which no address holds: leave them out")
        # Some servers unquote before they split a path into segments.
        if any(part in (".", "..") for part in _SEPARATOR.split(unquote(text))):
            raise ValueError(f"{where} would lead out of {template}: pass a plain name")
        return quote(text, safe="")

    return _FIELD.sub(quoted, template)


def fill_header(name: str, template: str, values: Mapping[str, Any]) -> str:
    """Return a header's value.

    Raises:
        ValueError: a value is missing, or invalid in a header: a line break would begin another header.
    """
    return header_value(name, _FIELD.sub(lambda found: _text(found, values), template))


def header_value(name: str, value: str) -> str:
    r"""Return a value that may stand in a header.

    Raises:
        ValueError: it is invalid; the message does not repeat it, since it may be a secret.

    >>> header_value("X-Tenant", "ada\r\nX-Admin: 1")
    Traceback (most recent call last):
    ValueError: the header X-Tenant takes printable ASCII on one line, and no blanks around it: quote the rest
    """
    if not _HEADER_VALUE.fullmatch(value):
        raise ValueError(
            f"the header {name} takes printable ASCII on one line, and no blanks around it: quote the rest"
        )
    return value


def sent_key(key: str) -> str:
    """Return an idempotency key as sent: one for each key.

    >>> sent_key("trip 7#1/0"), len(sent_key("long" * 100))
    ('trip%207#1/0', 255)
    """
    written = quote(key, safe=_KEY_SAFE)
    if len(written) <= _LONGEST_KEY:
        return written
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{written[: _LONGEST_KEY - len(digest) - 1]}~{digest}"


def _taken(found: re.Match[str], values: Mapping[str, Any]) -> Any:
    name, *inner = (found[1] + found[2]).split(".")
    if name not in values:
        raise ValueError(f"there is no {name!r} for {found[0]}: give it")
    value: Any = values[name]
    for part in inner:
        try:
            value = value[int(part) if type(value) is list else part]
        except (KeyError, IndexError, TypeError, ValueError):
            raise ValueError(f"{name} has no {'.'.join(inner)!r} for {found[0]}: it is not in the answer") from None
    return value


def _text(found: re.Match[str], values: Mapping[str, Any]) -> str:
    value = _taken(found, values)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(f"{found[0][1:-1]} is a {type(value).__name__}, which stands in no text: pass a text or number")
