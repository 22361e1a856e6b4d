"""Random faults that a patient caller survives: `settlemark demo --faults` draws from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

Fault = Literal["before", "after", "undo", "duplicate", "timeout"]

_FAULTS: tuple[Fault, ...] = ("before", "after", "undo", "duplicate", "timeout")
_MOST_FAILURES = 2


class FaultRule(TypedDict):
    """The arguments of `Provider.fail`: `provider.fail(**rule)`."""

    kind: str
    when: Literal["before", "after", "timeout", "duplicate"]
    on: Literal["book", "cancel", "any"]
    times: int
    trip: str | None


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Faults drawn with probability `rate` a call, from a `random.Random` that the caller has seeded.

    A fault strikes before the effect, after it (the answer is lost), in the undo, as a duplicate delivery, or as a
    timeout.

    Laws: every fault is transient: a repeated call succeeds by its third try. The same seed gives the same plan; a
    higher rate only adds faults to it.

    Raises:
        ValueError: `rate` is not between 0 and 1.

    >>> import random
    >>> FaultPlan(1.0, random.Random(7)).for_call("hotel", trip="trip-1")
    {'kind': 'hotel', 'when': 'after', 'on': 'book', 'times': 2, 'trip': 'trip-1'}
    >>> FaultPlan(0.0, random.Random(7)).for_trip(["hotel", "flight", "car"])
    []
    """

    rate: float
    random: random.Random

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ValueError(f"a fault rate is a probability between 0 and 1, not {self.rate}")

    def for_call(self, kind: str, *, trip: str | None = None) -> FaultRule | None:
        """The fault that one call of `kind` meets, as a rule for `Provider.fail`; None for no fault."""
        # Always three draws: so plans of different rates stay comparable, call by call.
        chance = self.random.random()
        fault = self.random.choice(_FAULTS)
        times = self.random.randint(1, _MOST_FAILURES)
        if chance >= self.rate:
            return None
        if fault == "undo":
            return {"kind": kind, "when": "before", "on": "cancel", "times": times, "trip": trip}
        if fault == "duplicate":
            times = 1
        return {"kind": kind, "when": fault, "on": "book", "times": times, "trip": trip}

    def for_trip(self, kinds: Iterable[str], *, trip: str | None = None) -> list[FaultRule]:
        """The faults of a whole trip, one draw for each kind in order."""
        drawn = [self.for_call(kind, trip=trip) for kind in kinds]
        return [rule for rule in drawn if rule is not None]
