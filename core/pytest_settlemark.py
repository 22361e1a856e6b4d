"""The pytest fixtures of settlemark.

A module outside the package: pytest loads it in every run of every user, before coverage is measured, so it imports
nothing of settlemark until a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from settlemark.testing import Bank, Mailbox, Proof, Provider, VirtualClock


@pytest.fixture
def settlemark_ledger(tmp_path: Path) -> str:
    """The URL of a ledger in a new SQLite file: `Settlement(settlemark_ledger)`."""
    return f"sqlite:///{tmp_path / 'settlemark.db'}"


@pytest.fixture
def settlemark_clock() -> VirtualClock:
    """A clock that moves only when told to: `Settlement(url, **settlemark_clock.options())`."""
    from settlemark.testing import VirtualClock

    return VirtualClock()


@pytest.fixture
def settlemark_provider() -> Iterator[Provider]:
    """A travel agency in a child process, which keeps its own log and fails on demand."""
    from settlemark.testing import Provider

    with Provider() as provider:
        yield provider


@pytest.fixture
def settlemark_bank() -> Iterator[Callable[..., Bank]]:
    """Open banks in child processes: `settlemark_bank({"ops": 100, "fund": 0}, keyed=False)`."""
    from contextlib import ExitStack

    from settlemark.testing import Bank

    with ExitStack() as opened:
        yield lambda *args, **options: opened.enter_context(Bank(*args, **options))


@pytest.fixture
def settlemark_mailbox() -> Iterator[Mailbox]:
    """A mail server in a child process; it needs `settlemark[demo]`."""
    from settlemark.testing import Mailbox

    with Mailbox() as mailbox:
        yield mailbox


@pytest.fixture
def prove_settlement(tmp_path: Path) -> Callable[..., Proof]:
    """`settlemark.testing.prove_settlement`, its ledgers in this test's folder.

    `prove_settlement(run, world, reset=…).assert_ok()`
    """
    from settlemark.testing import prove_settlement

    return partial(prove_settlement, folder=tmp_path / "ledgers")
