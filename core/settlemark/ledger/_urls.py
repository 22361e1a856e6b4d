"""Showing a store's URL: its password reaches no error, table or log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from settlemark._edges.plain import told

if TYPE_CHECKING:
    import sqlalchemy as sa

HIDDEN = "***"
_SECRETIVE = re.compile(r"pass|pwd|secret|token|credential|(?:api|access|private).?key", re.IGNORECASE)
# A password may hold any character: what stands before the last @ ahead of the query is the user's, whose name may have
# an @ of its own. A SQLite file may be named like that, too; no server's database is.
_USER = re.compile(
    r"^(?P<scheme>sqlite[^:/?#]*://(?!/)|(?!sqlite)[^:/?#]*[:;]?//++|(?![^:/?#]*[:;]?//))"
    r"(?P<user>[^:?#]*):(?P<password>.*)(?P<rest>@[^@]*)$",
    re.DOTALL,
)
# Without a host there is no @: a password then stands where a port should, and may go on behind any mark.
_NO_HOST = re.compile(
    r"^(?P<scheme>sqlite[^:/?#]*://(?!/)|(?!sqlite)[^:/?#]*(?:[:;]/|//)/*+|(?!sqlite|[^:/?#]*(?:[:;]/|//))(?=[^:/?#=]*:))"
    r"(?!\[[^\]]*\](?::[0-9]*)?(?:[/?#]|\Z))"  # an IPv6 address has colons of its own
    r"(?P<user>\[[^\]]*\]|[^:?#]*):(?![0-9]*(?:[/?#]|\Z))(?P<password>.+)(?P<rest>)\Z",
    re.DOTALL,
)
# A URL's query, or libpq's equivalent: words such as password='it is secret'.
# A name is taken whole: looked for from each of its letters, a long one would take its length squared.
_WORD = re.compile(r"(?<![\w.%+-])(?P<name>[\w.%+-]++)(?P<is>\s*=\s*)(?P<value>'(?:\\.|[^'\\])*'?|[^&;#\s]*)")
_LEAST = 4
"""The least length of a password that is looked for inside any text; a shorter one only as a word of its own."""


def shown(url: str) -> str:
    """Return a URL without its passwords, whether before the host or in the query.

    >>> shown("postgresql+psycopg://ada:secret@db/trips")
    'postgresql+psycopg://ada:***@db/trips'
    >>> shown("postgresql+psycopg://db/trips?user=ada&password=secret&sslmode=require")
    'postgresql+psycopg://db/trips?user=ada&password=***&sslmode=require'
    """
    head, mark, query, found = _split_url(url)
    if found is not None:
        head = f"{found['scheme']}{found['user']}:{HIDDEN}{found['rest']}"
    return _WORD.sub(_hidden, head) + mark + _WORD.sub(_hidden, query)


def without_secrets(url: str, text: str) -> str:
    """Return a text without the passwords of a URL, however they are written in it.

    >>> without_secrets("postgresql://ada:p%40ss!@db/trips", "user ada, password p@ss!: refused")
    'user ada, password ***: refused'
    """
    for secret in sorted(_written(url), key=len, reverse=True):
        if len(secret) >= _LEAST:
            text = text.replace(secret, HIDDEN)
        else:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    return text


def withhold(url: str, error: BaseException) -> None:
    """Remove a URL's passwords from an error, and from all its causes."""
    if not _written(url):
        return
    seen: set[int] = set()
    behind: list[object] = [error]
    while behind:
        one = behind.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        one.args = tuple(_cleaned(url, part) for part in one.args)
        for name, value in list(vars(one).items()):  # its notes among them
            cleaned = _cleaned(url, value)
            if cleaned is not value:
                with suppress(AttributeError, TypeError):
                    setattr(one, name, cleaned)
        behind += [one.__cause__, one.__context__, getattr(one, "orig", None)]
        if isinstance(one, BaseExceptionGroup):
            behind += cast("BaseExceptionGroup[BaseException]", one).exceptions


def discreet(engine: sa.Engine) -> sa.Engine:
    """Keep the passwords of an engine's URL out of its errors, and its driver's."""
    from sqlalchemy import event

    url = engine.url.render_as_string(hide_password=False)

    @event.listens_for(engine, "handle_error")
    def failed(context: sa.engine.ExceptionContext) -> None:
        for error in (context.sqlalchemy_exception, context.original_exception):
            if error is not None:
                withhold(url, error)

    return engine


def _cleaned(url: str, value: object) -> object:
    """Return a value of an error without passwords; the same value if it has none."""
    kind = type(value)
    if isinstance(value, str):
        return without_secrets(url, value)
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        return value if (cleaned := without_secrets(url, text)) == text else cleaned.encode("latin-1")
    if kind is dict:
        return {name: _cleaned(url, part) for name, part in cast("dict[object, object]", value).items()}
    if kind in (tuple, list):
        cleaned_parts = [_cleaned(url, part) for part in cast("list[object]", value)]
        return cleaned_parts if kind is list else tuple(cleaned_parts)
    if not isinstance(value, BaseException | int | float | None):
        # A driver's error may carry its connection, and the statement's values.
        held = told(getattr(value, "__dict__", value)) + told(value)
        return value if without_secrets(url, held) == held else None
    return value


def _split_url(url: str) -> tuple[str, str, str, re.Match[str] | None]:
    """Return the part before the query, the mark, the query, and where a password stands before them.

    A password before the host may hold marks.
    """
    at = url.rfind("@")
    # An @ after the query's mark belongs to the query, unless the mark belongs to a password.
    query = url.find("?")
    before = url[: max(query, 0)]
    if 0 <= query < at and _USER.match(url) and not (_USER.match(before) or "/" in _after(before)):
        query = url.find("?", at)
    head, mark, behind = (url, "", "") if query < 0 else (url[:query], "?", url[query + 1 :])
    found = _USER.match(head)
    if found is None and (found := _NO_HOST.match(url)) is not None:
        return url, "", "", found
    return head, mark, behind, found


def _after(url: str) -> str:
    return url.partition("://")[2] if "://" in url else url


def _hidden(found: re.Match[str]) -> str:
    if not _SECRETIVE.search(unquote_plus(found["name"])):
        return found[0]
    return f"{found['name']}{found['is']}{HIDDEN}"


def _secrets(url: str) -> Iterator[str]:
    head, _, query, found = _split_url(url)
    if found is not None:
        yield found["password"]
        yield re.split(r"[/?#]", found["password"])[0]  # what is told where a port is no number
    for part in (head, query):
        for word in _WORD.finditer(part):
            if _SECRETIVE.search(unquote_plus(word["name"])):
                yield word["value"]
                if word["value"].startswith("'"):
                    yield re.sub(r"\\(.)", r"\1", word["value"].strip("'"))


def _written(url: str) -> set[str]:
    """Return a URL's passwords in all the ways in which they may be written."""
    found: set[str] = set()
    for secret in _secrets(url):
        # A driver may have split a password at a mark that should have been written as %40 or %2F.
        parts = [part for part in re.split(r"[@:/?#&=\s]", secret) if len(part) >= _LEAST]
        for once in (secret, unquote(secret), unquote_plus(secret), *parts):
            found |= {once, quote(once), quote(once, safe=""), quote_plus(once), repr(once)[1:-1]}
    return {secret for secret in found if secret and secret != HIDDEN}


__all__ = ["discreet", "shown", "withhold", "without_secrets"]
