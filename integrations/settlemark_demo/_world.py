"""The counterparties of one side: a provider and a mail server in processes of their own, and a database file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from settlemark.testing import Mailbox, Provider
from settlemark_demo._database import Database
from settlemark_demo._evidence import Entry

PIPELINE = "pipeline"
_BOOKING_EVENTS = frozenset({"booked", "cancelled", "refused", "replayed"})


class World:
    """What one side acts on; its logs are files in `folder` and stay there.

    Args:
        folder: where the logs and the database file are made; it must exist and be empty of them.
        latency: scales every counterparty's and every step's delay.
        timeout: how long a tool waits for an answer, in seconds.
    """

    def __init__(self, folder: Path, *, latency: float = 1.0, timeout: float = 1.0) -> None:
        self.folder = folder
        self.timeout = timeout
        self._stack = ExitStack()
        try:
            self.provider = self._stack.enter_context(Provider(folder / "provider.jsonl"))
            self.mailbox = self._stack.enter_context(Mailbox(folder / "mailbox.jsonl"))
            self.database = Database(folder / "application.db")
            self.pace(latency)
        except BaseException:
            self._stack.close()
            raise

    def pace(self, latency: float) -> None:
        """Scale every delay from here on: what was issued first takes longest."""
        self.latency = latency
        for kind, seconds in (("hotel", 0.09), ("flight", 0.06), ("car", 0.03)):
            self.provider.delay(kind, seconds * latency)

    def heal(self) -> None:
        """End all faults."""
        self.provider.heal()
        self.mailbox.heal()

    def close(self) -> None:
        """End the counterparties; their logs stay."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def entries(self, work: str) -> tuple[Entry, ...]:
        """Return all log entries of one trip, or of the pipeline, in order."""
        if work.startswith(PIPELINE):
            return tuple(self._steps())
        return _by_time(*self._bookings(work), *self._mails(work))

    def entries_since(self, moment: float) -> tuple[Entry, ...]:
        """Return all log entries since then, whatever their names, in order."""
        found = _by_time(*self._bookings(None), *self._mails(None), *self._steps())
        return tuple(entry for entry in found if entry.at >= moment)

    def _bookings(self, trip: str | None) -> list[Entry]:
        found: list[Entry] = []
        for line in self.provider.log():
            request: dict[str, Any] = line.get("request") or {}
            if line["event"] in _BOOKING_EVENTS and trip in (None, request.get("trip")):
                tool = f"reserve_{line['kind']}"
                found.append(Entry(line["at"], tool, line["event"], line["id"] or "", line["key"]))
        return found

    def _mails(self, trip: str | None) -> list[Entry]:
        return [
            Entry(mail["at"], "send_confirmation", "mailed", mail["message_id"], detail=mail["to"])
            for mail in self.mailbox.messages()
            if trip is None or mail["subject"] == subject(trip)
        ]

    def _steps(self) -> list[Entry]:
        return [
            Entry(
                line["at"],
                line["step"],
                line["event"],
                "" if line["event"] == "refused" else line["step"],
                detail=line["detail"] or "",
            )
            for line in self.database.log()
        ]


def _by_time(*entries: Entry) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.at))


def subject(trip: str) -> str:
    """Return the subject of a trip's confirmation, which identifies the trip in the mail server's log."""
    return f"Your trip {trip} is booked"


def two_worlds(folder: Path, *, latency: float = 1.0, timeout: float = 1.0) -> tuple[World, World]:
    """Return two separate worlds, for the stock side and the settled one, started together.

    Raises:
        RuntimeError: a counterparty did not start; none is left running.
    """
    folders = [folder / "stock", folder / "settled"]
    for each in folders:
        each.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(len(folders)) as pool:
        starting = [pool.submit(World, each, latency=latency, timeout=timeout) for each in folders]
    failed = [found for future in starting if (found := future.exception()) is not None]
    if failed:
        for future in starting:
            if future.exception() is None:
                future.result().close()
        raise failed[0]
    return starting[0].result(), starting[1].result()
