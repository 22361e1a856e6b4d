"""What the tests of the commands share: a terminal, and processes that end in the midst of their work."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys

import pytest
from tests.rooms.cli import main as cli
from tests.rooms.model import Registry, declare
from typer.testing import CliRunner

TOOLS = """
import json, os, pathlib
from settlemark import Settlement, effect

LOG = pathlib.Path(__file__).with_name("world.log")

def note(*words):
    with LOG.open("a") as log:
        log.write(" ".join(words) + "\\n")

def free(hotel):
    note("free", hotel)

def stuck(hotel):
    raise LookupError("no such room")

@effect("reversible", scope="room:/{hotel}", undo=free)
def reserve(hotel):
    note("reserve", hotel)

@effect("reversible", scope="suite:/{hotel}", undo=stuck)
def reserve_for_good(hotel):
    note("reserve", hotel)

@effect("idempotent", scope="account:/{account}")
def charge(account):
    note("charge", account)
    raise TimeoutError("no answer")

def declare(settlement):
    settlement.declare("send", "irreversible", scope="mail:/{to}", function=send, keyed=True)

def send(to):
    note("send", to)
"""


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch, tmp_path):
    monkeypatch.delenv("SETTLEMARK_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(declare, "_declared", Registry())  # each test is a process that has declared nothing yet
    found = importlib.metadata.entry_points
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda **chosen: [] if chosen == {"group": cli.GROUP} else found(**chosen)
    )


@pytest.fixture
def run():
    """Run a command, and return what it printed and its exit status."""

    def run_it(*arguments):
        return CliRunner().invoke(cli.build(), [str(a) for a in arguments], prog_name="settlemark")

    return run_it


@pytest.fixture
def run_json(run):
    """Run a command with --json, and return what it printed."""
    return lambda *arguments: json.loads(run(*arguments, "--json").stdout)


@pytest.fixture
def module(tmp_path, request):
    """The name of a module that declares tools, found from the folder the test runs in."""
    name = f"tools_{abs(hash(request.node.nodeid)):x}"
    (tmp_path / f"{name}.py").write_text(TOOLS)
    yield name
    sys.modules.pop(name, None)
    if str(tmp_path) in sys.path:
        sys.path.remove(str(tmp_path))


@pytest.fixture
def ends_amid(tmp_path, module):
    """Run a body in a process that ends in its midst, with `tx` of an open transaction at hand."""

    def end(url, name, body):
        code = (
            f"import os, sys\nsys.path[:0] = {[str(tmp_path), *sys.path]!r}\nfrom {module} import *\n"
            f"settlement = Settlement({url!r})\ndeclare(settlement)\n"
            f"tx = settlement.transaction({name!r}).__enter__()\n{body}\n"
            "settlement.transactions()  # all that was queued is on record\nos._exit(0)\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": ""}, timeout=60)

    return end


@pytest.fixture
def world(tmp_path):
    """What happened, as the counterparty logged it."""
    log = tmp_path / "world.log"
    return lambda: log.read_text().splitlines() if log.exists() else []


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    """The URL of a store that several processes may share."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'trip.db'}"
