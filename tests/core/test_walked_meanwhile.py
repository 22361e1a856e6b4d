"""What threads share is walked, looked up and put in order while others write to it: at any line, nothing is missed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import settlemark
import settlemark_adapters
import settlemark_langgraph
from settlemark import Settlement, effect
from settlemark._attempt.wait_log import WAITS, WaitLog
from settlemark._edges.alive import Alive
from settlemark._model.declaration import Registry
from settlemark._runtime.choice import Choice
from settlemark.agents import AgentRun
from settlemark.agents._record.standing import Decision
from settlemark.hosting import declaration_of
from settlemark.ledger._payloads.payloads import Packer
from settlemark.ledger._payloads.redaction import Redaction


class Between:
    """Another thread that does something between any two lines of a file."""

    def __init__(self, file: str, act: Callable[[], object]):
        self._file, self._act, self.times = file, act, 0

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._traced)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _traced(self, frame, _event, _argument):
        if frame.f_code.co_filename.endswith(self._file):
            sys.settrace(None)
            self.times += 1
            self._act()
            sys.settrace(self._traced)
        return self._traced
