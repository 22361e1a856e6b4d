"""What names tell: a tool's verb, and the purpose of an argument."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import pairwise

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+|\d+")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


class Act(StrEnum):
    """What a verb says a tool does."""

    READ = "read"
    SEND = "send"
    PAY = "pay"
    DELETE = "delete"
    MAKE = "make"


_SPOKEN = {
    Act.READ: (
        "get list search find read fetch look lookup show query count check view describe retrieve browse inspect is"
        " has calculate compute estimate summarize summarise compare validate verify translate convert parse scan"
        " preview watch peek exists explain analyze analyse quote load"
    ),
    Act.SEND: "send mail email sms notify publish tweet broadcast announce deploy push fax tell alert ship",
    Act.PAY: "pay charge transfer wire refund payout purchase buy withdraw donate remit checkout invest trade sell",
    Act.DELETE: "delete remove drop destroy erase purge truncate wipe rm unlink shred kill terminate uninstall",
    Act.MAKE: (
        "book reserve create add insert open start rent order register subscribe lock acquire hold upload write update"
        " set put edit move rename append save store modify change approve cancel assign schedule enable disable grant"
        " revoke merge close apply submit post release unlock increment decrement debit credit replace patch mark stop"
        " run execute make build seed migrate copy install upsert attach detach archive restore invite confirm reject"
        " complete reset import"
    ),
}
_VERBS = {verb: act for act, verbs in _SPOKEN.items() for verb in verbs.split()}
_NOUNS = frozenset(
    {"status", "info", "details", "history", "list", "count", "price", "quote", "address", "state", "size"}
)
ACTS_FOR_SURE = frozenset({Act.SEND, Act.PAY, Act.DELETE})

INVERSES: dict[str, tuple[str, ...]] = {
    "book": ("cancel", "unbook", "release"), "reserve": ("cancel", "release", "free", "unreserve"),
    "create": ("delete", "remove", "destroy", "drop"), "make": ("delete", "remove", "cancel"),
    "add": ("remove", "delete"), "insert": ("delete", "remove"), "append": ("remove", "pop"),
    "lock": ("unlock", "release"), "acquire": ("release",), "hold": ("release", "cancel"), "open": ("close",),
    "start": ("stop", "cancel"), "enable": ("disable",), "disable": ("enable",), "grant": ("revoke",),
    "subscribe": ("unsubscribe", "cancel"), "register": ("unregister", "deregister"), "rent": ("return", "cancel"),
    "order": ("cancel",), "schedule": ("cancel", "unschedule"), "assign": ("unassign",), "attach": ("detach",),
    "upload": ("delete", "remove"), "archive": ("unarchive", "restore"), "delete": ("restore", "undelete"),
    "remove": ("restore", "add"), "increment": ("decrement",), "debit": ("credit",), "authorize": ("void", "cancel"),
    "install": ("uninstall",), "mount": ("unmount",), "put": ("delete", "remove"), "write": ("restore", "revert"),
    "update": ("restore", "revert"), "set": ("unset", "restore"),
}  # fmt: skip # a table of words

FREE_TEXT = word_set(
    "body subject message text content contents note notes comment comments description summary prompt"
    " amount price total"
    " quantity qty data payload html markdown reason memo caption instructions value amount_minor rationale"
)
COMPUTED = FREE_TEXT | frozenset({"balance", "sum", "cost", "score", "answer", "completion", "completions", "response"})
STRONG = word_set(
    "path filepath filename file dir directory folder url uri endpoint to recipient recipients table"
    " bucket topic channel"
    " src dst source destination target dest"
)
_WEAK = word_set(
    "id key name account user username email address host repo repository branch queue room hotel seat order customer"
    " invoice ticket document doc page record row item sku product project issue city date"
)
PATHS = frozenset({"path", "filepath", "dir", "directory", "folder"})
_FROM_TO = (
    ("src", "dst"),
    ("source", "destination"),
    ("source", "target"),
    ("src", "dest"),
    ("from", "to"),
    ("sender", "receiver"),
    ("old", "new"),
    ("debit", "credit"),
    ("payer", "payee"),
)
_SECRETS = word_set("password passwd passphrase secret apikey token bearer credential credentials cvv cvc ssn card")
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("private", "key"), ("access", "key"), ("secret", "key"), ("card", "number")}
)
_NO_SECRETS = word_set(
    "page next max min count limit tokens budget id ids cursor name type kind usage last brand expiry continuation sync"
    " business title holder index"
)


def parts_of(name: str) -> list[str]:
    """Return a name's words in lower case, however it is spelled.

    >>> parts_of("sendEmail"), parts_of("book-hotel_room")
    (['send', 'email'], ['book', 'hotel', 'room'])
    """
    return [part.lower() for part in _PARTS.findall(name)] or [name.lower()]


def verb_of(name: str) -> tuple[str, Act] | None:
    """Return the first verb of a tool's name and what it says, or None.

    >>> verb_of("get_payment"), verb_of("fetch_and_delete"), verb_of("order_status")
    (('get', <Act.READ: 'read'>), ('delete', <Act.DELETE: 'delete'>), None)
    """
    words = parts_of(name)
    if words[-1] in _NOUNS and _VERBS.get(words[0]) is not Act.READ:
        return None
    found = [(word, _VERBS[word]) for word in words if word in _VERBS]
    if len(found) > 1 and found[0][1] is Act.READ and found[0][0] != words[0]:
        found = found[1:]  # `build_search_index` searches nothing
    if not found:
        return None
    for before, word in pairwise(words):
        if before in {"and", "or", "then"} and _VERBS.get(word, Act.READ) is not Act.READ:
            return word, _VERBS[word]
    if words[:2] in (["check", "in"], ["check", "out"]):
        return words[0], Act.MAKE
    return found[0]


def nouns_of(name: str) -> list[str]:
    """Return a tool's words without its verb.

    >>> nouns_of("book_hotel_room")
    ['hotel', 'room']
    """
    verb = verb_of(name)
    words = parts_of(name)
    if verb is not None:
        words.remove(verb[0])
    return [
        word for word in words if word not in {"a", "an", "the", "to", "of", "for", "in", "by", "and", "new", "all"}
    ]


def singular(word: str) -> str:
    """Return a word in the singular, roughly.

    >>> [singular(word) for word in ("rooms", "entries", "addresses", "status", "boss")]
    ['room', 'entry', 'address', 'status', 'boss']
    """
    if word.endswith("ies") and len(word) > len("pies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > len("bus"):
        return word[:-1]
    return word


def is_address(argument: str, *, strong: bool = False) -> bool:
    """Whether an argument's name says that it names a resource."""
    words = parts_of(argument)
    known = STRONG if strong else STRONG | _WEAK
    return bool(words) and (words[-1] in known or argument in known) and argument not in FREE_TEXT


def is_free_text(argument: str) -> bool:
    """Whether an argument's name says that a model writes or computes it.

    >>> [is_free_text(name) for name in ("body", "email_subject", "amount_minor", "order_id")]
    [True, True, True, False]
    """
    words = parts_of(argument)
    return bool(words) and (argument in FREE_TEXT or words[-1] in FREE_TEXT)


def is_secret(argument: str) -> bool:
    """Whether an argument's name says that it is a secret.

    >>> [is_secret(name) for name in ("api_key", "card_number", "page_token", "max_tokens", "keyboard")]
    [True, True, False, False, False]
    """
    words = parts_of(argument)
    if any(word in _NO_SECRETS for word in words):
        return False
    return any(word in _SECRETS for word in words) or any(pair in _SECRET_PAIRS for pair in pairwise(words))


def counterpart(argument: str, among: Iterable[str]) -> str | None:
    """Return the other end of a pair of arguments.

    >>> counterpart("from_account", ["amount", "to_account"]), counterpart("src", ["dst"])
    ('to_account', 'dst')
    """
    words = parts_of(argument)
    for one, other in _FROM_TO:
        for mine, theirs in ((one, other), (other, one)):
            if mine in words:
                wanted = [theirs if word == mine else word for word in words]
                for each in among:
                    if parts_of(each) == wanted:
                        return each
    return None


def inverse_of(tool: str, functions: Iterable[str]) -> str | None:
    """Return the function that, by its name, undoes what a tool does.

    >>> inverse_of("book_room", ["pay", "cancel_room"]), inverse_of("reserve_seat", ["cancel_reservation"])
    ('cancel_room', 'cancel_reservation')
    """
    verb = verb_of(tool)
    if verb is None:
        return None
    nouns = [singular(word) for word in nouns_of(tool)]
    known = [
        (words[0], {singular(word) for word in words[1:]}, name) for name in functions if (words := parts_of(name))
    ]
    fits: tuple[Callable[[set[str]], bool], ...] = (
        lambda theirs: theirs == set(nouns),
        lambda theirs: any(_made_of(verb[0], word) for word in theirs),
        lambda theirs: bool(nouns) and nouns[0] in theirs and theirs <= set(nouns),
    )
    for fit in fits:
        for wanted in INVERSES.get(verb[0], ()):
            for first, theirs, name in known:
                if first == wanted and fit(theirs):
                    return name
    return None


def _made_of(verb: str, noun: str) -> bool:
    """Whether a noun is what a verb makes: a booking, a reservation."""
    stem = verb.rstrip("e")
    return noun.startswith(stem) and noun[len(stem) :] in {"ing", "ation", "er", "al", "ion", "e", ""}


__all__ = [
    "ACTS_FOR_SURE",
    "COMPUTED",
    "FREE_TEXT",
    "INVERSES",
    "PATHS",
    "STRONG",
    "Act",
    "counterpart",
    "inverse_of",
    "is_address",
    "is_free_text",
    "is_secret",
    "nouns_of",
    "parts_of",
    "singular",
    "verb_of",
    "word_set",
]
