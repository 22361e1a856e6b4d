"""What all tests share: a PostgreSQL, and what a run tells at its end: how much the explorer visited."""

from __future__ import annotations

import os
from collections import Counter

import hypothesis
import pytest

# Here, where nothing runs yet: pytest parses these anew when they are first imported, and CPython 3.11.7 raises a
# SystemError when a traceback that is logged meanwhile is parsed, too.
import tests.rooms.replica  # noqa: F401
from _pytest.doctest import DoctestModule
from tests.extent import MORE, NAMED, divided, examples, is_deep
from tests.rooms.acts import _current
from tests.rooms.ledger import _limits
from tests.rooms.model import Registry, declare, identity
from tests.servers import VARIABLE, Postgres, PostgresServer, require_driver, require_own_server

# No test asserts a time: on a busy machine an example takes as long as it takes.
hypothesis.settings.register_profile("settlemark", deadline=None, print_blob=True, max_examples=examples(100))
hypothesis.settings.load_profile("settlemark")


# Nor is a store late that a busy machine keeps waiting: who tests one that hangs sets these for that test.
_limits.LEAST_SECONDS = _limits.CLOSE_SECONDS = 60.0


def _readable(_ledger, namespace):
    """Begin keys without their ledger's random id, so that a test can say which key it expects, as in "trip#1/0"."""
    return "" if namespace == "default" else f"{namespace}:"


_readable.whole, identity.prefix_of = identity.prefix_of, _readable


@pytest.fixture
def whole_keys(monkeypatch):
    """Keys are what they are outside of tests: each begins with the id of its ledger."""
    monkeypatch.setattr(identity, "prefix_of", _readable.whole)


_left_out = pytest.StashKey[int]()


def pytest_ignore_collect(collection_path):
    """Import nothing of what has no quick tests: whole frameworks would be loaded for tests that do not run."""
    return True if not MORE and is_deep(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for doctests only where a prompt is: else each module is imported, and each object of it looked through."""
    found = yield
    prompts = ">>> " in file_path.read_text() if any(isinstance(each, DoctestModule) for each in found) else False
    return [each for each in found if prompts or not isinstance(each, DoctestModule)]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Run one worker more than there are cores: tests wait for disks and for other processes."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config, items):
    """Leave out what is not asked for: see `tests.extent`."""
    items[:], left_out = divided(items)
    config.stash[_left_out] = len(left_out)
    if left_out:
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take over from a worker how much was left out: it alone has collected the tests."""
    node.config.stash[_left_out] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_sessionfinish(session):
    """Tell whoever began this worker how much was left out."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(_left_out, 0)


def pytest_runtest_setup():
    """Begin each test outside of any call: one that strikes the engine at every instruction may have left one open."""
    _current.set(None)


def pytest_terminal_summary(terminalreporter):
    explored: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name.startswith("explored_") and getattr(report, "when", "") == "call":
                    explored[name.removeprefix("explored_")] += value
    if explored:
        counts = ", ".join(f"{count:,} {name}" for name, count in explored.items())
        terminalreporter.write_line(f"explored: {counts}")


def pytest_unconfigure(config):
    """Say last what was left out, and what runs it."""
    left_out, terminal = config.stash.get(_left_out, 0), config.pluginmanager.get_plugin("terminalreporter")
    if left_out and terminal is not None and not hasattr(config, "workeroutput"):
        asks = "SETTLEMARK_TESTS=all pytest" if MORE else "SETTLEMARK_TESTS=more pytest (as CI does), or =all,"
        what = f"{left_out:,} tests" if MORE else f"{left_out:,} further cases of tests, and {NAMED}"
        terminal.write_line(f"left out: {what}; {asks} runs them")


@pytest.fixture(autouse=True)
def declared_by_this_test_alone(monkeypatch):
    """Tools are known by their names in the whole process: those that other tests declared are not there."""
    monkeypatch.setattr(declare, "_declared", Registry())


@pytest.fixture(scope="session")
def postgres():
    """The PostgreSQL server of the run: not to be stopped, since all tests share it."""
    if url := os.environ.get(VARIABLE):
        require_driver()
        yield Postgres(url)
    else:
        require_own_server()
        with PostgresServer() as server:
            yield server


@pytest.fixture
def postgres_url(postgres):
    """The URL of an empty database."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture
def private_postgres():
    """A PostgreSQL server for one test, which may stop it and start it again."""
    if os.environ.get(VARIABLE):
        pytest.skip(f"this test stops its server, which the one named in {VARIABLE} is not for: unset it")
    require_own_server()
    with PostgresServer() as server:
        yield server
