"""One call's side effect under its tool's declaration: what was asked, under which key, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.disposition import NOTHING, Disposed, Disposition
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Call
from settlemark._protocol.leaving import Leaves
from settlemark._protocol.states import Tag


@dataclass(frozen=True, slots=True)
class Frozen:
    """A call of a tool with the arguments that it had when it was issued: each try has a copy of its own."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def fresh(self) -> Callable[[], Any]:
        """Return what makes the call, once."""
        return partial(self.function, *json_text.snapshot(self.args), **json_text.snapshot(dict(self.kwargs)))

    def __call__(self) -> Any:
        """Make the call."""
        return self.fresh()()


@dataclass(slots=True, eq=False)
class Effect:
    """One tool call's side effect: what was asked, under which key, and what became of it.

    `run` calls the tool; `pack` turns its result into plain data and `unpack` turns that back, for
    tools whose results are objects of a framework. `given` are the arguments as the tool gets them,
    where a framework makes them of the recorded ones. `stored` says that `result` still is that JSON.
    `path` names its decision in its transaction, `position` is only its number in the record.
    `ask` puts a `Gate` before a person, as the framework of the call does that, and `remake` returns its likeness
    with other arguments.
    `at` is since when its counterparty may know its key (seconds since 1970); `missing` is what would have
    to be declared here to undo it or to ask about it; `withheld` says by role which handlers must not run,
    since the record has not what they need. `packed` are its arguments and rationale as they are recorded,
    where that is not as they are; `unread` is a result that could not be read, and its recorded text. `bound` is how
    many changes of tools there had been when this call was planned; None: it calls no tool that anybody
    registers. `turned` says that it was issued as one of several, in an order, and `leaves` what is asked of its place
    among the held ones (`Leaves`). `sender` is who may still be sending it, or undoing it, for all that this process
    knows: a worker that was buried meanwhile. `keyless` says that its tool was not `keyed` when it was recorded, and
    `unsigned` that it had no probe either, so that it may have been sent without its key. `called` is how often its
    tool was called, at least once by an earlier process, and `came` in which of the times that its transaction was
    entered it was issued first. `kept` is what it returned, as plain data that nobody else has.
    """

    declaration: Declaration
    scopes: tuple[Scope, ...]
    arguments: Mapping[str, Any]
    run: Callable[[], Any]
    call_id: str | None = None
    rationale: str | None = None
    given: Mapping[str, Any] | None = None
    pack: Callable[[Any], Any] | None = None
    unpack: Callable[[Any], Any] | None = None
    ask: Callable[[Any], Any] | None = None
    remake: Callable[[Effect, Mapping[str, Any]], Effect] | None = None
    key: str = ""
    payload: str = "{}"
    position: int = 0
    path: tuple[int, ...] = ()
    held: bool = False
    calls: list[Call] = field(default_factory=list["Call"])
    outcome: Outcome = Outcome.INTENDED
    result: Any = None
    stored: bool = False
    error: str | None = None
    tag: Tag | None = None
    disposed: Disposed = NOTHING
    at: float = 0.0
    missing: str | None = None
    fingerprint: str = ""
    withheld: Mapping[str, str] = field(default_factory=dict[str, str])
    packed: tuple[str, str | None] | None = None
    unread: tuple[Any, str] | None = None
    bound: int | None = None
    turned: bool = False
    leaves: int = 0
    sender: str | None = None
    keyless: bool = False
    unsigned: bool = False
    called: int = 0
    came: int = 0
    kept: tuple[Any] | None = None

    def __post_init__(self) -> None:
        """Mark an effect that cannot be undone as one that leaves last."""
        if self.declaration.kind is EffectClass.IRREVERSIBLE:
            self.leaves |= Leaves.LAST

    def doubt(self) -> None:
        """Mark the effect as perhaps sent, under the declaration it was recorded with."""
        self.outcome = Outcome.UNKNOWN
        if self.keyless:
            self.declaration = self.declaration.without_key()

    @property
    def executed(self) -> bool:
        """Whether it has, or may have, happened at the counterparty."""
        return self.outcome in (Outcome.CONFIRMED, Outcome.UNKNOWN)

    @property
    def disposition(self) -> Disposition | None:
        """What is decided about it, where its outcome does not tell."""
        return self.disposed.disposition

    def for_handlers(self) -> Mapping[str, Any]:
        """Return the arguments as the tool got them, when they differ from the recorded ones; nobody else has these."""
        found: Mapping[str, Any] = json_text.snapshot(dict(self.arguments if self.given is None else self.given))
        return found

    def shown(self) -> dict[str, Any]:
        """Return a copy of the recorded arguments, for approvers and reports."""
        found: dict[str, Any] = json_text.snapshot(dict(self.arguments))
        return found

    def happened(self, result: Any) -> None:
        """Note that it happened, and what came of it: its caller may change that, and no handler sees it."""
        self.outcome, self.result, self.error, self.stored = Outcome.CONFIRMED, result, None, False
        self.kept = None
        try:
            self.kept = (json_text.snapshot(self.plain_result()),)
        except BaseException:  # what cannot be told is told of when it is recorded
            return

    def plain_result(self) -> Any:
        """Return its result as plain data: what handlers are given, and the ledger keeps."""
        if self.kept is not None:
            return json_text.snapshot(self.kept[0])
        if self.pack is None or self.stored or self.result is None:
            return self.result
        return self.pack(self.result)

    def confirm(self, found: Any) -> None:
        """Note that the counterparty knows it, with this result, as plain data."""
        self.outcome = Outcome.CONFIRMED
        self.stored = self.unpack is None
        self.kept = (json_text.recorded_result(found),)
        self.result = found if self.unpack is None else self.unpack(found)

    @property
    def scope_text(self) -> str:
        """Its scopes as one text, for people and records."""
        return " ".join(scope.text for scope in self.scopes)
