"""A pytest plugin that runs inside LangGraph's own tests and puts another class where `ToolNode` was.

It reads `UPSTREAM_SWAP` (`package:Class`, or empty for the stock class) and writes to `UPSTREAM_REPORT`
how each test ended, how many nodes were built, and which modules still held the class that was replaced.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from pathlib import Path

HOLDERS = ("langgraph.prebuilt", "langgraph.prebuilt.tool_node", "langgraph.prebuilt.chat_agent_executor")


class Swap:
    """The class under test in the place of `ToolNode`, and what the tests made of it."""

    def __init__(self, replacement, report) -> None:
        self.replacement = replacement
        self.report = report
        self.outcomes = {}
        self.failures = {}
        self.constructed = 0
        self.stock = None

    def install(self):
        holders = [importlib.import_module(name) for name in HOLDERS]
        self.stock = node = holders[0].ToolNode
        if self.replacement:
            package, name = self.replacement.split(":")
            node = getattr(importlib.import_module(package), name)
            for holder in holders:
                holder.ToolNode = node
        build = node.__init__

        @functools.wraps(build)
        def count_and_build(*args, **kwargs):
            self.constructed += 1
            build(*args, **kwargs)

        node.__init__ = count_and_build

    def not_swapped(self):
        if not self.replacement:
            return []
        modules = [(name, module) for name, module in sys.modules.items() if module is not None]
        return sorted(
            name
            for name, module in modules
            if name.split(".")[0] in {"langgraph", "tests"} and vars(module).get("ToolNode") is self.stock
        )

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
            "constructed": self.constructed,
            "not_swapped": self.not_swapped(),
        }
        self.report.write_text(json.dumps(summary), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.write_line(f"{self.replacement or 'ToolNode'}: {self.constructed} instances constructed")


def pytest_configure(config):
    swap = Swap(os.environ.get("UPSTREAM_SWAP"), Path(os.environ["UPSTREAM_REPORT"]))
    swap.install()
    config.pluginmanager.register(swap, "upstream-swap")
