"""Fences: a resource that has seen the token of a lease is closed to every lesser one, and to a caller that has none.

A lease ends by the ledger's clock, and its former holder may not know it yet. So the resource itself keeps the greatest
token that acted on it, and each act shows its own first. An act under the greatest token keeps the fence as it is until
the act is over: so the first act under a greater one waits for what its former holder has begun.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from settlemark import Fenced, Lease

Leased: TypeAlias = Lease | Callable[[], Lease | None] | None
"""What adapters take as `lease=`: a lease, or a function that returns the one of the running work, if there is one."""

_PAUSE_SECONDS = 0.02
_WAIT_SECONDS = 30.0


def held_by(lease: Leased) -> Lease | None:
    """Return the lease that the running work acts under.

    Raises:
        Fenced: it is known to be lost.
    """
    found = lease() if callable(lease) else lease
    if found is not None and found.lost is not None:
        raise found.lost
    return found


class FileFence:
    """A fence in a folder of the resource: a file with the greatest token that has acted there.

    Args:
        file: where it is kept; its folder is made with the first token.
        lease: what an act shows.
        about: the resource, for people.
    """

    def __init__(self, file: Path, lease: Leased, about: str) -> None:
        self._file = file
        self._lease = lease
        self._about = about

    @contextmanager
    def passed(self) -> Generator[None]:
        """Do an act behind the fence.

        Raises:
            Fenced: a greater token has acted here, or some token and this act has none; nothing was done.
            BlockingIOError: a former holder's act is still under way; nothing was done.
        """
        lease = held_by(self._lease)
        if lease is None and not self._file.exists():
            yield  # nobody leases this
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.with_suffix(".lock").open("ab") as lock:  # the file stays: a waiter has it open
            if lease is not None:
                self._raise_to(lock, lease)
            _lock(lock, shared=True, about=self._about)
            try:
                check(self._seen(), lease, self._about)
                yield
            finally:
                _unlock(lock)

    def _raise_to(self, lock: Any, lease: Lease) -> None:
        """Let the lease's token be the greatest, unless a greater one was seen."""
        if self._seen()["token"] >= lease.token:
            return
        _lock(lock, shared=False, about=self._about)
        try:
            if self._seen()["token"] < lease.token:
                aside = self._file.with_suffix(".tmp")
                with aside.open("w", encoding="utf-8") as file:
                    json.dump({"scope": lease.scope, "token": lease.token, "holder": lease.holder}, file)
                    file.flush()
                    os.fsync(file.fileno())
                aside.replace(self._file)
        finally:
            _unlock(lock)

    def _seen(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"scope": None, "token": 0, "holder": None}
        return found


def check(seen: Mapping[str, Any], lease: Lease | None, about: str) -> None:
    """Check that what acts has the greatest token that was seen.

    Raises:
        Fenced: it has a lesser one, or none.
    """
    own = 0 if lease is None else lease.token
    if own >= seen["token"]:
        return
    told = "no lease is given" if lease is None else f"the lease of {lease.holder} has {own}"
    raise Fenced(
        f"{about} was not touched: {seen['holder']} has acted on it under the token {seen['token']} of a lease on"
        f" {seen['scope']}, and {told}: ask for the lease, and give it to the adapter as lease=",
        scope=seen["scope"],
        token=None if lease is None else own,
        holder=seen["holder"],
        since=None,
        current=seen["token"],
    )


def _lock(file: Any, *, shared: bool, about: str) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise OSError(
                    errno.EAGAIN,
                    f"{about} was not touched: an act of its former holder is under way for {_WAIT_SECONDS:g} s; end"
                    " that, or try again later",
                ) from None
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _unlock(file: Any) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    fcntl.flock(file, fcntl.LOCK_UN)  # a child forked meanwhile has it open, too


__all__ = ["FileFence", "Leased", "check", "held_by"]
