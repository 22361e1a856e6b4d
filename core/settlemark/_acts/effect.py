"""One tool call's side effect: its declaration, arguments, idempotency key and outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

from settlemark._acts.decision import Decision
from settlemark._acts.judged import Judged
from settlemark._acts.own_result import own_of
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
    """A tool call with the arguments it was issued with: each try gets its own copy of them."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def fresh(self) -> Callable[[], Any]:
        """Return a function that makes the call once, with a fresh copy of the arguments."""
        return partial(self.function, *json_text.snapshot(self.args), **json_text.snapshot(dict(self.kwargs)))

    def __call__(self) -> Any:
        """Make the call."""
        return self.fresh()()


@dataclass(slots=True, eq=False)
class Effect:
    """One tool call's side effect: its declaration, arguments, idempotency key and outcome.

    Attributes:
        run: calls the tool.
        pack: turns the tool's result, where that is a framework's object, into plain data; `unpack` turns it back.
        given: the arguments as the tool gets them, where a framework derives them from the recorded ones.
        stored: `result` still is the recorded JSON.
        path: names the decision in its transaction; `position` is only its number in the record.
        ask: puts a `Gate` before a person, in the framework's way; `remake` copies the effect with other arguments.
        at: since when the counterparty may know the key (seconds since 1970).
        missing: the declaration that this process lacks to undo or probe the effect.
        withheld: by role, why a handler must not run: the record lacks what the handler needs.
        packed: arguments and rationale as recorded, where these differ from the live ones.
        unread: a result that could not be read, with its recorded text.
        bound: the number of tool changes when the call was planned; None for a tool that nobody registers.
        turned: the call was issued as one of several, in an order.
        leaves: what is asked of the effect's place among the held ones (`Leaves`).
        sender: a worker, thought dead, that may still be sending or undoing the effect.
        keyless: the tool was not `keyed` when the effect was recorded.
        unsigned: as `keyless`, and without a probe too: the call may have been sent without a key.
        called: how often the tool was called; at least once where an earlier process called it.
        came: the entry of the transaction, counted from 0, in which the call was first issued.
        kept: the tool's result as plain data that no caller can change.
        spends: how much it spends of each unit; `instead_of` is the key of the effect that it takes the place of.
        decision: for the sake of which it is called.
        gated: a person has to say yes first: its question is put on record with it.
        judged: what a policy has said of it here.
        controls: the exceptions by which its framework puts it aside also as it is to leave: its tool asks somebody.
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
    controls: tuple[type[BaseException], ...] = ()
    spends: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    instead_of: str | None = None
    decision: Decision | None = None
    gated: bool = False
    judged: Judged | None = None

    def __post_init__(self) -> None:
        """Make an irreversible effect leave last."""
        if self.declaration.kind is EffectClass.IRREVERSIBLE:
            self.leaves |= Leaves.LAST

    def doubt(self) -> None:
        """Mark the effect as possibly sent, under the declaration it was recorded with."""
        self.outcome = Outcome.UNKNOWN
        if self.keyless:
            self.declaration = self.declaration.without_key()

    @property
    def executed(self) -> bool:
        """Whether the effect has, or may have, happened at the counterparty."""
        return self.outcome in (Outcome.CONFIRMED, Outcome.UNKNOWN)

    @property
    def disposition(self) -> Disposition | None:
        """What was decided about the effect, where its outcome does not tell."""
        return self.disposed.disposition

    def for_handlers(self) -> Mapping[str, Any]:
        """Return a copy of the arguments as the tool got them."""
        found: Mapping[str, Any] = json_text.snapshot(dict(self.arguments if self.given is None else self.given))
        return found

    def shown(self) -> dict[str, Any]:
        """Return a copy of the recorded arguments, for approvers and reports."""
        found: dict[str, Any] = json_text.snapshot(dict(self.arguments))
        return found

    def happened(self, result: Any) -> None:
        """Record success and the result; handlers see a copy that the caller cannot change."""
        self.outcome, self.result, self.error, self.stored = Outcome.CONFIRMED, result, None, False
        self.kept = None
        try:
            self.kept = (json_text.snapshot(self.plain_result()),)
        except BaseException:  # a result that cannot be kept is reported when the outcome is recorded
            return

    def plain_result(self) -> Any:
        """Return the result as plain data, as it is recorded."""
        if self.kept is not None:
            return json_text.snapshot(self.kept[0])
        if self.pack is None or self.stored or self.result is None:
            return self.result
        return self.pack(self.result)

    def own_result(self) -> Any:
        """Return the tool's own result as plain data, for handlers: not what a framework has made of it."""
        return own_of(self.plain_result())

    def confirm(self, found: Any) -> None:
        """Record what the counterparty confirmed, with the result (plain data)."""
        self.outcome = Outcome.CONFIRMED
        self.stored = self.unpack is None
        self.kept = (json_text.recorded_result(found),)
        self.result = found if self.unpack is None else self.unpack(found)

    @property
    def scope_text(self) -> str:
        """The effect's scopes as one text, for people and records."""
        return " ".join(scope.text for scope in self.scopes)
