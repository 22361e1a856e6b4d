from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sqlite3
import sys
from collections import Counter
from importlib.metadata import EntryPoint

import pytest

for _needed in ("langgraph", "aiosmtpd", "matplotlib"):
    pytest.importorskip(_needed)

from rich.console import Console
from typer.testing import CliRunner

from settlemark import Settlement
from settlemark import _cli as cli
from settlemark_demo import _command, _plot, _report, _scenarios, _trials
from settlemark_demo._evidence import Entry, Evidence
from settlemark_demo._world import two_worlds
from tests.integrations.demo import fakes


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    stock, settled = two_worlds(folder)
    settlement = Settlement(f"sqlite:///{folder / 'ledger.db'}", on_failure="retry")
    with stock, settled, settlement:
        yield _scenarios.stock_side(stock), _scenarios.settled_side(settled, settlement)
