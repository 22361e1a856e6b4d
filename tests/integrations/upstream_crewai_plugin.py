"""A pytest plugin that runs inside CrewAI's released tests, and settles every tool that they make.

`UPSTREAM_WITH` says what is put there: "stock" (nothing), or "ours": every class of tools is a settled one when it is
defined, and every function that becomes a tool is a settled one; "reads" is ours where it is told that all tools only
read. `UPSTREAM_REPORT` says where to write how each test ended, and how often something was replaced.
"""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections import Counter
from pathlib import Path

import pytest


class Swap:
    """What the tests are run with, and what they made of it."""

    def __init__(self, report, given) -> None:
        self.report = report
        self.effect = "read" if given == "reads" else None
        self.given = given
        self.made = Counter()
        self.outcomes = {}
        self.failures = {}
        self._settlement = None

    @property
    def settlement(self):
        """One settlement for all that is made: classes outlive a test."""
        from settlemark import Settlement

        if self._settlement is None:
            self._settlement = Settlement("memory:")
        return self._settlement

    def settled(self, found):
        if self.given == "stock":
            return found
        from settlemark_crewai import settled

        return settled(found, settlement=self.settlement, effect=self.effect)

    def functions(self):
        """Every `Tool` runs a settled function, however it is made."""
        from crewai.tools.base_tool import Tool

        build = Tool.__init__

        @functools.wraps(build)
        def build_settled(tool, **given):
            if callable(given.get("func")):
                self.made["Tool"] += 1
                given["func"] = self.settled(given["func"])
            build(tool, **given)

        Tool.__init__ = build_settled

    def classes(self):
        """Every class of tools is settled when it is defined."""
        from crewai.tools import BaseTool

        define = vars(BaseTool)["__init_subclass__"].__func__

        def define_settled(kind, **given):
            define(kind, **given)
            if "_run" in vars(kind) and not kind.__module__.startswith(("crewai.", "settlemark_crewai")):
                self.made["class of tools"] += 1
                self.settled(kind)

        BaseTool.__init_subclass__ = classmethod(define_settled)

    # ---- pytest asks

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
        summary = {"outcomes": self.outcomes, "failures": self.failures, "made": self.made, "not_swapped": []}
        self.report.write_text(json.dumps(summary), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter):
        made = ", ".join(f"{count} x {name}" for name, count in sorted(self.made.items()))
        terminalreporter.write_line(f"{self.given}: {made}")


def pytest_configure(config):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        swap = Swap(Path(os.environ["UPSTREAM_REPORT"]), os.environ["UPSTREAM_WITH"])
        swap.functions()
        swap.classes()
    config.addinivalue_line("markers", "vcr: plays back a recording; left out, for there is no recorder")
    config.pluginmanager.register(swap, "upstream-swap")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown():
    """Have our hooks back: some of these tests clear all there are."""
    if os.environ["UPSTREAM_WITH"] != "stock":
        from settlemark_crewai._hooks import ensure_hooks

        ensure_hooks()
