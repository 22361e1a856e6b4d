"""An adapter is cheap to write: one tool alone takes at most 22 lines, as the formatter lays them out."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys

import settlemark_adapters
from settlemark_adapters import Adapter, operation
from settlemark_adapters.testing import declaration_cost

MOST = 22


def _shipped():
    """The adapters of the package; one whose dependency is missing is counted where it is installed."""
    found = {}
    for module in pkgutil.walk_packages(settlemark_adapters.__path__, "settlemark_adapters."):
        if ".testing" in module.name:
            continue
        try:
            members = vars(importlib.import_module(module.name))
        except ImportError:
            continue
        for member in members.values():
            if inspect.isclass(member) and issubclass(member, Adapter) and member.__module__ == module.name:
                found[member.__qualname__] = member
    del found["Adapter"]
    return found


def test_the_declaration_of_each_shipped_tool_has_at_most_22_lines_of_its_own():
    costs = {name: declaration_cost(adapter) for name, adapter in sorted(_shipped().items())}
    table = [f"{name}.{cost.tool}".ljust(45) + str(cost) for name, of_it in costs.items() for cost in of_it]
    sys.stdout.write("\n".join(["lines of their own", *table]))
    counted = [cost.lines for of_it in costs.values() for cost in of_it]
    assert counted
    assert max(counted) <= MOST, "\n".join(table)


class Counted(Adapter):
    """What is counted of it is said beside each tool."""

    def _shared(self, name):
        return f"thing:/{name}"

    def _own(self, name, key):
        """Two lines: the signature, and the one beneath this."""
        # This one is not counted,
        return (name, key)

    def _long(
        self,
        name,
    ):
        first = name

        return [
            first,
        ]

    @operation("short", "read", scope=_shared)
    def short(self, name: str) -> str:
        """Cost one line: the decorator; who shares a handler has not written it alone."""
        return name

    @operation(
        "long",
        "reversible",
        scope=_shared,
        undo=_long,  # and nor is this
        probe=_own,
        keyed=True,
    )
    def long(self, name: str) -> str:
        """Cost eight, and seven, and two."""
        return name


def test_what_is_counted_is_the_decorator_and_the_handlers_that_no_other_tool_names():
    assert [(cost.tool, cost.decorator, cost.handlers, cost.lines) for cost in declaration_cost(Counted)] == [
        ("short", 1, {}, 1),
        ("long", 8, {"_long": 8, "_own": 2}, 18),
    ]


def test_a_subclass_costs_what_its_tools_cost_wherever_they_are_written():
    class Child(Counted):
        @operation("more", "read", scope="thing:/{name}")
        def more(self, name: str) -> str:
            """Say more."""
            return name

    assert [(cost.tool, cost.lines) for cost in declaration_cost(Child)] == [("short", 1), ("long", 18), ("more", 1)]
