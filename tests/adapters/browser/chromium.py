"""Where a Chromium is for these tests: `python tests/adapters/browser/chromium.py` fetches one from npm, and prints it.

Playwright's own download is no package registry; npm has a headless build as a package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VARIABLE = "SETTLEMARK_TEST_CHROMIUM"
PACKAGE = "@sparticuz/chromium@147"
UNPACK = 'import chromium from "@sparticuz/chromium"; console.log(await chromium.executablePath());'


def find() -> str | None:
    """Return the path of a browser that is here, or None."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is not None:
        return found
    own = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache/ms-playwright"))
    return next((str(path) for path in sorted(own.glob("chromium*/*/*")) if os.access(path, os.X_OK)), None)


def fetch(folder: str) -> str:
    """Install the package in a folder, and return where the browser is that it unpacks."""
    npm = shutil.which("npm") or "npm"
    node = shutil.which("node") or "node"
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--silent", PACKAGE], cwd=folder, check=True)
    program = Path(folder, "where.mjs")
    program.write_text(UNPACK)
    done = subprocess.run([node, str(program)], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    print(find() or fetch(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="chromium-")))  # noqa: T201 - this is what it is for
