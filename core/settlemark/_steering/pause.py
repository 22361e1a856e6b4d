"""A pause as it is on record: a run that stands at a boundary, with what it needs to go on, each part by itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, ClassVar

from settlemark._edges.errors import Refused
from settlemark._model import json_text
from settlemark._steering.message import Steered, made_of, seconds_in, texts_in, words_in
from settlemark.ledger._entries import Draft, Entry
from settlemark.ledger._payloads.unreadable import Unreadable

KIND = "pause"
"""The kind of the entries that keep pauses."""
ASKED, PAUSED, DISCARDING = "asked", "paused", "discarding"
OVER = ("gone_on", "discarded")
_LONGEST = 360


class Paused(Refused):
    """The run is paused: it stands at a boundary, and what it did so far stands, until somebody goes on with it.

    Attributes: `run`, `by` whom, `because`, `number`, `owner`: the one who may go on, where it was handed over.
    """

    remedy: ClassVar[str] = (
        "Stop: what was done stands. `settlement.paused` shows it; when `settlement.go_on` was said, call the run's"
        " program again."
    )
    always: ClassVar[tuple[str, ...]] = (*Refused.always, "run", "by", "because", "number", "owner")


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a run, which anybody may look at: see `Settlement.pause`.

    Attributes:
        run: the run; `number` counts its pauses, from 1.
        state: `"asked"`, until the run has come to a boundary; `"paused"`; `"discarding"`, while its work is undone;
            then `"gone_on"` or `"discarded"`.
        by: who has paused it; `because` is why: "[redacted]" where a rule of `redact=` has replaced it.
        at: when, in seconds since 1970, on the store's clock; `paused_at` is when it stood.
        before: progress: the step that is next. None: its program has not come to a boundary yet.
        stands: progress: the transactions of the run that stand, the oldest first.
        executor: what the program keeps of itself, as JSON: see `SteeredRun.keep`.
        environment: what the program keeps of its surroundings, as JSON: the id of a sandbox that is stopped, say.
        owner: to whom it was handed over: nobody else goes on with it, or discards it.
        ended_by: who went on with it, or discarded it; `ended_at` is when.
        undone: the effects that were undone as it was discarded, the newest first.
        bound: those that could not be undone, and stay.
        readable: whether it can be read here: else it is encrypted, or pruned, and its state and time are known.
    """

    run: str
    number: int
    state: str
    by: str
    because: str
    at: float
    paused_at: float | None = None
    before: str | None = None
    stands: tuple[str, ...] = ()
    executor: Any = None
    environment: Any = None
    owner: str | None = None
    ended_by: str | None = None
    ended_at: float | None = None
    undone: tuple[Steered, ...] = ()
    bound: tuple[Steered, ...] = ()
    readable: bool = field(default=True, repr=False)

    @property
    def is_over(self) -> bool:
        """Whether the run was gone on with, or discarded."""
        return self.state in OVER

    def body(self) -> str:
        """Return what is recorded of it, as JSON."""
        plain = (
            "by",
            "because",
            "at",
            "paused_at",
            "before",
            "executor",
            "environment",
            "owner",
            "ended_by",
            "ended_at",
        )
        told: dict[str, Any] = {name: getattr(self, name) for name in plain}
        told["stands"] = list(self.stands)
        for name in ("undone", "bound"):
            told[name] = [each.values() for each in getattr(self, name)]
        return json_text.encode(told)

    def draft(self) -> Draft:
        """Return the entry that records it, as it begins."""
        return Draft(KIND, pause_id(self.run, self.number), self.run, self.state, self.at, self.body(), open=True)

    def error(self) -> Paused:
        """Return the error that stops the run's program."""
        whose = f", and was handed over to {self.owner}" if self.owner else ""
        return Paused(
            f"the run {self.run} is paused by {self.by} ({self.because}){whose}: nothing was run, and what it did"
            " stands; settlement.go_on(run, by=) lets it go on",
            transaction=None,
            epoch=None,
            run=self.run,
            by=self.by,
            because=self.because,
            number=self.number,
            owner=self.owner,
        )


def pause_id(run: str, number: int) -> str:
    """Return the id of the entry of a pause."""
    step = run if len(run) <= _LONGEST else hashlib.sha256(run.encode()).hexdigest()
    return f"{step}~{number}"


def pause_in(entry: Entry) -> Pause:
    """Return a pause, as recorded; what cannot be read of it, here or any more, is empty."""
    readable = not isinstance(entry.body, Unreadable)
    said: dict[str, Any] = json_text.decode(entry.body) if readable else {}

    def text(name: str) -> str | None:
        return None if said.get(name) is None else str(said[name])

    return Pause(
        entry.run,
        int(entry.id.rpartition("~")[2]),
        entry.state,
        text("by") or "",
        words_in(said.get("because", "")),
        seconds_in(said.get("at"), entry.at),
        None if said.get("paused_at") is None else seconds_in(said["paused_at"], entry.at),
        text("before"),
        texts_in(said.get("stands")),
        said.get("executor"),
        said.get("environment"),
        text("owner"),
        text("ended_by"),
        None if said.get("ended_at") is None else seconds_in(said["ended_at"], entry.at),
        tuple(made_of(Steered, said.get("undone"))),
        tuple(made_of(Steered, said.get("bound"))),
        readable=readable,
    )


__all__ = ["ASKED", "DISCARDING", "KIND", "PAUSED", "Pause", "Paused", "pause_id", "pause_in"]
