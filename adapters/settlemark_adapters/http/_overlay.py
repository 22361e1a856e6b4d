"""Applies a transaction's own staged requests to a resource that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from settlemark import current_call
from settlemark.hosting import declaration_of
from settlemark_adapters.http._call import Call
from settlemark_adapters.http._errors import HttpRefused
from settlemark_adapters.http._filling import fill, fill_path, parts_of
from settlemark_adapters.http._preparing import without

_REPLACES = "PUT"
_CHANGES = "PATCH"
_DELETES = "DELETE"
_NOT_FOUND = 404

Staged = tuple[str, Any]
"""A request's method and body."""


def staged_for(
    tool: Callable[..., Any], path: str, arguments: Mapping[str, Any], calls: Mapping[str, Call]
) -> list[Staged]:
    """Return the requests staged for the address that a tool reads, in order; `calls` are the calls by tool name."""
    current, declaration = current_call(), declaration_of(tool)
    if current is None or declaration is None:
        return []
    found: list[Staged] = []
    for scope in declaration.scopes(arguments):
        for staged in current.staged(str(scope)):
            call = calls.get(staged.tool)
            if call is None or call.method not in (_REPLACES, _CHANGES, _DELETES) or "{key}" in call.path:
                continue
            if fill_path(call.path, staged) == path.partition("?")[0]:
                body = fill(without(call.request.body, call.left_out(staged)), {**staged, "key": ""})
                found.append((call.method, body))
    return found


def overlaid(tool: str, found: Any, staged: list[Staged]) -> Any:
    """Return a resource with staged requests applied; `found` is the server's data, or None.

    A PUT replaces what a caller can set: fields that the server adds stay.

    Raises:
        HttpRefused: it will be deleted.

    >>> overlaid("get_note", {"id": 7, "text": "old"}, [("PUT", {"text": "new"})])
    {'id': 7, 'text': 'new'}
    """
    kept: Any = found
    for method, body in staged:
        if method == _DELETES:
            kept = None
        elif (old := parts_of(kept)) is not None and (new := parts_of(body)) is not None:
            kept = {**old, **new}
        elif kept is None or method == _REPLACES:
            kept = body
    if kept is None:
        raise HttpRefused(f"{tool}: this very transaction deletes it", tool=tool, status=_NOT_FOUND)
    return kept
