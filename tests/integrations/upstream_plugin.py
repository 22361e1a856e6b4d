"""A pytest plugin that runs inside the released tests of LangGraph and LangChain, and puts ours in the place of theirs.

`UPSTREAM_SUITE` says what those tests are about, and `UPSTREAM_REPORT` where to write how each test ended and what was
replaced. `UPSTREAM_WITH` says with what: "stock" (it is only counted how often theirs is made), "ours", or one of three
that tell why a test ends otherwise with ours: "bystander", a middleware of LangChain's that settles nothing and hands
all on; "reads", ours where it is told that all tools only read; and "apart", ours with a settlement for each call.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

TOOL_NODE = ("langgraph.prebuilt", "langgraph.prebuilt.tool_node", "langgraph.prebuilt.chat_agent_executor")
AGENT = ("langchain.agents", "langchain.agents.factory")
SAVERS = ("sync_checkpointer", "async_checkpointer")
RECORDINGS = ("vcr", "langchain_tests", "langchain_tests.conftest")
SERVERS = ("redis",)


class Swap:
    """What the tests of one suite are run with, and what they made of it."""

    def __init__(self, report, given) -> None:
        self.report = report
        self.given = given
        self.ours = given != "stock"
        self.made = Counter()
        self.stock = {}
        self.where = {"langgraph", "tests"}
        self.outcomes = {}
        self.failures = {}
        self._settlement = None

    @property
    def settlement(self):
        """One settlement for all that a test builds, and a new one for the next test."""
        from settlemark import Settlement

        if self._settlement is None:
            self._settlement = Settlement("memory:")
        return self._settlement

    def replace(self, name, holders, make):
        """Put `make(stock)` in the place of what the holders hold under this name."""
        modules = [importlib.import_module(holder) for holder in holders]
        self.stock[name] = stock = getattr(modules[0], name)
        replacement = make(stock)
        for module in modules:
            setattr(module, name, replacement)

    def count_made(self, kind):
        build = kind.__init__

        @functools.wraps(build)
        def count_and_build(*args, **kwargs):
            self.made["ToolNode"] += 1
            build(*args, **kwargs)

        kind.__init__ = count_and_build

    def tool_nodes(self, *, settles, each=False):
        """`ToolNode` becomes `SequencedToolNode`, with a settlement if it settles; with `each`, each with its own."""

        def ours(stock):
            if not self.ours:
                return stock
            from settlemark_langgraph import SequencedToolNode

            if not settles:
                return SequencedToolNode

            class SettledToolNode(SequencedToolNode):
                def __init__(node, tools, *args, **kwargs):  # noqa: N805 - `self` is the swap
                    if each:
                        self.close()
                    if self.given == "reads":
                        kwargs["effects"] = self.reads(tools)
                    node.another = functools.partial(SettledToolNode, tools, *args, **kwargs)
                    super().__init__(tools, *args, settlement=self.settlement, **kwargs)

                def invoke(node, *args, **kwargs):  # noqa: N805
                    return (super() if self.given != "apart" else super(SettledToolNode, node.another())).invoke(
                        *args, **kwargs
                    )

            return SettledToolNode

        self.replace("ToolNode", TOOL_NODE, ours)
        self.count_made(importlib.import_module(TOOL_NODE[0]).ToolNode)

    def agents(self):
        """Every `create_agent` is given a `SettlementMiddleware` before its own middleware."""

        def ours(stock):
            @functools.wraps(stock)
            def create_agent(*args, middleware=(), **kwargs):
                self.made["create_agent"] += 1
                first = self.middleware(kwargs.get("tools") or ())
                return stock(*args, middleware=[*first, *middleware], **kwargs)

            return create_agent

        self.replace("create_agent", AGENT, ours)
        self.where = {"langchain", "tests"}

    def middleware(self, tools):
        if not self.ours:
            return []
        if self.given == "bystander":
            return [bystander()]
        from settlemark_langgraph import SettlementMiddleware

        return [SettlementMiddleware(self.settlement, effects=self.reads(tools) if self.given == "reads" else None)]

    @staticmethod
    def reads(tools) -> dict[str, str]:
        return {name: "read" for tool in tools if (name := getattr(tool, "name", getattr(tool, "__name__", None)))}

    def checkpointers(self):
        """Every checkpointer that a graph is compiled with becomes a `settled_checkpointer`."""
        from langgraph.checkpoint.base import BaseCheckpointSaver
        from langgraph.pregel import Pregel

        build = Pregel.__init__
        names = inspect.signature(build)

        @functools.wraps(build)
        def build_settled(*args, **kwargs):
            given = names.bind_partial(*args, **kwargs).arguments.get("checkpointer")
            if isinstance(given, BaseCheckpointSaver):
                kwargs["checkpointer"] = self.settled(given)
            build(*args, **kwargs)

        Pregel.__init__ = build_settled

    def settled(self, saver):
        self.made["checkpointer"] += 1
        if not self.ours:
            return saver
        from settlemark_langgraph import settled_checkpointer

        return settled_checkpointer(saver, self.settlement)

    def not_swapped(self):
        """Who still holds what was replaced."""
        if not self.ours:
            return []
        modules = [(name, module) for name, module in sys.modules.items() if module is not None]
        return sorted(
            f"{module_name}.{name}"
            for module_name, module in modules
            for name, stock in self.stock.items()
            if module_name.split(".")[0] in self.where and vars(module).get(name) is stock
        )

    # ---- pytest asks

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self):
        self.close()

    def close(self):
        settlement, self._settlement = self._settlement, None
        if settlement is not None:
            settlement.close()

    def pytest_collectreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid] = "not collected"
            self.failures[report.nodeid] = report.longreprtext

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or not report.passed:
            self.outcomes[report.nodeid] = (
                report.outcome if report.when == "call" else f"{report.when} {report.outcome}"
            )
        if report.failed:
            self.failures[report.nodeid] = report.longreprtext

    def pytest_sessionfinish(self):
        summary = {
            "outcomes": self.outcomes,
            "failures": self.failures,
            "made": self.made,
            "not_swapped": self.not_swapped(),
        }
        self.report.write_text(json.dumps(summary), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter):
        made = ", ".join(f"{count} x {name}" for name, count in sorted(self.made.items()))
        terminalreporter.write_line(f"{self.given}: {made}")


class Fixtures:
    """Checkpointers that the tests are given are settled ones, too."""

    def __init__(self, swap) -> None:
        self.swap = swap

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        saver = yield
        if fixturedef.argname not in SAVERS:
            return saver
        _, *rest = fixturedef.cached_result
        settled = self.swap.settled(saver)
        fixturedef.cached_result = (settled, *rest)
        return settled


def bystander():
    from langchain.agents.middleware import AgentMiddleware

    class Bystander(AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            return handler(request)

        async def awrap_tool_call(self, request, handler):
            return await handler(request)

        def wrap_model_call(self, request, handler):
            return handler(request)

        async def awrap_model_call(self, request, handler):
            return await handler(request)

    return Bystander()


class StandIn(ModuleType):
    """A module that the tests' conftest imports for what is not run here: recordings of models, and servers."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Recording:
    """The hook of the plugin that plays recordings back."""

    def pytest_recording_configure(self, config, vcr):
        """It is told of the recorder."""


def stand_in_for(names):
    for name in names:
        if name not in sys.modules and find_spec(name) is None:
            sys.modules[name] = StandIn(name)


def pytest_addhooks(pluginmanager):
    stand_in_for((*RECORDINGS, *SERVERS))
    if isinstance(sys.modules.get("vcr"), StandIn):
        pluginmanager.add_hookspecs(Recording())


def pytest_configure(config):
    swap = Swap(Path(os.environ["UPSTREAM_REPORT"]), os.environ["UPSTREAM_WITH"])
    suite = os.environ["UPSTREAM_SUITE"]
    if suite == "tool node":
        swap.tool_nodes(settles=False)
    elif suite == "settled tool node":
        swap.tool_nodes(settles=True, each=True)
    elif suite == "agents":
        swap.agents()
    elif suite == "graphs":
        swap.tool_nodes(settles=True)
        swap.checkpointers()
        config.pluginmanager.register(Fixtures(swap), "upstream-fixtures")
    else:
        raise ValueError(suite)
    config.pluginmanager.register(swap, "upstream-swap")
