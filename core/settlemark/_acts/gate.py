"""What a person is asked before a gated call runs, and what may be answered.

An approval is for one decision with exactly the arguments that were shown, or those given in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from settlemark._acts.effect import Effect
from settlemark._edges.errors import Rejected, UsageError
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import EffectClass

Decision = Literal["approve", "reject", "edit"]
Approver = Callable[["Gate"], Any]
"""Returns what `approval_of` reads, or something to await that does."""

KIND = "settlemark.gate"
_FIELDS = frozenset({"decision", "arguments", "because"})
_HOW = (
    'answer "approve" (or True), "reject" (or False), or {"decision": "approve" | "reject" | "edit", "arguments": {…},'
    ' "because": "…"}'
)


@dataclass(slots=True)
class Gate:
    """One call that waits for a person's yes.

    Attributes:
        transaction: the transaction's name.
        run: the job it belongs to.
        tool: the tool's name.
        kind: its effect class.
        scope: what it acts on.
        arguments: what it was called with: an approval is for these.
        rationale: what the model said when it issued the call.
        key: the idempotency key it would run under.
        would: what it would do, as a sentence.
        error: why the last answer was none; None when nobody has answered yet.
        question: a framework's number for the question, which it finds here again when it comes back to it.
        answered: somebody elsewhere was first. A framework hands over the answer that it has for this question, so
            that no other question gets it, or None; nobody is asked.
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
        """Return the gate as plain data, which a framework can carry to a person."""
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
    """What was answered.

    Attributes:
        decision: yes, no, or yes with other arguments.
        arguments: these, for `"edit"`.
        because: why, where that was said.
    """

    decision: Decision
    arguments: Mapping[str, Any] | None = None
    because: str | None = None


def approve() -> dict[str, Any]:
    """Return the answer that lets a call run as it was shown.

    >>> approval_of(approve()).decision
    'approve'
    """
    return {"decision": "approve"}


def reject(because: str | None = None) -> dict[str, Any]:
    """Return the answer that keeps a call from running; the model is told why.

    >>> approval_of(reject("too expensive")).because
    'too expensive'
    """
    return {"decision": "reject", "because": because}


def edit(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer that lets a call run with these arguments, all of them, in place of those shown.

    >>> approval_of(edit({"to": "b@c.example"})).arguments
    {'to': 'b@c.example'}
    """
    return {"decision": "edit", "arguments": dict(arguments)}


def approval_of(answer: object) -> Approval:
    """Return what an answer means.

    Raises:
        UsageError: it is none; it says what would be one.

    >>> approval_of(True).decision, approval_of("reject").decision
    ('approve', 'reject')
    """
    if isinstance(answer, bool):
        return Approval("approve" if answer else "reject")
    if isinstance(answer, str):
        answer = {"decision": answer}
    if not isinstance(answer, Mapping):
        raise UsageError(f"{answer!r} is no answer: {_HOW}; nothing was run")
    given = cast("Mapping[str, Any]", answer)
    decision, arguments, because = given.get("decision"), given.get("arguments"), given.get("because")
    unknown = sorted(map(str, given.keys() - _FIELDS))
    if unknown:
        raise UsageError(f"{', '.join(map(repr, unknown))} says nothing in an answer: {_HOW}; nothing was run")
    if decision not in ("approve", "reject", "edit"):
        raise UsageError(f"{decision!r} is no decision: {_HOW}; nothing was run")
    if decision == "edit" and not isinstance(arguments, Mapping):
        raise UsageError(f'"edit" comes with all "arguments" the call is to have, not {arguments!r}; nothing was run')
    if decision != "edit" and arguments is not None:
        raise UsageError(f'"arguments" come with "edit", not with {decision!r}; nothing was run')
    if because is not None and not isinstance(because, str):
        raise UsageError(f'"because" is a text, not {because!r}; nothing was run')
    said = None if because is None else str.__str__(because)  # it may be of a class of somebody's own
    return Approval(decision, cast("Mapping[str, Any] | None", arguments), said)


def is_asked(effect: Effect) -> bool:
    """Whether an effect waits for a person's answer."""
    return effect.disposition is Disposition.ASKED


def rejection(tool: str, key: str, transaction: str, because: str | None) -> Rejected:
    """Return the error that tells a caller that a person said no."""
    told = "" if because is None else f": {because}"
    return Rejected(
        f"{tool} was rejected by a human{told}; nothing of it happened: decide again from that",
        transaction=transaction,
        tool=tool,
        key=key,
        because=because,
    )


def would(declaration: Declaration, arguments: Mapping[str, Any], scope: str, *, held: bool) -> str:
    """Return in a sentence what a call would do.

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
    "KIND", "Approval", "Approver", "Gate", "approval_of", "approve", "edit", "is_asked", "reject",
    "rejection", "would",
]  # fmt: skip
