"""Mail addresses, header texts, and the suppression list: checked before anything is sent.

To a mail server a line break in a subject begins another header.
"""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_BETWEEN = re.compile(r"[\s<>()\[\]\",;:]+")
_LONGEST_LOCAL, _LONGEST_ADDRESS = 64, 254
# RFC 2047: it is read as the text that it encodes, line breaks too, by whoever reads the header and whoever writes it.
_ENCODED = re.compile(r"=\?.*\?=", re.DOTALL)
_BREAKS = frozenset({"Cc", "Cs", "Zl", "Zp"})  # controls, lone surrogates, line and paragraph separators

Suppressed = Collection[str] | Callable[[str], bool] | os.PathLike[str]


def recipients(to: Any, cc: Any, bcc: Any) -> list[str]:
    """Return all recipients of a mail, once each.

    >>> recipients(["ada@B.example", "bob@b.example"], "ada@b.example", None)
    ['ada@b.example', 'bob@b.example']
    """
    named = [*addresses("to", to), *addresses("cc", cc), *addresses("bcc", bcc)]
    return list(dict.fromkeys(named))


def addresses(argument: str, given: Any) -> list[str]:
    """Return the addresses that an argument names: one, several, or (but for `to`) none.

    Raises:
        ValueError: one is malformed, or there is nobody.
    """
    try:
        listed: list[Any] = [given] if isinstance(given, str) else list(given or ())
    except TypeError:
        raise ValueError(f"{argument}= is {given!r}: give an address as text, or a list of them") from None
    if argument == "to" and not listed:
        raise ValueError("to= is empty: name at least one address")
    return [one_address(one_line(argument, each)) for each in listed]


def one_address(written: str) -> str:
    """Return an address in the form in which addresses are compared: its domain in lower case, as DNS has it.

    Raises:
        ValueError: it is no address.

    >>> one_address("Ada@Bücher.Example")
    'Ada@xn--bcher-kva.example'
    """
    local, at, domain = written.strip().rpartition("@")
    with contextlib.suppress(UnicodeError):  # an invalid domain fails below
        domain = domain.encode("idna").decode().lower()
    fits = len(local) <= _LONGEST_LOCAL and len(local) + 1 + len(domain) <= _LONGEST_ADDRESS
    fits = fits and not _ENCODED.search(local)
    if not (at and fits and _LOCAL.fullmatch(local) and _DOMAIN.fullmatch(domain)):
        raise ValueError(f"{written!r} is no mail address: write it like ada@b.example, without a name")
    return f"{local}@{domain}"


def one_line(argument: str, value: Any) -> str:
    """Return a text that may stand in a header.

    Raises:
        ValueError: it is no text, or has a line break or another control character, or what stands for one.
    """
    text = some_text(argument, value)
    if _ENCODED.search(text):
        raise ValueError(
            f"{argument}= has an encoded word (=?…?=) in it: {text!r:.200}; write the text that it stands for"
        )
    if any(unicodedata.category(character) in _BREAKS for character in text):
        raise ValueError(f"{argument}= has a line break or another control character in it: {text!r}; write one line")
    return text


def as_one_line(text: str) -> str:
    r"""Return a text as one that may stand in a header: what may not is replaced.

    >>> as_one_line("pay\n =?utf-8?q?=0ABcc:?=")
    'pay  = ?utf-8?q?=0ABcc:?='
    """
    return "".join(each if each.isprintable() else " " for each in text).replace("=?", "= ?")


def some_text(argument: str, value: Any) -> str:
    """Return a text that can be encoded.

    Raises:
        ValueError: it is no text, or has a lone surrogate.
    """
    if not isinstance(value, str):
        raise ValueError(f"{argument}= is {value!r}: give text")  # noqa: TRY004 - for a model it is one of its mistakes
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{argument}= has half a character in it ({error.reason}): write it anew") from error
    return value


def suppressed_among(listed: Suppressed, everybody: Iterable[str]) -> list[str]:
    """Return which of some addresses (as from `one_address`) must not be written to.

    Raises:
        OSError: the list cannot be read, so nobody knows.

    >>> suppressed_among(["Ada <Ada@B.example>", "@spam.example"], ["ada@b.example", "bob@b.example"])
    ['ada@b.example']
    """
    if callable(listed):
        return [address for address in everybody if listed(address.casefold())]
    # Copied first: it may grow meanwhile.
    entries = list(listed) if isinstance(listed, Collection) else _lines(Path(listed))
    found = {each for entry in entries for each in _named_in(entry)}
    return [a for a in everybody if (folded := a.casefold()) in found or folded[folded.rindex("@") :] in found]


def _lines(path: Path) -> list[str]:
    # A byte order mark must not become part of an address.
    return [line.partition("#")[0] for line in path.read_text(encoding="utf-8-sig").splitlines()]


def _named_in(entry: str) -> Iterator[str]:
    """Yield each address in an entry, whatever is around it: a sloppy entry lets no address pass."""
    for word in _BETWEEN.split(entry):
        for written in (word, word.strip("'")):
            local, at, domain = written.rpartition("@")
            if at:
                with contextlib.suppress(UnicodeError):  # then it is compared unchanged
                    domain = domain if domain.isascii() else domain.encode("idna").decode()
                yield f"{local}{at}{domain.rstrip('.')}".casefold()


__all__ = [
    "Suppressed",
    "addresses",
    "as_one_line",
    "one_address",
    "one_line",
    "recipients",
    "some_text",
    "suppressed_among",
]
