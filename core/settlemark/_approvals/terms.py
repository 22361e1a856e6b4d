"""Who has to say yes to a call, by when, and who is asked next: what `approve=` of an effect may say."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from settlemark._edges.errors import UsageError
from settlemark._edges.given import several
from settlemark._edges.text import WHO, brief, identity

ROLE = "role:"
MOST = 64
"""Names that one question is put to."""
_FOREVER = 100 * 365 * 86_400.0
_BY = "by= of an Approval"


class Escalation(NamedTuple):
    """Who may answer, too, when nobody has answered for some time.

    Attributes:
        to: names, and roles as `role:finance`.
        after: how many seconds after the question was asked.

    >>> Escalation("cfo", after=86_400).to
    'cfo'
    """

    to: str | tuple[str, ...]
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Who has to say yes to a call, and by when: `approve=` of an effect.

    Attributes:
        by: who may answer: a name, a role as `role:finance`, or several of them; anyone by default.
        quorum: how many different people have to say yes; one no is enough to reject.
        within: for how many seconds the question stands, on the store's clock: unanswered by then, it is a no. None:
            it waits for as long as it takes.
        escalate: who may answer, too, when nobody has for some time: one `Escalation`, or several.
        remind: after how many seconds without an answer those who may answer are told again, and again: see
            `Settlement(channels=…)`.
        when: a function over the tool's arguments that returns whether a call needs a yes; all do by default.

    Raises:
        UsageError: it can never be answered, or a time or a name is none.

    >>> Approval(by=("ada", "role:finance"), quorum=2, within=48 * 3600).by
    ('ada', 'role:finance')
    >>> Approval(by="ada", quorum=2)
    Traceback (most recent call last):
    ...
    settlemark._edges.errors.UsageError: quorum=2 of an Approval, and ada alone may answer: name more, or a role
    """

    by: str | tuple[str, ...] = ()
    quorum: int = 1
    within: float | None = None
    escalate: Escalation | tuple[Escalation, ...] = ()
    remind: float | None = None
    when: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Check it."""
        object.__setattr__(self, "by", names_in(self.by, _BY))
        object.__setattr__(self, "escalate", _steps(self.escalate))
        for what in ("within", "remind"):
            seconds = getattr(self, what)
            if seconds is not None:
                object.__setattr__(self, what, _seconds(seconds, f"{what}="))
        quorum = cast("object", self.quorum)
        if isinstance(quorum, bool) or not isinstance(quorum, int) or not 1 <= quorum <= MOST:
            raise UsageError(
                f"quorum={brief(quorum)} of an Approval: give how many people have to say yes, 1 to {MOST}"
            )
        people = {one_person(name) for name in self.names}
        if self.by and self.quorum > len(people) and not any(name.startswith(ROLE) for name in self.by):
            few = " and ".join(self.by)
            raise UsageError(f"quorum={quorum} of an Approval, and {few} alone may answer: name more, or a role")
        if self.when is not None and not callable(self.when):
            raise UsageError(f"when={brief(self.when)} of an Approval: give a function over the tool's arguments")
        for step in self.steps:
            if self.within is not None and step.after >= self.within:
                raise UsageError(
                    f"an Approval is escalated after {step.after:g} s, and is a no after within={self.within:g} s:"
                    " escalate it earlier"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Who may answer from the start; empty: anyone."""
        return cast("tuple[str, ...]", self.by)

    @property
    def steps(self) -> tuple[Escalation, ...]:
        """Who may answer later on, too, the earliest first."""
        return cast("tuple[Escalation, ...]", self.escalate)


def one_person(name: str | None) -> str | None:
    """Return a name in one form for all that read alike: who bears them is one person, and counts once.

    >>> one_person("Cy ") == one_person("cy")
    True
    """
    if name is None:
        return None
    seen = "".join(each for each in unicodedata.normalize("NFKC", name) if unicodedata.category(each) != "Cf")
    return unicodedata.normalize("NFKC", seen.strip().casefold())


def names_in(given: str | Iterable[str], what: str) -> tuple[str, ...]:
    """Return names and roles, each once.

    Raises:
        UsageError: one of them is none, or there are too many.
    """
    texts: Iterable[object] = (given,) if isinstance(given, str) else given
    if not isinstance(cast("object", texts), Iterable) or isinstance(texts, Mapping | bytes):
        raise UsageError(f"{what} is {brief(given)}: give a name, a role as 'role:finance', or several of them")
    found = tuple(dict.fromkeys(identity(text, f"{what} takes names and roles; this one", WHO) for text in texts))
    if len(found) > MOST:
        raise UsageError(f"{what} has {len(found)} names: {MOST} are the most; use a role")
    if ROLE in found:
        raise UsageError(f"{what} has a role without a name: say which, as in 'role:finance'")
    return found


def _steps(given: Escalation | tuple[Escalation, ...]) -> tuple[Escalation, ...]:
    steps = cast("Iterable[object]", (given,) if isinstance(given, Escalation | str) else several(given, "escalate="))
    found: list[Escalation] = []
    for step in steps:
        if not isinstance(step, Escalation):
            raise UsageError(f'escalate={brief(step)} of an Approval: give Escalation("cfo", after=seconds)')
        to = names_in(step.to, "escalate= of an Approval")
        if not to:
            raise UsageError("escalate= of an Approval names nobody: say to whom")
        found.append(Escalation(to, _seconds(step.after, "after=")))
    if len(found) > MOST:
        raise UsageError(f"escalate= of an Approval has {len(found)} steps: {MOST} are the most")
    return tuple(sorted(found, key=lambda step: step.after))


def _seconds(given: object, what: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise UsageError(f"{what}{brief(given)} of an Approval: give seconds")
    if not math.isfinite(given) or not 0 < given <= _FOREVER:
        raise UsageError(f"{what}{given!r} of an Approval: give seconds, more than 0 and at most 100 years")
    return float(given)


ANYONE = Approval()
"""What is asked for by `approve=True`."""


__all__ = ["ANYONE", "ROLE", "Approval", "Escalation", "names_in", "one_person"]
