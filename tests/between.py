"""Another thread, at every place where it could come in."""

from __future__ import annotations

import sys
from collections.abc import Callable


class Between:
    """Another thread that does something between any two steps of a file's code, or of some files'."""

    def __init__(self, file: str | tuple[str, ...], act: Callable[[], object]):
        self._file, self._act, self.times = file, act, 0

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._traced)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _traced(self, frame, _event, _argument):
        if frame.f_code.co_filename.endswith(self._file):
            frame.f_trace_opcodes = True
            sys.settrace(None)
            self.times += 1
            self._act()
            sys.settrace(self._traced)
        return self._traced
