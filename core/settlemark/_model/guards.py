"""What keeps a transaction from others: one guard for each anomaly, and each may be left off without the others.

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
"""What the calls of a turn are kept in; see `Turn`."""


class Guards(NamedTuple):
    """The guards of a transaction; by default all are on.

    Attributes:
        current: it commits only if all it has read still stands, and behind all older ones on its scopes (A1).
        reads: reads wait for what is settled; or are `early`, and it ends as those end whose work it saw (A3); or, with
            the guard off, see what is there (`any`).
        ordered: the calls of a turn act in the order in which they were issued (A6).
        tools: what it has planned is called as it was then: `checked` for removal and change, or for removal alone when
            it was `pinned` (A2); or, with the guard off, whatever became of it (`any`).
    """

    current: bool = True
    reads: Literal["settled", "early", "any"] = "settled"
    ordered: bool = True
    tools: Literal["checked", "pinned", "any"] = "checked"

    def against(self, prevent: Level | Iterable[str]) -> Guards:
        """Return these guards, on against a level's anomalies or those named and off against others.

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
        """Return the order that the calls of a turn are kept in, where this one was asked for."""
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
    """Return it, if there is such an order.

    Raises:
        UsageError: there is not.
    """
    if order not in get_args(Order):
        raise UsageError(
            f'order={order!r}: choose "turn" (all that run at once, what is held last), "scopes" (those on overlapping'
            ' scopes) or "issued" (all, also behind what is held and cannot be undone); "none" keeps none'
        )
    return cast("Order", order)


def _checked(name: str, chosen: object, known: tuple[Any, ...]) -> None:
    if chosen not in known:
        told = " or ".join(f'"{cast("str", each)}"' for each in known)
        raise UsageError(f"{name}={chosen!r}: choose {told}")


__all__ = ["ALL_ON", "Guards", "Order", "Reads", "Tools", "checked_order", "guards_for"]
