"""Stores for programs that are killed, and a process that does nothing but what the program says."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from tests.core.crashes.sweep import Files, Namespaces
from tests.rooms.api import host
from tests.rooms.record import tables
from tests.rooms.replica import QueuedStep, SqlLedger, StepQueue
from tests.rooms.runtime import Maintenance, Prober
from tests.servers import _roomy_memory

FULL = os.environ.get("SETTLEMARK_CRASHES") == "full"


class Still(Maintenance):
    """Tends nothing: what is left stays left until the test says otherwise."""

    def start(self):
        pass


class StillProber(Prober):
    """Asks nobody again."""

    def tell(self):
        pass


@pytest.fixture
def still(monkeypatch, caplog):
    """Threads of a settlement do nothing unasked, so that each run sends the same statements in the same order.

    What nobody waits for goes with the next step; a kill finds it lost, if it may be lost.
    """
    monkeypatch.setattr(host, "Maintenance", Still)
    monkeypatch.setattr(host, "Prober", StillProber)
    caplog.set_level(logging.CRITICAL, logger="settlemark")  # every doubt is logged, and there are thousands

    def later(queue, step):
        queue.steps.append(QueuedStep(step, None, durable=False))

    monkeypatch.setattr(StepQueue, "later", later)


@pytest.fixture
def hasty(still, monkeypatch):
    """The other extreme: what nobody waits for is on record at once, in a commit of its own."""
    monkeypatch.setattr(SqlLedger, "later", lambda ledger, step: ledger.now(step))


@pytest.fixture
def on_disk(tmp_path, monkeypatch):
    """Stores in SQLite files on the disk."""
    return _files(tmp_path, monkeypatch)


@pytest.fixture
def in_memory(monkeypatch):
    """Stores in SQLite files in memory, where there is room: a killed process takes nothing along from either."""
    folder = Path(tempfile.mkdtemp(dir=_roomy_memory()))
    yield _files(folder, monkeypatch)
    shutil.rmtree(folder)


def _files(folder, monkeypatch):
    files = Files(folder)
    monkeypatch.setattr(tables.metadata, "create_all", lambda connection: None)  # made: a look costs more than the rest
    return files


@pytest.fixture
def namespaces(postgres_url, tmp_path):
    """Stores in namespaces of a PostgreSQL database."""
    return Namespaces(postgres_url, tmp_path)
