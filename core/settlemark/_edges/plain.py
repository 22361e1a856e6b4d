r"""Text that is safe to show: names, notes and errors cannot steer the terminal or page that shows them.

A run's name or an exception's message must not move a cursor, forge a line, or reverse the order of letters. So every
invisible character is written as in a Python literal (`\x1b`, `\u202e`), and a line stays one line. Only output is
changed: names and notes are stored as given.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from typing import cast

from settlemark._edges.wording import behind, is_a, kept_by, kind_of, message_of, within

# Control characters (C0, DEL, C1), lone surrogates, line and paragraph separators, and invisible or direction-changing
# characters (Unicode category Cf). Two joiners belong to words in several scripts, and to emoji: they stay beside a
# letter that is not ASCII.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_BYTE, _PLANE = 0x100, 0x10000


def plain(text: object) -> str:
    r"""Return a text as one line in which every character is visible.

    >>> plain("trip\x1b[2J\n  1. send_money: confirmed")
    'trip\\x1b[2J\\n  1. send_money: confirmed'
    """
    return _HIDDEN.sub(_escaped, cast("str", text) if issubclass(type(text), str) else told(text))


def plain_lines(text: str) -> str:
    """Return a text in which every character is visible, and its line breaks stay."""
    return "\n".join(map(plain, text.split("\n")))


def joined(lines: Iterable[str]) -> str:
    """Join lines, each made plain, so that no name can break a line."""
    return "\n".join(map(plain, lines))


def plain_json(text: str) -> str:
    r"""Return a JSON text with the same value, in which every character is visible.

    >>> print(plain_json('{"name": "a\u202eb"}'))
    {"name": "a\u202eb"}
    """
    return "\n".join(_HIDDEN.sub(_escaped_json, line) for line in text.split("\n"))


def told(value: object) -> str:
    """Return a value's text, such as an exception's message; works also where the value's `__str__` fails."""
    if issubclass(type(value), BaseException):
        return message_of(cast("BaseException", value))
    try:
        return str(value)
    except BaseException as error:  # the code of its class fails here, whatever it raises
        return f"{kind_of(value)} (its text is not available: {kind_of(error)})"


def plain_traceback(error: BaseException, *, messages: bool = True) -> str:
    """Return an exception and its causes as Python prints them, with no line that a message has forged; never raises.

    Without `messages` only the types are printed: the messages may quote secret values. Of a long chain of causes, and
    of groups within groups, the outer ones are printed.
    """
    return "\n".join(_traceback(error, set(), _MOST_GROUPS, messages=messages))


def _traceback(error: BaseException, seen: set[int], groups: int, *, messages: bool) -> Iterator[str]:
    chain, one, how = list[tuple[BaseException, str]](), cast("BaseException | None", error), ""
    while one is not None and id(one) not in seen and len(chain) < _MOST_CAUSES:
        seen.add(id(one))
        chain.append((one, how))
        one, how = behind(one)
    if one is not None and id(one) not in seen:
        yield "(the exceptions before this one are left out)\n"
    for each, led_to in reversed(chain):
        yield from _told_alone(each, messages=messages)
        if is_a(each, BaseExceptionGroup):
            parts = within(each)
            for number, part in enumerate(parts, 1):
                if id(part) not in seen:
                    yield f"--- {number} of {len(parts)}"
                    yield from _traceback(part, seen, groups - 1, messages=messages) if groups else ["(left out)"]
        if led_to:
            yield f"\nThe above exception {led_to} the following one:\n"


def _told_alone(error: BaseException, *, messages: bool) -> Iterator[str]:
    frames, notes = kept_by(error)
    if frames is not None:
        yield "Traceback (most recent call last):"
        yield plain_lines("".join(traceback.format_tb(frames)).rstrip("\n"))
    kind = plain(kind_of(error))
    yield f"{kind}: {plain(message_of(error))}" if messages else kind
    if messages:
        yield from map(plain, notes)


_MOST_CAUSES = 100
_MOST_GROUPS = 10


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < _BYTE else f"\\u{code:04x}" if code < _PLANE else f"\\U{code:08x}"


def _escaped_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


__all__ = ["joined", "plain", "plain_json", "plain_lines", "plain_traceback", "told"]
