"""A pytest plugin for runs under the tool: records what each test reaches and costs, and ends a run that is too costly.

A cost is in seconds of the processor, of the tests and of what they start: what else the machine does is not in it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest
from coverage import Coverage

RECORD, FILES = "SETTLEMARK_REACHED", "SETTLEMARK_REACHED_FILES"
"""The variables that name the file to record in, and the files whose lines are recorded."""
MOST = "SETTLEMARK_TESTS_SECONDS"
"""The variable that says for how many seconds of the processor tests are begun."""


def pytest_configure(config):
    if RECORD in os.environ:
        config.pluginmanager.register(Recorder(Path(os.environ[RECORD]), os.environ[FILES].split(os.pathsep)))
    if MOST in os.environ:
        config.pluginmanager.register(Bound(float(os.environ[MOST])))


def _spent():
    """Return the seconds of the processor that this process has had, and those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Bound:
    """Begins no test any more when the others have taken their time."""

    def __init__(self, seconds):
        self._seconds, self._end = seconds, None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self):
        if self._end is None:
            self._end = _spent() + self._seconds
        return True if _spent() > self._end else None


class Recorder:
    """Laws: a line that is run while modules are imported, or by another process, counts for no test."""

    def __init__(self, record, files):
        self._record, self._root = record, Path.cwd()
        self._seconds, self._failed = {}, set()
        self._coverage = Coverage(data_file=None, config_file=False, include=[str(self._root / file) for file in files])
        # A test that traces for itself ends the record of its own lines; the next test begins another.
        self._coverage.set_option("run:disable_warnings", ["already-imported", "no-data-collected", "trace-changed"])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        began = _spent()
        self._coverage.start()
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.stop()
            self._seconds[item.nodeid] = _spent() - began

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self):
        data = self._coverage.get_data()
        lines = {test: defaultdict(list) for test in self._seconds}
        for file in data.measured_files():
            name = Path(file).relative_to(self._root).as_posix()
            for line, tests in data.contexts_by_lineno(file).items():
                for test in lines.keys() & set(tests):
                    lines[test][name].append(line)
        told = {
            test: {"seconds": seconds, "lines": lines[test], "failed": test in self._failed}
            for test, seconds in self._seconds.items()
        }
        self._record.write_text(json.dumps(told))
