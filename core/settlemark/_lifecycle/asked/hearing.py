"""What is told of an answer that came too late, and what is told to the next of several who have to answer."""

from __future__ import annotations

import logging

from settlemark._acts.effect import Effect
from settlemark._acts.gate import Approval, approval_of
from settlemark._approvals.terms import one_person
from settlemark._edges.errors import UsageError
from settlemark._observe.logs import about
from settlemark._report.questions import AnswerOnRecord

log = logging.getLogger("settlemark")


def warn_late_answer(effect: Effect, said: AnswerOnRecord, late: object) -> None:
    """Log that an answer came too late, and who gave the first."""
    first, approval, told = approval_of(said.answer), None, "none"
    try:
        approval = late if isinstance(late, Approval) else approval_of(late)
        told = approval.decision
    except UsageError as error:
        told = f"which is none: {error}"
    log.log(
        logging.INFO if approval == first else logging.WARNING,
        "%s was answered already, by %s: %s; the later answer (%s) changes nothing",
        effect.key,
        said.by,
        first.decision,
        told,
        extra=about(key=effect.key, tool=effect.declaration.tool),
    )


def one_of_several(effect: Effect, approval: Approval, more: int, heard: set[str | None]) -> str:
    """Return what the next one is told of those before.

    Raises:
        UsageError: this one has answered twice.
    """
    told = f"{effect.key} needs {more} more to say the same: somebody else has to answer"
    if one_person(approval.by) in heard:
        raise UsageError(f"{told}; nothing was run", key=effect.key, by=approval.by)
    heard.add(one_person(approval.by))
    return told


__all__ = ["one_of_several", "warn_late_answer"]
