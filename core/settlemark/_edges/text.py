r"""Checks for text: a name that no store can hold is refused, and prose for people is made to fit.

Text is an input like any other: a model's message may hold half an emoji, an exception may hold a NUL or a hundred
megabytes. *Identity* (names, runs, keys, tools, authors) is never changed, since two names must not become one: text
that cannot be stored is refused before anything runs. *Prose* (notes, reasons, rationales, errors) is never refused,
since it tells what has happened: characters that cannot be stored are escaped, and the middle of a huge text is left
out, visibly.
"""

from __future__ import annotations

import re
from math import inf
from typing import NamedTuple

from settlemark._edges.errors import SettlemarkError, UsageError

_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Most(NamedTuple):
    """The longest a text may be: in characters, for its column, and in bytes of UTF-8, for its indexes.

    A row of a PostgreSQL index has 2704 bytes at most. The residue's index holds the namespace, the run, a time and the
    effect's key; a settlement makes no key over 602 bytes. A text of a short column may have what its characters have.
    """

    characters: int
    size: float = inf


NAMESPACE = Most(255, 255)
NAME = Most(480, 1_640)
"""Of a transaction or a run: the names of split-off and sibling transactions are built on it."""
DERIVED = Most(512, 1_768)
TOOL = Most(255, 1_020)
CALL_ID = Most(512)
KEY = Most(1_024, 2_300)
VERSION = Most(64)
WHO = Most(255)
PROSE = 1 << 20
"""Characters of a note, an error or a rationale."""
CAUSE = 1 << 14
"""Characters of an undo's reason: every process that shares the ledger keeps it in memory."""


def wrong_with(text: object, most: Most) -> str | None:  # noqa: PLR0911 - a list of what can be wrong
    r"""Return why a text cannot be an identity, or None.

    >>> wrong_with("trip-42", NAME), wrong_with("trip\ud83d", NAME)
    (None, "has '\\ud83d', half a character that no store can hold: remove it")
    """
    if not isinstance(text, str):
        return f"is {_an(type(text).__name__)}, not a text"
    plain = str.isascii(text)
    length = str.__len__(text)
    if not length or str.isspace(text):
        return "is empty: give one"
    if length > most.characters:
        return f"has {length:,} characters, and {most.characters:,} are the most: shorten it"
    if not plain:
        if found := _SURROGATE.search(text):
            return f"has {found[0]!r}, half a character that no store can hold: remove it"
        size = len(str.encode(text))
        if size > most.size:
            return f"has {size:,} bytes as UTF-8, and {most.size:,} are the most: shorten it"
    if "\0" in text:
        return "has '\\x00', which no store can hold: remove it"
    return None


def identity(
    text: object, what: str, most: Most = NAME, *, error: type[SettlemarkError] = UsageError, **data: object
) -> str:
    """Return an identity unchanged, or refuse it.

    Raises:
        UsageError: (or `error`) no store can hold the text, or not all of it; nothing was done.

    >>> identity("trip-42", "a transaction's name")
    'trip-42'
    """
    if type(text) is str and text.isascii() and len(text) <= most.characters and text.isprintable() and text.strip():
        return text  # the common case, told by one look
    wrong = wrong_with(text, most)
    if wrong is None and isinstance(text, str):
        return text if type(text) is str else str.__str__(text)
    raise error(f"{what} {wrong}, not {brief(text)}: nothing was done", **data)


def prose(text: str, most: int = PROSE) -> str:
    r"""Return a text for people in a form that every store can hold; the text stays legible.

    Law: `prose(prose(text)) == prose(text)`.

    >>> prose("half an emoji \ud83d, a NUL \0")
    'half an emoji \\ud83d, a NUL \\x00'
    >>> prose("so long " * 10, 60)
    'so long so long so l[… cut: 80 characters in all …] so long '
    """
    if type(text) is not str:
        text = str.__str__(text)
    if len(text) <= most and text.isascii() and "\0" not in text:
        return text
    whole = len(text)
    # Shortened before escaping, so that a huge text is not copied, and after, since escapes are longer.
    text = _escaped(text if whole <= most else _shortened(text, most, whole))
    return text if len(text) <= most else _shortened(text, most, whole)


def _escaped(text: str) -> str:
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _shortened(text: str, most: int, whole: int) -> str:
    told = f"[… cut: {whole:,} characters in all …]"
    kept = max(most - len(told), 2)
    tail = kept // 3
    return f"{text[: kept - tail]}{told}{text[len(text) - tail :]}"


def brief(value: object) -> str:
    """Return a short `repr` of a value, for an error.

    >>> brief("x" * 500)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'"
    """
    if isinstance(value, str):
        text = str.__str__(value)
        return repr(text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…")
    try:
        return prose(repr(value)[: 2 * _BRIEF])
    except Exception:  # a user's class
        return f"a {type(value).__name__}"


_BRIEF = 40


def _an(kind: str) -> str:
    return f"{'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"


__all__ = [
    "CALL_ID",
    "CAUSE",
    "DERIVED",
    "KEY",
    "NAME",
    "NAMESPACE",
    "PROSE",
    "TOOL",
    "VERSION",
    "WHO",
    "Most",
    "brief",
    "identity",
    "prose",
    "wrong_with",
]
