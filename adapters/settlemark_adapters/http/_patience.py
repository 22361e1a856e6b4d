"""How often a busy server is asked again, and how long that may take."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from threading import TIMEOUT_MAX


@dataclass(frozen=True)
class Patience:
    """When a request is sent again, by the status of its answer.

    A request that may have been done is sent again only where that is safe: a read, or under the same key.

    Attributes:
        tries: how often in all.
        first: seconds before the first repeat, unless the server gives some with `Retry-After`.
        factor: how much longer each following pause is.
        most: the longest pause; a server that wants a longer one is not waited for.
        statuses: those after which the request is tried again.

    >>> [Patience(first=1.0, most=3.0).pause(failures) for failures in (1, 2, 3)]
    [1.0, 2.0, 3.0]
    """

    tries: int = 3
    first: float = 0.5
    factor: float = 2.0
    most: float = 20.0
    statuses: frozenset[int] = frozenset({408, 425, 429, 502, 503, 504})

    def __post_init__(self) -> None:
        fits = self.tries >= 1 and 0 <= self.first < inf and 1 <= self.factor < inf and 0 <= self.most <= TIMEOUT_MAX
        if not fits:  # so that a NaN does not
            raise ValueError(f"{self}: try once at least, and pause no negative time")

    def pause(self, failures: int) -> float:
        """Return how long to wait after so many failures."""
        try:
            return min(self.first * self.factor ** (failures - 1), self.most)
        except OverflowError:
            return self.most

    def longest(self, timeout: float) -> float:
        """Return the seconds within which every try of a call has begun."""
        return self.tries * (self.most + timeout)
