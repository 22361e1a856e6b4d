"""A versioned value that agents share: a write holds only if the version it was based on is still the newest.

A channel is a log that only grows: version `k` is its k-th entry, and version 0 is None. A write names the version it
is based on, and is accepted exactly when that is still the head (optimistic concurrency control, as with an ETag).
Replicas copy the log, and lag. Two replicas may show different values of one channel at the same time, the split view
(A4); pinned to the primary, which is the default, they cannot. Source: the anomaly paper, section 4.12, whose theorem
holds here: two reads of the primary at one version give one value, and the versions a pinned reader sees never go back.

A channel ends with its process. In the state of a LangGraph graph `settlemark_langgraph.channels.latest_by_version`
keeps the same rule; in memory that lasts, `settlemark_adapters.store.Store` does, with `expected_version=`.

>>> plan = VersionedChannel("plan")
>>> plan.write("fly", expected=0)
1
>>> seen = plan.read()
>>> plan.write("drive", expected=seen.version), plan.read(), plan.read(1).value
(2, Versioned(version=2, value='drive'), 'fly')
>>> plan.write("swim", expected=seen.version)  # doctest: +NORMALIZE_WHITESPACE
Traceback (most recent call last):
settlemark.channels.HeadMoved: plan is at version 2, and the write was based on version 1: nothing was written; read it
again, make a new value from it, and write that with expected=2
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from settlemark._edges.errors import SettlemarkError, UsageError
from settlemark._model.json_text import decode, encode
from settlemark.history._detect.replica_reads import ReplicaRead

PRIMARY = "primary"
"""The name, in a log of reads, of the copy that takes the writes."""


class HeadMoved(SettlemarkError):
    """A write was based on a version that is not the head: nothing was written.

    Attributes: `channel` (its name), `expected`, `head`.
    """

    remedy: ClassVar[str] = "Read the channel again, make a new value from it, and write that."


class Versioned(NamedTuple):
    """A channel's value at a version. The value is the reader's own copy."""

    version: int
    value: Any


class VersionedChannel:
    """A value with versions, for threads and tasks of one process.

    Args:
        name: the channel's name: the cell, in a log of reads.
        pinned: whether the primary answers whatever replica is asked.
        log: called with every read and its replica; in the reader's thread, outside of every lock.

    Laws: the head only grows, by one with each accepted write; the value at a version never changes.

    >>> told = []
    >>> plan = VersionedChannel("plan", pinned=False, log=told.append)
    >>> europe = plan.replica("eu")
    >>> plan.write("fly", expected=0), plan.read().value, europe.read().value
    (1, 'fly', None)
    >>> from settlemark.history import split_view
    >>> split_view(told).count
    2
    """

    def __init__(self, name: str, *, pinned: bool = True, log: Callable[[ReplicaRead], object] | None = None) -> None:
        self.name = name
        self.pinned = pinned
        self._tell = log
        self._lock = threading.Lock()
        self._log: list[str] = []  # each value as JSON: readers share no mutable value
        self._replicas: dict[str, Replica] = {}

    @property
    def head(self) -> int:
        """The newest version: the number of accepted writes."""
        return len(self._log)

    def read(self, version: int | None = None, *, agent: str | None = None) -> Versioned:
        """Return the newest value, or that of an earlier version, from the primary.

        Args:
            version: the version; the head by default.
            agent: who reads, for the log.

        Raises:
            UsageError: there is no such version yet. Attributes: `channel`, `version`, `head`.
        """
        head = self.head
        if version is not None and not (_is_whole(version) and 0 <= version <= head):
            raise UsageError(
                f"{self.name} has no version {version}: it is at version {head}, which read() returns",
                channel=self.name,
                version=version,
                head=head,
            )
        return self._answer(PRIMARY, head if version is None else version, agent)

    def write(self, value: Any, *, expected: int) -> int:
        """Write a value that is based on a version, if that is still the head; return the new version.

        Raises:
            HeadMoved: the version is not the head: nothing was written.
            PayloadError: the value is no JSON: nothing was written.
        """
        text = encode(value)
        with self._lock:
            head = self.head
            if expected != head:
                raise HeadMoved(
                    f"{self.name} is at version {head}, and the write was based on version {expected}: nothing was"
                    f" written; read it again, make a new value from it, and write that with expected={head}",
                    channel=self.name,
                    expected=expected,
                    head=head,
                )
            self._log.append(text)
            return head + 1

    def replica(self, name: str) -> Replica:
        """Return the replica of that name; a new one has copied nothing yet.

        Raises:
            UsageError: the name is the primary's.
        """
        if name == PRIMARY:
            raise UsageError(
                f"a replica of {self.name} cannot be called {PRIMARY!r}: choose another name, or read() the channel",
                channel=self.name,
            )
        with self._lock:
            return self._replicas.setdefault(name, Replica(self, name))

    def _answer(self, replica: str, version: int, agent: str | None) -> Versioned:
        """Return the value at a version, which never changes again, so that no lock is needed; and log the read."""
        if self._tell is not None:
            # The log gets a copy of its own: a reader may change its answer.
            value = self._at(version)
            self._tell(ReplicaRead(cell=self.name, replica=replica, version=version, value=value, agent=agent))
        return Versioned(version, self._at(version))

    def _at(self, version: int) -> Any:
        return decode(self._log[version - 1]) if version else None


class Replica:
    """A copy of a channel's writes up to some version: `VersionedChannel.replica` makes it."""

    def __init__(self, channel: VersionedChannel, name: str) -> None:
        self.name = name
        self._channel = channel
        self._lock = threading.Lock()
        self._version = 0

    @property
    def version(self) -> int:
        """How many writes it has copied."""
        return self._version

    def catch_up(self, to: int | None = None) -> int:
        """Copy the writes up to a version, by default all; return the version reached.

        Raises:
            UsageError: there is no such version yet, or the replica is past it (a copy never goes back), or it is no
                whole number. Nothing was copied. Attributes: `channel`, `version`, `head`.
        """
        channel = self._channel
        with self._lock:
            head = channel.head
            wanted = head if to is None else to
            if not _is_whole(wanted) or not self._version <= wanted <= head:
                raise UsageError(
                    f"{self.name} is at version {self._version} of {channel.name} and cannot catch up to {wanted}:"
                    f" choose a version from {self._version} to {head}",
                    channel=channel.name,
                    version=wanted,
                    head=head,
                )
            self._version = wanted
            return wanted

    def read(self, *, agent: str | None = None) -> Versioned:
        """Return the copied value; the primary's, when the channel is pinned.

        Args:
            agent: who reads, for the log.
        """
        if self._channel.pinned:
            return self._channel.read(agent=agent)
        return self._channel._answer(self.name, self._version, agent)  # noqa: SLF001 - the other half of the pair


def _is_whole(version: object) -> bool:
    return isinstance(version, int) and not isinstance(version, bool)


__all__ = ["PRIMARY", "HeadMoved", "Replica", "Versioned", "VersionedChannel"]
