"""A pytest plugin that runs inside AutoGen's released tests, and puts ours in the place of theirs.

`UPSTREAM_WITH` says what is put there: "stock" (nothing), "workbench", "client", or "ours", which is both. Every
`AssistantAgent` is given it when it is made, and in the tests of workbenches every static workbench is a settled one.
`UPSTREAM_REPORT` says where to write how each test ended, and how often something was replaced.
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from pathlib import Path

import pytest

WORKBENCHES = ("StaticWorkbench", "StaticStreamWorkbench")


class Swap:
    """What the tests are run with, and what they made of it."""

    def __init__(self, report, suite, given) -> None:
        self.suite = suite
        self.report = report
        self.given = given
        self.made = Counter()
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

    def agents(self):
        """Every agent gets a settled workbench, and a settled client, as it is made."""
        from autogen_agentchat.agents import AssistantAgent

        build = AssistantAgent.__init__

        @functools.wraps(build)
        def build_settled(agent, *args, **kwargs):
            build(agent, *args, **kwargs)
            self.made["AssistantAgent"] += 1
            from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench

            if any(isinstance(one, SettledWorkbench) for one in agent._workbench):
                return  # it is loaded from the configuration of one that was made here
            if self.given in ("workbench", "ours"):
                self.settle_workbenches(agent)
            if self.given in ("client", "ours"):
                run = f"{agent.name}-{self.made['AssistantAgent']}"
                made = SettledChatCompletionClient(agent._model_client, self.settlement, run=run, unsettled="allow")
                agent._model_client = made

        AssistantAgent.__init__ = build_settled

    def settle_workbenches(self, agent):
        from settlemark.agents import AgentRun
        from settlemark_autogen import SettledWorkbench

        job = AgentRun(self.settlement, f"{agent.name}-{self.made['AssistantAgent']}")
        agent._workbench = [
            SettledWorkbench(one, self.settlement, run=job, unsettled="allow") for one in agent._workbench
        ]

    def workbenches(self, modules):
        """In the tests of workbenches, what they make is settled."""
        for module in modules:
            for name in WORKBENCHES:
                if hasattr(module, name):
                    setattr(module, name, self.settled(getattr(module, name)))

    def settled(self, stock):
        from settlemark_autogen import SettledWorkbench

        swap = self

        class Settled(SettledWorkbench):
            def __init__(self, tools, tool_overrides=None) -> None:
                swap.made["workbench"] += 1
                inner, run = stock(tools, tool_overrides), f"run-{swap.made['workbench']}"
                super().__init__(inner, swap.settlement, run=run, unsettled="allow")

        return Settled

    # ---- pytest asks

    def pytest_collection_finish(self, session):
        if self.suite == "workbenches" and self.given != "stock":
            self.workbenches({item.module for item in session.items})

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self):
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
        summary = {"outcomes": self.outcomes, "failures": self.failures, "made": self.made, "not_swapped": []}
        self.report.write_text(json.dumps(summary), encoding="utf-8")


def pytest_configure(config):
    swap = Swap(Path(os.environ["UPSTREAM_REPORT"]), os.environ["UPSTREAM_SUITE"], os.environ["UPSTREAM_WITH"])
    if swap.suite == "agents":
        swap.agents()
    config.pluginmanager.register(swap, "upstream-swap")
