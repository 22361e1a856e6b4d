"""The identity of decisions: numbers within a transaction, and keys that are unique across all ledgers.

A key begins with the ledger's own id, so a ledger that was deleted and made anew, and each ledger in memory, has other
keys. A key can be parsed in one way only: the id has a fixed length, the character after it tells the name's form, a
namespace's colons are escaped, and the last `#` separates the name from the numbers. Providers limit keys, many to 255
characters: a long part is replaced by its digest.

>>> key_of("1f1f1f1f1f1f1f1f.", "trip", 1, (0, 2), "call-7")
'1f1f1f1f1f1f1f1f.trip#1/0.2:call-7'
>>> key_of("1f1f1f1f1f1f1f1f:acme:", "trip", 1, (0,), None)
'1f1f1f1f1f1f1f1f:acme:trip#1/0'
"""

from __future__ import annotations

import hashlib
import re
import secrets

import msgspec

from settlemark._edges.errors import DeclarationError

ID_DIGITS = 16
_LONGEST_NAME = 100
_LONGEST_PATH = 48
_LONGEST_CALL = 48
_HINT = 32
_ESCAPED = str.maketrans({"%": "%25", "#": "%23"})
_ESCAPED_NAMESPACE = str.maketrans({"%": "%25", ":": "%3A"})
_NUMBERS = re.compile(r"(\d+)/(\d+(?:\.\d+)*|~[0-9a-f]{32})(?:[:~].*)?", re.DOTALL)


Path = tuple[int, ...]
"""Identifies a decision within its transaction; paths sort in issuance order."""


class Numbering(msgspec.Struct, eq=False):
    """Numbers the decisions of one transaction, or of a part that joined one of its calls, in issuance order.

    >>> top, part = Numbering(), Numbering((0, 1))
    >>> top.next("pay"), part.next("book"), part.next("mail"), top.next("pay")
    ((0,), (0, 1, 0), (0, 1, 1), (1,))

    Attributes:
        base: the common prefix of these decisions' paths.
        read: the read in which they would be made, if so.
        count: how many there are.
    """

    base: Path = ()
    read: str | None = None
    count: int = 0

    def under(self, *numbers: int) -> Numbering:
        """Return the numbering of a part that stands at this place among the decisions.

        >>> Numbering().under(2, 0).next("book")
        (2, 0, 0)
        """
        return Numbering((*self.base, *numbers), read=self.read)

    def next(self, tool: str) -> Path:
        """Return the path of the next decision.

        Raises:
            DeclarationError: the decision would be made inside a read, which is neither recorded nor undone.
        """
        if self.read is not None:
            raise DeclarationError(
                f"{tool} has an effect and was called inside {self.read}, which is declared a read: nothing was run;"
                f" declare what {self.read} does, or begin the inner transaction with independent=True",
                tool=self.read,
            )
        path = (*self.base, self.count)
        self.count += 1
        return path


def new_ledger_id() -> str:
    """Return the id of a new ledger."""
    return secrets.token_hex(ID_DIGITS // 2)


def prefix_of(ledger: str, namespace: str) -> str:
    """Return the prefix of all keys made in one namespace of a ledger.

    >>> prefix_of("1f" * 8, "a:b"), prefix_of("1f" * 8, "default")
    ('1f1f1f1f1f1f1f1f:a%3Ab:', '1f1f1f1f1f1f1f1f.')
    """
    return f"{ledger}." if namespace == "default" else f"{ledger}:{namespace.translate(_ESCAPED_NAMESPACE)}:"


def step_of(prefix: str, name: str, attempt: int) -> str:
    """Return the common prefix of the keys of one attempt of a transaction.

    >>> step_of("1f1f1f1f1f1f1f1f.", "trip", 2)
    '1f1f1f1f1f1f1f1f.trip#2'
    """
    whole = f"{prefix}{name}"
    if len(whole) > _LONGEST_NAME:
        whole = f"{prefix[:ID_DIGITS]}~{_digest(whole, 40)}.{name[:_HINT]}"
    return f"{whole}#{attempt}"


def key_of(prefix: str, name: str, attempt: int, path: Path, call_id: str | None) -> str:
    """Return the key of a decision: the same in every process, and different from every other decision's.

    >>> long = key_of("1f1f1f1f1f1f1f1f.", "trip" * 100, 1, (0,) * 100, "call" * 100)
    >>> len(long), long[:17]
    (159, '1f1f1f1f1f1f1f1f~')
    """
    numbers = text_of(path)
    if len(numbers) > _LONGEST_PATH:
        numbers = f"~{_digest(numbers, 32)}"
    if call_id is not None:
        told = call_id.translate(_ESCAPED)
        numbers += f":{told}" if len(told) <= _LONGEST_CALL else f"~{_digest(call_id, 32)}"
    return f"{step_of(prefix, name, attempt)}/{numbers}"


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def beside_key(path: Path) -> str | None:
    """Return the text of a path that its decision's key is too short to contain; None where the key contains it."""
    numbers = text_of(path)
    return None if len(numbers) <= _LONGEST_PATH else numbers


def text_of(path: Path) -> str:
    """Return a path as keys spell it.

    >>> text_of((0, 2))
    '0.2'
    """
    return ".".join(map(str, path))


def parsed(text: str) -> Path:
    """Parse a path as keys spell it."""
    return tuple(int(number) for number in text.split("."))


def path_in(key: str, name: str, attempt: int) -> Path:
    """Return the path that a key contains; see `beside_key`.

    >>> path_in("1f1f1f1f1f1f1f1f.trip#1/0.2:call-7", "trip", 1), path_in("trip#1/0:call#7", "trip", 1)
    ((0, 2), (0,))
    """
    found = _NUMBERS.fullmatch(key.rpartition("#")[2])
    if found is None or int(found[1]) != attempt:  # an old key: without a ledger's id, and with the call's id unescaped
        return parsed(key.partition(f"{name}#{attempt}/")[2].partition(":")[0])
    return parsed(found[2])


def step_in(key: str) -> str | None:
    """Return the prefix that a key shares with its transaction's attempt; None for a key no settlement made.

    >>> step_in("1f1f1f1f1f1f1f1f.trip#1/0.2:call-7"), step_in("7")
    ('1f1f1f1f1f1f1f1f.trip#1', None)
    """
    whole, hash_, numbers = key.rpartition("#")
    found = _NUMBERS.fullmatch(numbers)
    return None if found is None or not hash_ else f"{whole}#{found[1]}"


__all__ = [
    "ID_DIGITS",
    "beside_key",
    "key_of",
    "new_ledger_id",
    "parsed",
    "path_in",
    "prefix_of",
    "step_in",
    "step_of",
    "text_of",
]
