"""`python -m tests.reference` writes the pages and diagrams that are made of the code; `--check` says which are old."""

from __future__ import annotations

import sys

from tests.reference.making import old, write


def main(*arguments: str) -> int:
    """Do it, and return the exit status."""
    if "--check" in arguments:
        found = old()
        sys.stdout.write("".join(f"{path} is old: run python -m tests.reference\n" for path in found))
        return 1 if found else 0
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
