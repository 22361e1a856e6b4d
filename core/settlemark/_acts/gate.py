"""The question put to a person before a gated call runs, and the possible answers.

An approval covers one decision, with exactly the arguments shown or the ones given in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from settlemark._acts.effect import Effect
from settlemark._edges.errors import Rejected, UsageError
from settlemark._edges.text import WHO, brief, wrong_with
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import EffectClass

Decision = Literal["approve", "reject", "edit"]
Approver = Callable[["Gate"], Any]
"""Returns an answer that `approval_of` reads, or an awaitable of one."""

KIND = "settlemark.gate"
_FIELDS = frozenset({"decision", "arguments", "because", "by", "roles"})
_HOW = (
    'answer "approve" (or True), "reject" (or False), or {"decision": "approve" | "reject" | "edit", "arguments": {…},'
    ' "because": "…", "by": "name", "roles": […]}'
)


@dataclass(slots=True)
class Gate:
    """One call that waits for a person's yes.

    Attributes:
        transaction: the transaction's name.
        run: the run the call belongs to.
        tool: the tool's name.
        kind: the effect class.
        scope: the resource the call acts on.
        arguments: the call's arguments, which an approval covers.
        rationale: what the model said when it issued the call.
        key: the idempotency key the call would run under.
        would: what the call would do, as a sentence.
        error: why the last answer was refused; None when there was no answer yet.
        question: the framework's number for this question, by which a resumed framework finds the question again.
        answered: another process has answered already. The framework then hands over the answer it has for this
            question (or None), so that no other question receives that answer; nobody is asked.
    """

    transaction: str
    run: str
    tool: str
    kind: EffectClass
    scope: str
    arguments: Mapping[str, Any]
    rationale: str | None
    key: str
    would: str
    error: str | None = None
    question: int | None = None
    answered: bool = False

    def shown(self) -> dict[str, Any]:
        """Return the gate as plain data that a framework can carry to a person."""
        told: dict[str, Any] = {
            "kind": KIND,
            "tool": self.tool,
            "class": self.kind.value,
            "scope": self.scope,
            "arguments": json_text.snapshot(dict(self.arguments)),
            "rationale": self.rationale,
            "key": self.key,
            "transaction": self.transaction,
            "would": self.would,
        }
        return told if self.error is None else {**told, "error": self.error}


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's answer.

    Attributes:
        decision: "approve", "reject", or "edit" (approve with other arguments).
        arguments: the arguments to run with, for "edit".
        because: the person's reason, if given.
        by: who answers, if that is told.
        roles: as what, such as `finance`.
    """

    decision: Decision
    arguments: Mapping[str, Any] | None = None
    because: str | None = None
    by: str | None = field(default=None, compare=False)
    roles: tuple[str, ...] = field(default=(), compare=False)


def approve(*, by: str | None = None, roles: Sequence[str] = ()) -> dict[str, Any]:
    """Return the answer that lets a call run as shown; `by` and `roles` say who gives it, and as what.

    >>> approval_of(approve()).decision, approval_of(approve(by="ada")).by
    ('approve', 'ada')
    """
    return {"decision": "approve", **_signature(by, roles)}


def reject(because: str | None = None, *, by: str | None = None, roles: Sequence[str] = ()) -> dict[str, Any]:
    """Return the answer that stops a call; the model is told the reason. See `approve`.

    >>> approval_of(reject("too expensive")).because
    'too expensive'
    """
    return {"decision": "reject", "because": because, **_signature(by, roles)}


def edit(arguments: Mapping[str, Any], *, by: str | None = None, roles: Sequence[str] = ()) -> dict[str, Any]:
    """Return the answer that lets a call run with these arguments in place of all those shown. See `approve`.

    >>> approval_of(edit({"to": "b@c.example"})).arguments
    {'to': 'b@c.example'}
    """
    return {"decision": "edit", "arguments": dict(arguments), **_signature(by, roles)}


def _signature(by: str | None, roles: Sequence[str]) -> dict[str, Any]:
    named = {} if by is None else {"by": by}
    return {**named, "roles": [roles] if isinstance(roles, str) else list(roles)} if roles else named


def approval_of(answer: object) -> Approval:
    """Parse a person's answer.

    Raises:
        UsageError: the answer cannot be read; the message lists the valid answers.

    >>> approval_of(True).decision, approval_of("reject").decision
    ('approve', 'reject')
    """
    if isinstance(answer, bool):
        return Approval("approve" if answer else "reject")
    if isinstance(answer, str):
        answer = {"decision": answer}
    if not isinstance(answer, Mapping):
        raise UsageError(f"{answer!r} is not an answer: {_HOW}; nothing was run")
    given = cast("Mapping[str, Any]", answer)
    decision, arguments, because = given.get("decision"), given.get("arguments"), given.get("because")
    unknown = sorted(map(str, given.keys() - _FIELDS))
    if unknown:
        raise UsageError(f"an answer has no field {', '.join(map(repr, unknown))}: {_HOW}; nothing was run")
    if decision not in ("approve", "reject", "edit"):
        raise UsageError(f"{decision!r} is not a decision: {_HOW}; nothing was run")
    if decision == "edit" and not isinstance(arguments, Mapping):
        raise UsageError(f'"edit" needs all "arguments" of the call, not {arguments!r}; nothing was run')
    if decision != "edit" and arguments is not None:
        raise UsageError(f'"arguments" belong to "edit", not to {decision!r}; nothing was run')
    if because is not None and not isinstance(because, str):
        raise UsageError(f'"because" is a text, not {because!r}; nothing was run')
    said = None if because is None else str.__str__(because)  # a subclass of str may have its own text
    by, roles = _signed(given)
    return Approval(decision, cast("Mapping[str, Any] | None", arguments), said, by, roles)


def _signed(given: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """Return who has given an answer, and as what.

    Raises:
        UsageError: one of the names is none.
    """
    by, roles = given.get("by"), given.get("roles")
    named = [] if roles is None else [roles] if isinstance(roles, str) else roles
    if not isinstance(named, Sequence) or isinstance(named, bytes):
        raise UsageError(f'"roles" of an answer are names, not {roles!r}; nothing was run')
    texts = [*cast("Sequence[object]", named), *([] if by is None else [by])]
    for text in texts:
        wrong = wrong_with(text, WHO)
        if wrong is not None:
            raise UsageError(f'{brief(text)} in "by" or "roles" of an answer {wrong}; nothing was run')
    plain = tuple(str.__str__(cast("str", text)) for text in texts)
    return (None, plain) if by is None else (plain[-1], plain[:-1])


def is_asked(effect: Effect) -> bool:
    """Whether an effect waits for a person's answer."""
    return effect.disposition is Disposition.ASKED


def rejection(tool: str, key: str, transaction: str, because: str | None) -> Rejected:
    """Return the error that tells the caller a person said no."""
    told = "" if because is None else f": {because}"
    return Rejected(
        f"{tool} was rejected by a human{told}; nothing of it happened: plan again without this call",
        transaction=transaction,
        tool=tool,
        key=key,
        because=because,
    )


def would(declaration: Declaration, arguments: Mapping[str, Any], scope: str, *, held: bool) -> str:
    """Describe in a sentence what a call would do.

    >>> from settlemark._model.declare import declare
    >>> would(declare("mail", "irreversible", scope="mail:/{to}"), {"to": "a"}, "mail:/a", held=True)
    'mail would act on mail:/a with to="a" when its step settles; that cannot be undone'
    """
    given = ", ".join(f"{name}={json_text.encode(value)}" for name, value in arguments.items()) or "no arguments"
    when = "when its step settles" if held else "at once"
    if declaration.undoable:
        undone = "until its step settles it can be undone"
    elif declaration.undo is not None and declaration.cost is not None:
        undone = f"until its step settles it can be undone, but a cost stays: {declaration.cost}"
    else:
        undone = "that cannot be undone"
    return f"{declaration.tool} would act on {scope} with {given} {when}; {undone}"


__all__ = [
    "KIND",
    "Approval",
    "Approver",
    "Gate",
    "approval_of",
    "approve",
    "edit",
    "is_asked",
    "reject",
    "rejection",
    "would",
]
