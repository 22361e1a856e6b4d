"""Isolation: one guard for each anomaly, each of which can be switched off alone.

Source: the anomaly paper, sections 4 and 5: the four are independent, so a level is a choice of guards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, cast, get_args

from settlemark._edges.errors import UsageError
from settlemark._model.level import Level, point_named

Reads = Literal["settled", "early"]
Tools = Literal["checked", "pinned"]
Order = Literal["turn", "scopes", "issued", "none"]
"""The order kept between the calls of a turn; see `Turn`."""


class Guards(NamedTuple):
    """The guards of a transaction; by default all are on.

    Attributes:
        current: commit only if everything read is still current, and after all older holders of its scopes (A1).
        reads: `settled` reads wait for uncommitted work; `early` reads do not, and the reader is aborted with the work
            it saw (A3); `any`, the guard off, reads what is there.
        ordered: the calls of a turn act in the order in which they were issued (A6).
        tools: a planned tool is `checked` for removal and change, or `pinned` and checked for removal alone (A2);
            `any`, the guard off, is not checked.
    """

    current: bool = True
    reads: Literal["settled", "early", "any"] = "settled"
    ordered: bool = True
    tools: Literal["checked", "pinned", "any"] = "checked"

    def against(self, prevent: Level | Iterable[str]) -> Guards:
        """Return these guards, on for the anomalies named (or a level's) and off for all others.

        Raises:
            UsageError: there is no such level, or no such anomaly.

        >>> sorted(set(ALL_ON.against({"A6"})) - {True, False})
        ['any']
        """
        point = point_named(prevent)
        return Guards(
            current="A1" in point,
            reads=("settled" if self.reads == "any" else self.reads) if "A3" in point else "any",
            ordered="A6" in point,
            tools=("checked" if self.tools == "any" else self.tools) if "A2" in point else "any",
        )

    def order(self, order: Order) -> Order:
        """Return the order in force when this one was asked for."""
        return order if self.ordered else "none"


ALL_ON = Guards()


def guards_for(prevent: Level | Iterable[str], *, reads: Reads = "settled", tools: Tools = "checked") -> Guards:
    """Return the guards against a level's anomalies, or against those named.

    Raises:
        UsageError: there is no such level, anomaly or choice; or a choice is made for a guard that is off.

    >>> guards_for(Level.L1)
    Guards(current=True, reads='any', ordered=False, tools='any')
    """
    point = point_named(prevent)
    _checked("reads", reads, get_args(Reads))
    _checked("tools", tools, get_args(Tools))
    for name, chosen, anomaly in (("reads", reads != "settled", "A3"), ("tools", tools != "checked", "A2")):
        if chosen and anomaly not in point:
            raise UsageError(
                f"{name}= says how {anomaly} is prevented, and prevent= leaves {anomaly} out: add it, or drop {name}="
            )
    return Guards(reads=reads, tools=tools).against(point)


def checked_order(order: object) -> Order:
    """Return a valid `order=`, or refuse it.

    Raises:
        UsageError: there is no such order.
    """
    if order not in get_args(Order):
        raise UsageError(
            f'order={order!r}: choose "turn" (calls that run at once; held ones last), "scopes" (calls on'
            ' overlapping scopes), "issued" (all calls, also behind an irreversible one) or "none"'
        )
    return cast("Order", order)


def _checked(name: str, chosen: object, known: tuple[Any, ...]) -> None:
    if chosen not in known:
        told = " or ".join(f'"{cast("str", each)}"' for each in known)
        raise UsageError(f"{name}={chosen!r}: choose {told}")


__all__ = ["ALL_ON", "Guards", "Order", "Reads", "Tools", "checked_order", "guards_for"]
