"""The attempts of a ledger in memory: those of a run are found without a look at the others."""

from __future__ import annotations

from settlemark.ledger._contract import RecordedTransaction

Attempt = tuple[str, int]


class MemoryAttempts(dict[Attempt, RecordedTransaction]):
    """Attempts by name and number, in the order in which they began; `begin` and `forget` write, nothing else does."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[str, dict[Attempt, RecordedTransaction]] = {}

    def begin(self, recorded: RecordedTransaction) -> None:
        """Add an attempt."""
        attempt = recorded.row.name, recorded.row.attempt
        self[attempt] = recorded
        self._runs.setdefault(recorded.row.run, {})[attempt] = recorded

    def forget(self, attempt: Attempt) -> RecordedTransaction:
        """Remove an attempt that is there, and return it."""
        gone = self.pop(attempt)
        theirs = self._runs[gone.row.run]
        del theirs[attempt]
        if not theirs:
            del self._runs[gone.row.run]
        return gone

    def of_run(self, run: str) -> list[RecordedTransaction]:
        """Return the attempts of a run, oldest first."""
        return list(self._runs.get(run, {}).values())

    def has_run(self, run: str) -> bool:
        """Whether an attempt of a run is there."""
        return run in self._runs


__all__ = ["MemoryAttempts"]
