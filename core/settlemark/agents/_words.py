"""What a model is told of an error: what became of its call, and what it is to do now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from settlemark._edges.errors import InDoubt, KeyConflict, PartialCommit, Refused, UsageError
from settlemark._edges.wording import in_words, is_a, kind_of, message_of
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.made import is_gone, is_gone_in_part
from settlemark._protocol.states import Tag
from settlemark.ledger._contract import HAPPENED

TOLD = (Refused, InDoubt, PartialCommit, UsageError)
"""What settlement says of a call, and a model is to be told; all else is its tool's own, or its framework's."""


class Undone(Refused):
    """A call had succeeded, or was held, and then its turn was undone."""


class DoneBefore(KeyConflict):
    """A job that was begun again asked for something like what it had done before: it was not done again.

    Attributes: `key`, and `recorded` and `given`, each with `tool` and `arguments`.
    """


def words(error: BaseException) -> str:
    """Return what the model is told of an error: what became of its call, and what it is to do now.

    >>> words(InDoubt("ask the counterparty, or declare probe=", tool="pay", scope="card:/7"))
    'InDoubt: the outcome of pay on card:/7 is unknown: do not repeat it; say so, or find out first whether it happened'
    """
    if is_a(error, InDoubt):
        tool, scope = error.data.get("tool", "this call"), error.data.get("scope")
        return (
            f"InDoubt: the outcome of {tool}{f' on {scope}' if scope else ''} is unknown: do not repeat it;"
            " say so, or find out first whether it happened"
        )
    if is_a(error, (Undone, DoneBefore)):
        return message_of(error)
    return in_words(error)


def too_late(tool: str, cut: BaseException, transaction: str | None) -> Refused:
    """Return what is told to a call that comes when its turn was stopped."""
    return Refused(
        f"{tool} was called after its turn had been stopped by {kind_of(cut)}: nothing was run, for that turn is over",
        transaction=transaction,
    )


def undone_before(tool: str, *told: str) -> Refused:
    """Return what is told to a call that comes when its turn was undone, and others of it answered, long before."""
    return Refused(
        f"{tool} was not run: its turn was undone before ({'; '.join(told)}); decide again", transaction=None
    )


def not_run(tool: str, told: str) -> Refused:
    """Return what is told to a call that its model issued before it was told what was said to its job.

    >>> str(not_run("book", "ada says (add): a window seat"))
    'book was not run, since something was said while you decided: ada says (add): a window seat; decide again'
    """
    return Refused(
        f"{tool} was not run, since something was said while you decided: {told}; decide again", transaction=None
    )


def not_taken(tool: str, arguments: Mapping[str, Any], *wrong: str) -> UsageError:
    """Return the error for a person's arguments that a tool does not take, with what is wrong about them.

    >>> str(not_taken("mail", {"whom": "ada"}, "it has no 'whom'", "it needs 'to'"))
    "mail does not take {'whom': 'ada'}: it has no 'whom'; it needs 'to'; nothing was run"
    """
    why = f": {'; '.join(wrong)}" if wrong else ""
    return UsageError(f"{tool} does not take {dict(arguments)!r}{why}; nothing was run", tool=tool)


def keeps_its_answer(kind: EffectClass, outcome: Outcome, made: Iterable[Outcome]) -> bool:
    """Return whether a call's answer stays true although its turn was undone.

    Nobody declared the tool, so nothing is taken back of what it did: the model keeps what it returned (a number, say)
    and hears from the call that failed that its turn has; a person hears from the residue what stays. Calls that it
    made itself are undone, and then it is told of them.

    >>> keeps_its_answer(EffectClass.OPAQUE, Outcome.CONFIRMED, ())
    True
    """
    return kind is EffectClass.OPAQUE and outcome is Outcome.CONFIRMED and not any(True for _ in made)


def became(
    tool: str,
    outcome: Outcome,
    *,
    because: str,
    held: bool,
    tag: Tag | None,
    note: str | None,
    made: Iterable[Outcome] = (),
    is_being_undone: bool = False,
) -> str | None:
    """Return in words what became of a call that was answered before its transaction was undone, or None.

    `made` are the outcomes of the calls that it made: those of an agent that it ran, say. What was made in a call
    of a transaction that `is_being_undone` is undone when that call has returned.
    """
    if outcome is Outcome.UNDONE and tag is Tag.CLEAN:
        return f"undone: {tool} had succeeded, and was undone because {because}"
    if outcome in HAPPENED and tag is None and is_being_undone:
        return (
            f"being undone: {tool} had succeeded, and is undone as soon as the call in which it was made has returned,"
            f" because {because}"
        )
    made = list(made)
    if tag is Tag.UNRESOLVED and is_gone(made):
        return (
            f"undone: what {tool} had done by calls of its own was undone because {because}; what else it did, if"
            " anything, stays: settlement.residue()"
        )
    if outcome in HAPPENED or tag is Tag.UNRESOLVED:
        more = f" ({note})" if note else ""
        in_part = tag is Tag.UNRESOLVED and is_gone_in_part(made)
        stays = f"a part of what {tool} had done stays" if in_part else f"{tool} had succeeded and stays"
        return f"could not be undone: {stays}{more}, although {because}; it is on record: settlement.residue()"
    return f"never left: {tool} was held, and dropped because {because}" if held else None


__all__ = [
    "TOLD",
    "DoneBefore",
    "Undone",
    "became",
    "keeps_its_answer",
    "not_run",
    "not_taken",
    "too_late",
    "undone_before",
    "words",
]
