"""A pytest plugin that records which lines each test reaches, and how long it takes; for a run without a mutant."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path

import pytest
from coverage import Coverage

RECORD, FILES = "SETTLEMARK_REACHED", "SETTLEMARK_REACHED_FILES"
"""The variables that name the file to record in, and the files whose lines are recorded."""


def pytest_configure(config):
    if RECORD in os.environ:
        config.pluginmanager.register(Recorder(Path(os.environ[RECORD]), os.environ[FILES].split(os.pathsep)))


class Recorder:
    """Laws: a line that is run while modules are imported, or by another process, counts for no test."""

    def __init__(self, record, files):
        self._record, self._root = record, Path.cwd()
        self._seconds = {}
        self._coverage = Coverage(data_file=None, config_file=False, include=[str(self._root / file) for file in files])
        # A test that traces for itself ends the record of its own lines; the next test begins another.
        self._coverage.set_option("run:disable_warnings", ["already-imported", "no-data-collected", "trace-changed"])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        began = time.monotonic()
        self._coverage.start()
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.stop()
            self._seconds[item.nodeid] = time.monotonic() - began

    def pytest_sessionfinish(self):
        data = self._coverage.get_data()
        lines = {test: defaultdict(list) for test in self._seconds}
        for file in data.measured_files():
            name = Path(file).relative_to(self._root).as_posix()
            for line, tests in data.contexts_by_lineno(file).items():
                for test in lines.keys() & set(tests):
                    lines[test][name].append(line)
        told = {test: {"seconds": seconds, "lines": lines[test]} for test, seconds in self._seconds.items()}
        self._record.write_text(json.dumps(told))
