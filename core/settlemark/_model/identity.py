"""The identity of decisions: their numbers in a transaction, and a key that no other decision of any ledger has.

A key carries the ledger's own id, so a ledger that was thrown away and made anew, and each one in memory, has
others. It can be read back in one way only: the id has a fixed length and what follows it says which form the name
has, a namespace's colons are escaped, and the last `#` stands between the name and the numbers. Providers limit keys,
many to 255 characters: of what is long a digest takes the place.

>>> key_of("1f1f1f1f1f1f1f1f.", "trip", 1, (0, 2), "call-7")
'1f1f1f1f1f1f1f1f.trip#1/0.2:call-7'
>>> key_of("1f1f1f1f1f1f1f1f:acme:", "trip", 1, (0,), None)
'1f1f1f1f1f1f1f1f:acme:trip#1/0'
"""

from __future__ import annotations

import hashlib
import re
import secrets

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
"""Names a decision in its transaction; paths sort in issuance order."""


class Numbering:
    """Names the decisions of one transaction, or of what joined one of its calls, in issuance order.

    >>> top, part = Numbering(), Numbering((0, 1))
    >>> top.next("pay"), part.next("book"), part.next("mail"), top.next("pay")
    ((0,), (0, 1, 0), (0, 1, 1), (1,))
    """

    __slots__ = ("_base", "_count", "_read")

    def __init__(self, base: Path = (), *, read: str | None = None) -> None:
        self._base = base
        self._read = read
        self._count = 0

    @property
    def base(self) -> Path:
        """What the names of all these decisions begin with."""
        return self._base

    def under(self, *numbers: int) -> Numbering:
        """Return the numbering of a part that has these numbers among the decisions.

        >>> Numbering().under(2, 0).next("book")
        (2, 0, 0)
        """
        return Numbering((*self._base, *numbers), read=self._read)

    def next(self, tool: str) -> Path:
        """Return the name of the next decision.

        Raises:
            DeclarationError: it would be made inside a read, which is neither recorded nor undone.
        """
        if self._read is not None:
            raise DeclarationError(
                f"{tool} has an effect and was called inside {self._read}, which is declared a read: nothing was run;"
                f" declare what {self._read} does, or begin the inner transaction with independent=True",
                tool=self._read,
            )
        path = (*self._base, self._count)
        self._count += 1
        return path


def new_ledger_id() -> str:
    """Return the id of a ledger that begins now."""
    return secrets.token_hex(ID_DIGITS // 2)


def prefix_of(ledger: str, namespace: str) -> str:
    """Return how the keys begin that are made in one namespace of the ledger with this id.

    >>> prefix_of("1f" * 8, "a:b"), prefix_of("1f" * 8, "default")
    ('1f1f1f1f1f1f1f1f:a%3Ab:', '1f1f1f1f1f1f1f1f.')
    """
    return f"{ledger}." if namespace == "default" else f"{ledger}:{namespace.translate(_ESCAPED_NAMESPACE)}:"


def step_of(prefix: str, name: str, attempt: int) -> str:
    """Return what the keys of one attempt of a transaction have in common.

    >>> step_of("1f1f1f1f1f1f1f1f.", "trip", 2)
    '1f1f1f1f1f1f1f1f.trip#2'
    """
    whole = f"{prefix}{name}"
    if len(whole) > _LONGEST_NAME:
        whole = f"{prefix[:ID_DIGITS]}~{_digest(whole, 40)}.{name[:_HINT]}"
    return f"{whole}#{attempt}"


def key_of(prefix: str, name: str, attempt: int, path: Path, call_id: str | None) -> str:
    """Return the key of a decision: the same for the same decision in every process, and no other's.

    >>> long = key_of("1f1f1f1f1f1f1f1f.", "trip" * 100, 1, (0,) * 100, "call" * 100)
    >>> len(long), long[:17]
    (159, '1f1f1f1f1f1f1f1f~')
    """
    numbers = text_of(path)
    if not fits(path):
        numbers = f"~{_digest(numbers, 32)}"
    if call_id is not None:
        told = call_id.translate(_ESCAPED)
        numbers += f":{told}" if len(told) <= _LONGEST_CALL else f"~{_digest(call_id, 32)}"
    return f"{step_of(prefix, name, attempt)}/{numbers}"


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def fits(path: Path) -> bool:
    """Whether the key of a decision tells its path."""
    return len(text_of(path)) <= _LONGEST_PATH


def text_of(path: Path) -> str:
    """Return a path as keys spell it.

    >>> text_of((0, 2))
    '0.2'
    """
    return ".".join(map(str, path))


def parsed(text: str) -> Path:
    """Return the path that is spelled so."""
    return tuple(int(number) for number in text.split("."))


def path_in(key: str, name: str, attempt: int) -> Path:
    """Return the name of a decision in its transaction, as its key tells it; see `fits`.

    >>> path_in("1f1f1f1f1f1f1f1f.trip#1/0.2:call-7", "trip", 1), path_in("trip#1/0:call#7", "trip", 1)
    ((0, 2), (0,))
    """
    found = _NUMBERS.fullmatch(key.rpartition("#")[2])
    if found is None or int(found[1]) != attempt:  # made before keys carried their ledger, with a call's id as it was
        return parsed(key.partition(f"{name}#{attempt}/")[2].partition(":")[0])
    return parsed(found[2])


def step_in(key: str) -> str | None:
    """Return what a key has in common with the others of its transaction's attempt, or None: no settlement made it.

    >>> step_in("1f1f1f1f1f1f1f1f.trip#1/0.2:call-7"), step_in("7")
    ('1f1f1f1f1f1f1f1f.trip#1', None)
    """
    whole, hash_, numbers = key.rpartition("#")
    found = _NUMBERS.fullmatch(numbers)
    return None if found is None or not hash_ else f"{whole}#{found[1]}"


__all__ = [
    "ID_DIGITS",
    "fits",
    "key_of",
    "new_ledger_id",
    "parsed",
    "path_in",
    "prefix_of",
    "step_in",
    "step_of",
    "text_of",
]
