"""`python -m settlemark` is the `settlemark` command."""

from __future__ import annotations

from settlemark._cli.main import main

if __name__ == "__main__":
    main()
