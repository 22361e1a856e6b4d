"""What a person has said to a run, as it is on record: an entry in the chain of the run, answered once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Literal, cast

from settlemark._edges.errors import LedgerError
from settlemark._model import json_text
from settlemark._model.scope import Scope
from settlemark.ledger._entries import Draft, Entry
from settlemark.ledger._payloads.redaction import SCRUBBED
from settlemark.ledger._payloads.unreadable import Unreadable

KIND = "steering"
"""The kind of the entries that keep what was said to runs."""
WAITING, TAKEN, DONE, UNHEARD = "waiting", "taken", "done", "unheard"
_LONGEST = 360

What = Literal["add", "revise", "retract"]
"""What is said: something besides, something in another way, or that something is not wanted any more."""


@dataclass(frozen=True, slots=True)
class Steered:
    """An effect that steering has undone, or that stays.

    Attributes:
        transaction, tool, scope, key: the effect; its counterparty knows it by the key.
        why: why it stays, or a remark; often empty.
    """

    transaction: str
    tool: str
    scope: str
    key: str
    why: str = ""

    def values(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return _values(self)


@dataclass(frozen=True, slots=True)
class Conflict:
    """The earliest decision that a revision or a retraction is in conflict with.

    Attributes:
        transaction: in which it was made.
        decision, title: the decision's id, and what was decided; None where nobody said.
        effect: the key of its effect.
        scope: the scope of the effect, or of the ground, that overlaps.
        ground: whether the decision stood on that scope; else its effect touched it.
    """

    transaction: str
    decision: str | None
    title: str | None
    effect: str
    scope: str
    ground: bool


@dataclass(frozen=True, slots=True)
class Repeat:
    """A call that a model has issued again, of an effect that steering left standing: it was not run.

    Attributes:
        effect: the key of the effect.
        call_id: the call's id; "" where it has none.
        answered: whether it was given the effect's answer; else it was only like it, and was refused once.
        place: where it was issued in its framework's state, in words of the framework's shim; "": nobody said.
    """

    effect: str
    call_id: str
    answered: bool
    place: str = ""

    def is_of(self, other: Repeat) -> bool:
        """Whether it says the same of the same call, wherever it was issued."""
        return replace(self, place="") == replace(other, place="")


@dataclass(frozen=True, slots=True)
class Steering:
    """What somebody has said to a run, and what was done about it: see `Settlement.steer`.

    Attributes:
        run: to which run; `number` is its place in the one order of all that was said to it, from 1.
        what: `"add"`, `"revise"` or `"retract"`.
        text: in words, for the model: no decision reads it. "" where it was pruned, or cannot be read here;
            "[redacted]" where a rule of `redact=` has replaced it.
        scopes: what it is about.
        by: who said it.
        at: when, in seconds since 1970, on the store's clock.
        state: `"waiting"`; `"taken"`, while its conflicts are being undone; `"done"`: it is acknowledged;
            `"unheard"`: the run was cancelled before this was acknowledged; `undone` is what was undone for it by then.
        before: the step before which it was taken; None while it waits, or where the run had ended its steps.
        told: the step whose program was told of it first, of those that stand; None: not yet.
        done_at: when it was acknowledged, in seconds since 1970.
        conflict: the earliest decision in conflict, or None.
        rewound: the transactions from there on, the newest first: none of them stands any more.
        undone: the effects that were undone, the newest first.
        bound: the effects that could not be undone: they stay, and what is decided next has to reckon with them. Those
            of which retention has removed what they touched are named here, too: whether they are in conflict is
            known to nobody.
        kept: effects that are not in conflict, and that their model knows nothing of since its framework's state has
            gone back behind them: a call that repeats one is answered with what it returned.
        repeats: the calls that have repeated one of `bound` or `kept`, where a framework's state has gone back.
        against: the numbers of what others have said about the same, which this may contradict.
        readable: whether it can be read here: else it is encrypted, or pruned, and its state, place and time are known.
    """

    run: str
    number: int
    what: What
    text: str
    scopes: tuple[str, ...]
    by: str
    at: float
    state: str
    before: str | None = None
    told: str | None = None
    done_at: float | None = None
    conflict: Conflict | None = None
    rewound: tuple[str, ...] = ()
    undone: tuple[Steered, ...] = ()
    bound: tuple[Steered, ...] = ()
    against: tuple[int, ...] = ()
    kept: tuple[Steered, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    keys: tuple[str, ...] = field(default=(), repr=False)
    readable: bool = field(default=True, repr=False)

    @property
    def said_at(self) -> datetime:
        """When it was said, in UTC."""
        return datetime.fromtimestamp(self.at, UTC)

    @property
    def is_open(self) -> bool:
        """Whether it is still to be acknowledged."""
        return self.state not in (DONE, UNHEARD)

    def words(self) -> str:
        """Return what a model is told of it: who says what, what was undone for that, and what stays nevertheless.

        >>> Steering("trip-42", 1, "add", "a window seat", (), "ada", 0.0, "done").words()
        'ada says (add): a window seat'
        """
        told = [f"{self.by} says ({', '.join((self.what, *self.scopes))}): {self.text}"]
        for what, effects in (
            ("undone for that", self.undone),
            ("could not be undone, and stays", self.bound),
            ("stands, and is answered with what it returned where it is called again", self.kept),
        ):
            if effects:
                shown = (
                    f"{each.tool} on {each.scope}" if each.scope else f"{each.tool} ({each.why})" for each in effects
                )
                told.append(f"{what}: {', '.join(shown)}")
        if self.against:
            told.append(f"others have said about the same: {', '.join(f'number {each}' for each in self.against)}")
        return "; ".join(told)

    def body(self) -> str:
        """Return what is recorded of it, as JSON."""
        told: dict[str, Any] = {
            "what": self.what,
            "text": self.text,
            "scopes": list(self.scopes),
            "by": self.by,
            "at": self.at,
        }
        if self.state != WAITING:
            told["before"], told["told"], told["done_at"] = self.before, self.told, self.done_at
            told["conflict"] = None if self.conflict is None else _values(self.conflict)
            told["rewound"], told["keys"] = list(self.rewound), list(self.keys)
            told["undone"] = [_values(each) for each in self.undone]
            for name in ("bound", "kept", "repeats"):
                told[name] = [_values(each) for each in getattr(self, name)]
        return json_text.encode(told)

    def draft(self) -> Draft:
        """Return the entry that records it, as long as it waits."""
        id_ = steering_id(self.run, self.number)
        return Draft(KIND, id_, self.run, self.state, self.at, self.body(), open=True)


def _values(of: Conflict | Steered | Repeat) -> dict[str, Any]:
    return {name: getattr(of, name) for name in of.__dataclass_fields__}


def steering_id(run: str, number: int) -> str:
    """Return the id of the entry of what was said to a run."""
    step = run if len(run) <= _LONGEST else hashlib.sha256(run.encode()).hexdigest()
    return f"{step}~{number}"


def steering_in(entry: Entry) -> Steering:
    """Return what was said, as recorded; what cannot be read of it, here or any more, is empty."""
    readable = not isinstance(entry.body, Unreadable)
    said: dict[str, Any] = json_text.decode(entry.body) if readable else {}
    what = said.get("what")
    return Steering(
        entry.run,
        int(entry.id.rpartition("~")[2]),
        what if what in ("add", "revise", "retract") else "add",
        words_in(said.get("text", "")),
        texts_in(said.get("scopes")),
        str(said.get("by", "")),
        seconds_in(said.get("at"), entry.at),
        entry.state,
        said.get("before"),
        said.get("told"),
        seconds_in(said.get("done_at"), entry.at) if entry.state == DONE else None,
        next(iter(made_of(Conflict, [said.get("conflict")])), None),
        texts_in(said.get("rewound")),
        tuple(made_of(Steered, said.get("undone"))),
        tuple(made_of(Steered, said.get("bound"))),
        kept=tuple(made_of(Steered, said.get("kept"))),
        repeats=tuple(made_of(Repeat, said.get("repeats"))),
        keys=texts_in(said.get("keys")),
        readable=readable,
    )


def unreadable(what: str, run: str) -> LedgerError:
    """Return the error for what is still to be dealt with, and cannot be read here: written back, it would be lost."""
    return LedgerError(
        f"{what} cannot be read: give encrypt= the ledger's key, as the process that recorded it has; nothing was"
        " recorded",
        run=run,
    )


def seconds_in(found: Any, otherwise: float) -> float:
    """Return seconds on record, or others where they are none."""
    return float(found) if isinstance(found, int | float) else otherwise


def listed(found: object) -> list[Any]:
    """Return the items of a list on record; none where a rule for redaction has replaced it."""
    return [*cast("Iterable[Any]", found)] if isinstance(found, list) else []


def words_in(found: object) -> str:
    """Return a text on record; where a rule for redaction has replaced it, a word for that."""
    return found if isinstance(found, str) else SCRUBBED


def texts_in(found: Any) -> tuple[str, ...]:
    """Return the texts of a list on record."""
    return tuple(each for each in listed(found) if isinstance(each, str))


def made_of(kind: Any, found: Any) -> list[Any]:
    """Return what is recorded as values of a kind; what a rule for redaction has replaced is left out."""
    known = {each.name for each in fields(kind)}
    needed = {each.name for each in fields(kind) if each.default is MISSING}
    return [kind(**each) for each in listed(found) if isinstance(each, dict) and needed <= each.keys() <= known]


def with_conflicts(said: Iterable[Steering]) -> list[Steering]:
    """Return what was said to one run in its order, each with the numbers of what others have said about the same.

    What is only added contradicts nothing else that is added.
    """
    every = sorted(said, key=lambda each: each.number)
    scopes = {each.number: [Scope.parse(text) for text in each.scopes] for each in every}

    def contradict(one: Steering, other: Steering) -> bool:
        if one.by == other.by or one.what == other.what == "add":
            return False
        return any(mine.overlaps(theirs) for mine in scopes[one.number] for theirs in scopes[other.number])

    return [
        replace(one, against=tuple(other.number for other in every if contradict(one, other)) if one.scopes else ())
        for one in every
    ]


__all__ = [
    "DONE",
    "KIND",
    "TAKEN",
    "UNHEARD",
    "WAITING",
    "Conflict",
    "Repeat",
    "Steered",
    "Steering",
    "What",
    "listed",
    "made_of",
    "seconds_in",
    "steering_id",
    "steering_in",
    "texts_in",
    "unreadable",
    "with_conflicts",
    "words_in",
]
