"""The scenarios played on both sides: a pipeline, and a trip under four kinds of faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage

from settlemark import Residue, Settlement
from settlemark.ledger import RecordedTransaction
from settlemark_demo import _graph, _tools, _turns, _world
from settlemark_demo._evidence import Evidence
from settlemark_demo._live import LiveModel
from settlemark_demo._world import World

CITY = "Lisbon"
TRAVELLER = "ada@traveller.example"

Rule = dict[str, Any]
"""Keyword arguments of `Provider.fail`, without the trip."""


@dataclass(frozen=True)
class Scenario:
    """One piece of work and the faults it meets; the same on every side.

    Args:
        name: names the work in every log.
        title: its description for a reader.
        faults: what the provider does wrong, for this trip only.
        mail_faults: how the next mails fail, one entry each.
        must_complete: nothing stands in its way for good, so undoing everything counts as a failure.
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

    @property
    def because(self) -> str:
        """Its description, in a sentence."""
        if self.in_sequence:
            return "Set up the database from nothing, and let users in when all of it stands."
        return f"Reserve hotel, flight and car in {CITY}, and tell the traveller when all three are booked."

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Its calls, in order."""
        if self.in_sequence:
            return [(name, {}) for name in self.tools]
        booked = {"trip": self.name, "city": CITY}
        mail = {"trip": self.name, "to": TRAVELLER}
        return [(name, mail if name == self.tools[-1] else booked) for name in self.tools]

    def turns(self) -> list[AIMessage]:
        """Return the scripted model's turns: every call in one turn, then the end."""
        return _graph.turn(self.because, self.calls)

    @property
    def prompt(self) -> str:
        """The prompt for a live model."""
        told = "" if self.in_sequence else f" The trip is called {self.name}, the traveller is {TRAVELLER}."
        return (
            f"{self.because}{told} Call {', '.join(self.tools)}: all of them in one turn, in this order."
            " They are carried out in the order in which you call them."
            " When you have their answers, say in one sentence what stands now, and call nothing more."
        )

    def must_complete_after(self, earlier: Sequence[_turns.Call], calls: Sequence[_turns.Call]) -> bool:
        """Whether nothing stands in the way of a live model's calls, after its earlier ones."""
        wanted = dict(self.calls)
        as_asked = all(call.arguments == wanted.get(call.tool) for call in calls)
        made = [call.tool for call in (*earlier, *calls)]
        return self.must_complete and as_asked and (not self.in_sequence or made == [*self.tools[: len(made)]])


def scenarios(tag: str = "") -> list[Scenario]:
    """Return the demo's scenarios. `tag` makes their names new to a ledger."""
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
        label: its name for a reader.
        given: its node's configuration.
        named: what its user is told is left over.
    """

    label: str
    given: str
    world: World
    make_node: _graph.MakeNode
    named: Callable[[Scenario], frozenset[str]] = field(default=lambda _: frozenset())

    def play(self, scenario: Scenario, live: LiveModel | None = None) -> Evidence:
        """Run a scenario's graph to its end and return what the counterparties logged of it.

        Raises:
            ModelFailed: the live model was asked, and gave no answer.
        """
        world = self.world
        for rule in scenario.faults:
            # A live model chooses its trip's name; the faults strike whatever it chooses.
            world.provider.fail(**rule, trip=scenario.name if live is None else None)
        for how in scenario.mail_faults:
            world.mailbox.fail(how)
        make = _tools.pipeline_tools if scenario.in_sequence else _tools.trip_tools
        tools = make(world)
        node = self.make_node(tools)
        began = time.time()
        try:
            if live is None:
                model = _graph.ScriptedModel(turns=scenario.turns())
                _graph.converse(model.invoke, node, thread=scenario.name)
            else:
                said = _graph.converse(
                    live.with_tools(tools), node, thread=scenario.name, prompt=scenario.prompt, limits=live.limits
                )
                return _turns.ByTurn.of(
                    _turns.turns_of(said),
                    world.entries_since(began),
                    self.named(scenario),
                    must_complete=scenario.must_complete_after,
                    in_sequence=scenario.in_sequence,
                    stopped=_turns.stopped_by(said),
                )
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
    """Return the side of LangGraph's own node, which reports nothing as left over."""
    return Side(_graph.STOCK, _graph.STOCK_GIVEN, world, _graph.stock_node)


def settled_side(world: World, settlement: Settlement) -> Side:
    """Return the side of the settled node; its user is told what `settlement.residue()` names."""

    def named(scenario: Scenario) -> frozenset[str]:
        return frozenset(residue.key for residue in residue_of(settlement, scenario))

    return Side(_graph.SETTLED, _graph.SETTLED_GIVEN, world, _graph.settled_node(settlement), named)


def transactions_of(settlement: Settlement, played: list[Scenario]) -> list[RecordedTransaction]:
    """Return the ledger's transactions of these scenarios, oldest first."""
    runs = {scenario.name for scenario in played}
    return [recorded for recorded in settlement.transactions() if recorded.row.run in runs]


def residue_of(settlement: Settlement, scenario: Scenario) -> list[Residue]:
    """Return what the ledger names as left over by a scenario."""
    names = {recorded.row.name for recorded in transactions_of(settlement, [scenario])}
    return [residue for residue in settlement.residue() if residue.transaction in names]
