"""What `import settlemark` costs a fresh process; what it does not need yet, it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import settlemark

HEAVY = ("sqlalchemy", "typer", "rich", "langgraph", "langchain_core")
ROOT = Path(settlemark.__file__).parent.parent


def fresh(code):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    finished = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return finished.stdout


def test_importing_settlemark_in_a_fresh_process(gauge):
    def process(code):
        fresh(code)
        return 1

    gauge.beside(
        "import settlemark, fresh process",
        lambda: process("import settlemark"),
        {
            "an empty process": lambda: process(""),
            "import asyncio, dataclasses, inspect, json": lambda: process("import asyncio, dataclasses, inspect, json"),
        },
        unit="ms",
        aim=100,
    )

    loaded = set(json.loads(fresh("import settlemark, sys, json; print(json.dumps(list(sys.modules)))")))
    assert "settlemark._protocol.protocol" in loaded
    assert not loaded & set(HEAVY)
