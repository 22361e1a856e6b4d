"""What a node's tools do to the world."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from langchain_core.tools import BaseTool

from settlemark import Declaration, EffectClass, Settlement
from settlemark.agents import Declarations, Declared, Learned
from settlemark_langgraph._tools.graphs_within import runs_a_settled_graph

_EXAMPLE = 'SequencedToolNode(…, effects={{"{name}": "read"}})'


class NodeDeclarations:
    """The tools of one node, or agent, with their declarations."""

    def __init__(
        self,
        settlement: Settlement,
        tools: Mapping[str, BaseTool] | None,
        effects: Mapping[str, Declared],
        *,
        settles: bool,
    ) -> None:
        self._declarations = Declarations(
            settlement, effects, names=tools, settles=settles, owner="this node", example=_EXAMPLE
        )
        self._tools: dict[str, BaseTool] = {}
        self._learned: dict[str, Learned] = {}
        self._compared: Collection[str] = ()
        self._agents: dict[str, bool] = {}
        self.learn(tools or {})

    def learn(self, tools: Mapping[str, BaseTool]) -> None:
        """Take in tools that were not known before; of those of one name the last is known by that."""
        for name, tool in tools.items():
            if self._tools.get(name) is not tool:
                self._learned[name] = self._learn(name, tool, None)
                self._tools[name] = tool
                self._agents.pop(name, None)

    def _learn(self, name: str, tool: BaseTool, effect: Declared | None) -> Learned:
        places = places_of(tool)
        function = next((place for place in places[:2] if place is not None), None)
        return self._declarations.learn(name, function, declared_on=places, arguments=tuple(tool.args), effect=effect)

    def learn_all(self, tools: Mapping[str, BaseTool]) -> None:
        """Take in all tools of an agent.

        Raises:
            DeclarationError: `effects=` has the name of one mistyped; nothing was run.
        """
        if tools.keys() != self._compared:
            self._declarations.refuse_typos(tools, "this agent")
            self._compared = tools.keys()
        self.learn(tools)

    def tool(self, name: str) -> BaseTool | None:
        """Return the tool of this name, if there is one."""
        return self._tools.get(name)

    @property
    def names(self) -> list[str]:
        """The tools' names."""
        return list(self._tools)

    def runs_an_agent(self, name: str) -> bool:
        """Whether nobody has said what a tool does, and it runs a graph that settles: that tells it, call by call."""
        if name not in self._agents:
            tool, kind = self.tool(name), self.of(name).kind
            self._agents[name] = tool is not None and kind is EffectClass.OPAQUE and runs_a_settled_graph(tool)
        return self._agents[name]

    def of(self, name: str) -> Declaration:
        """Return a tool's declaration; of an undeclared one it is said once how to declare it."""
        return self._declarations.of(self._learned.get(name, name))

    def of_tool(self, tool: BaseTool, effect: Declared | None = None) -> Declaration:
        """Return the declaration of this very tool, of which this was said, also where another one has its name."""
        if effect is None and self._tools.get(tool.name) is tool:
            return self._declarations.of(self._learned[tool.name])
        learned = self._learn(tool.name, tool, effect)
        self._tools[tool.name], self._learned[tool.name] = tool, learned
        return self._declarations.of(learned)


def places_of(tool: BaseTool) -> tuple[Any, ...]:
    """Return where `@effect` may have left a tool's declaration: its functions, and its class."""
    return (getattr(tool, "func", None), getattr(tool, "coroutine", None), type(tool))


__all__ = ["Declared", "NodeDeclarations", "places_of"]
