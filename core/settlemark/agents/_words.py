"""What a model is told of an error: what became of its call, and what it is to do now."""

from __future__ import annotations

from settlemark._edges.errors import InDoubt, KeyConflict, PartialCommit, Refused, UsageError
from settlemark._edges.wording import in_words, is_a, message_of

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


__all__ = ["TOLD", "DoneBefore", "Undone", "words"]
