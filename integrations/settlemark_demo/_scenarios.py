"""What is played on both sides: a pipeline, and a trip under four kinds of weather."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage

from settlemark import Residue, Settlement
from settlemark.ledger import RecordedTransaction
from settlemark_demo import _graph, _tools, _world
from settlemark_demo._evidence import Evidence
from settlemark_demo._world import World

CITY = "Lisbon"
TRAVELLER = "ada@traveller.example"

Rule = dict[str, Any]
"""Keyword arguments of `Provider.fail`, without the trip."""


@dataclass(frozen=True)
class Scenario:
    """One piece of work and the faults it meets; played alike on every side.

    Args:
        name: names the work in every log.
        title: what a reader is told about it.
        faults: what the provider does wrong, for this trip only.
        mail_faults: how the next mails fail, one entry each.
        must_complete: nothing stands in its way for good, so undoing it all is no answer.
    """

    name: str
    title: str
    faults: tuple[Rule, ...] = ()
    mail_faults: tuple[Literal["transient", "permanent", "lost"], ...] = ()
    must_complete: bool = True

    @property
    def in_sequence(self) -> bool:
        """Whether each step needs the one before."""
        return self.name.startswith(_world.PIPELINE)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools in the order in which the model issues them."""
        return _tools.PIPELINE if self.in_sequence else _tools.TRIP

    def turns(self) -> list[AIMessage]:
        """Return what the model says: every call in one turn, then the end."""
        if self.in_sequence:
            because = "Set up the database from nothing, and let users in when all of it stands."
            return _graph.turn(because, [(name, {}) for name in self.tools])
        because = f"Reserve hotel, flight and car in {CITY}, and tell the traveller when all three are booked."
        booked = {"trip": self.name, "city": CITY}
        mail = {"trip": self.name, "to": TRAVELLER}
        return _graph.turn(because, [(name, mail if name == self.tools[-1] else booked) for name in self.tools])


def scenarios(tag: str = "") -> list[Scenario]:
    """Return what the demo plays. `tag` tells this time from others in the same ledger."""
    refused = {"kind": "flight", "when": "before", "on": "book", "times": -1}
    lost = {"kind": "flight", "when": "after", "on": "book", "times": 1}
    stuck = {"kind": "hotel", "when": "before", "on": "cancel", "times": -1}
    return [
        Scenario(f"{_world.PIPELINE}{tag}", "Five steps, each needs the one before; the first takes longest"),
        Scenario(f"trip-well{tag}", "A trip; all goes well"),
        Scenario(f"trip-no-flight{tag}", "The flight is refused for good", (refused,), must_complete=False),
        Scenario(f"trip-lost-answer{tag}", "The flight is booked, and its answer is lost", (lost,)),
        Scenario(
            f"trip-stuck{tag}",
            "The flight is refused for good, and the hotel cannot be cancelled",
            (refused, stuck),
            must_complete=False,
        ),
    ]


@dataclass
class Side:
    """One way to run the graphs, in a world of its own.

    Args:
        label: what a reader knows it by.
        given: what its node was given.
        named: what its user is told is left over.
    """

    label: str
    given: str
    world: World
    make_node: _graph.MakeNode
    named: Callable[[Scenario], frozenset[str]] = field(default=lambda _: frozenset())

    def play(self, scenario: Scenario) -> Evidence:
        """Run a scenario's graph to its end and return what the counterparties logged of it."""
        world = self.world
        for rule in scenario.faults:
            world.provider.fail(**rule, trip=scenario.name)
        for how in scenario.mail_faults:
            world.mailbox.fail(how)
        make = _tools.pipeline_tools if scenario.in_sequence else _tools.trip_tools
        try:
            _graph.converse(scenario.turns(), self.make_node(make(world)), thread=scenario.name)
        finally:
            world.heal()
        return Evidence(
            scenario.tools,
            world.entries(scenario.name),
            self.named(scenario),
            must_complete=scenario.must_complete,
            in_sequence=scenario.in_sequence,
        )


def stock_side(world: World) -> Side:
    """Return the side of LangGraph's own node; nobody tells its user of anything left over."""
    return Side(_graph.STOCK, _graph.STOCK_GIVEN, world, _graph.stock_node)


def settled_side(world: World, settlement: Settlement) -> Side:
    """Return the side of the settled node; its user is told what `settlement.residue()` names."""

    def named(scenario: Scenario) -> frozenset[str]:
        return frozenset(residue.key for residue in residue_of(settlement, scenario))

    return Side(_graph.SETTLED, _graph.SETTLED_GIVEN, world, _graph.settled_node(settlement), named)


def transactions_of(settlement: Settlement, played: list[Scenario]) -> list[RecordedTransaction]:
    """Return what the ledger has of these scenarios, oldest first."""
    runs = {scenario.name for scenario in played}
    return [recorded for recorded in settlement.transactions() if recorded.row.run in runs]


def residue_of(settlement: Settlement, scenario: Scenario) -> list[Residue]:
    """Return what the ledger names as left over by a scenario."""
    names = {recorded.row.name for recorded in transactions_of(settlement, [scenario])}
    return [residue for residue in settlement.residue() if residue.transaction in names]
