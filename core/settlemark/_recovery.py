"""What a process that ended left in the ledger, brought back to life by the next."""

from __future__ import annotations

import os
import socket
from typing import Any

from settlemark import _codec
from settlemark._effect import Declaration, Effect, Outcome
from settlemark._scope import Scope
from settlemark.ledger._contract import RecordedEffect

_workers: dict[str, str] = {}


def worker_name(token: str, url: str) -> str:
    """Return this worker's name for the ledger at a URL: host, process and a token of its own."""
    name = f"{socket.gethostname()}:{os.getpid()}:{token}"
    _workers[name] = url
    return name


def shared_by(url: str) -> int:
    """Return how many workers of this process have the ledger at this URL open; a memory ledger is private."""
    return 0 if url == "memory:" else sum(other == url for other in _workers.values())


def retire(worker: str) -> None:
    """Note that a worker of this process has closed."""
    _workers.pop(worker, None)


def is_running(worker: str) -> bool:
    """Whether the worker of this name is alive, as far as this host can tell (others count as gone).

    >>> is_running("elsewhere:1:token")
    False
    """
    if worker in _workers:
        return True
    host, _, rest = worker.rpartition(":")[0].rpartition(":")
    if host != socket.gethostname() or not rest.isdigit() or int(rest) == os.getpid():
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def revive(recorded: RecordedEffect, declaration: Declaration | None) -> Effect:
    """Return an effect as it stood when its process ended: an intent without an outcome may have happened."""
    row = recorded.row
    outcome = Outcome.UNKNOWN if recorded.outcome is Outcome.INTENDED else recorded.outcome

    def run() -> Any:
        function = declaration.function if declaration is not None else None
        if function is None:
            raise LookupError(f"nothing called {row.tool} is declared in this process: declare it, then settle again")
        return function(**_codec.decode(row.arguments))

    return Effect(
        declaration or Declaration(tool=row.tool, kind=row.kind, version=row.version),
        tuple(Scope.parse(text) for text in _codec.decode(row.scopes)),
        _codec.decode(row.arguments),
        run,
        call_id=row.call_id,
        rationale=row.rationale,
        key=row.key,
        payload=row.arguments,
        position=row.position,
        held=row.held,
        outcome=outcome,
        result=_codec.decode(recorded.result),
        stored=True,
        error=recorded.error,
        tag=recorded.tag,
        note=recorded.note,
    )
