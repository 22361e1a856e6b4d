"""A read that is compared, before anything settles on it, with what is outside by then."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from settlemark._model.scope import Scope


@dataclass(slots=True, eq=False)
class LiveRead:
    """One read, and how to tell whether it still holds.

    Attributes:
        what: the same for the same read made again: what was seen first counts.
        fetch: returns its resource's ETag or digest as it is now; None: only its age counts.
        seen: what that was when it was read.
        expires: on the monotonic clock; None for never.
        overwritten: its own transaction has changed the resource since: the digest is no longer to be compared.
    """

    what: Hashable
    scopes: tuple[Scope, ...]
    fetch: Callable[[], Any] | None
    seen: Any
    expires: float | None
    valid_for: float | None
    overwritten: bool = False

    def about(self, scopes: Iterable[Scope]) -> bool:
        """Whether it reads what overlaps one of these."""
        return any(ours.overlaps(theirs) for ours in self.scopes for theirs in scopes)
