"""A replica of the protocol: kept equal to those of other processes by taking what they wrote to the shared log.

Source: shared-log replication (Tango, SOSP 2013), the effect log that Atomix §4 asks of a distributed version.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable

from settlemark._model.json_text import encode_ascii
from settlemark._protocol.commands import Bury, Command
from settlemark._protocol.protocol import Protocol
from settlemark.ledger._lease import Lease
from settlemark.ledger._replica.enrolment import Enrolment
from settlemark.ledger._replica.image import Own, image, load
from settlemark.ledger._replica.journal import read, replay
from settlemark.ledger._replica.shared_log import SharedLog
from settlemark.ledger._sql.other_workers import Others
from settlemark.ledger._sql.wire import Wire
from settlemark.ledger._urls import shown

_log = logging.getLogger("settlemark")

NEVER = -1
"""What has been applied to a replica that has not joined yet."""
UNREADABLE = -2
"""What has been applied to a replica that cannot be put into the state of its store."""
IMAGE_EVERY = 1_000


class Replica:
    """The protocol of this process, and how much of the log is in it.

    Args:
        log: the shared log.
        lease: this worker's lease: the log may say that others buried the worker.
        enrolment: this worker on the list of workers.
        others: the other workers.
        url: names the store, in logs.

    Attributes:
        protocol: the replica, guarded by `lock`.
        lock: guards the protocol and what of this process belongs to it.
        applied: the last entry that is in it.
        tried: the commands of the store transaction that is open, or has failed.
        repairs: what is to be done, with the next step, about what the store has lost with its power.
    """

    def __init__(self, log: SharedLog, lease: Lease, enrolment: Enrolment, others: Others, url: str) -> None:
        self.protocol = Protocol()
        self.protocol.board.closed = []
        self.lock = threading.Lock()
        self.applied = NEVER
        self.tried: list[Command] = []
        self.repairs: list[Callable[[Protocol], None]] = []
        self._log = log
        self._lease = lease
        self._enrolment = enrolment
        self._others = others
        self._url = url
        self._acknowledged = 0  # the last entry that the store is known to have had
        self._imaged = 0

    def wrote(self, number: int) -> None:
        """Note that the store has an entry of this process's own, which the replica took as it was written."""
        self.applied = self._acknowledged = number

    def delivered(self) -> None:
        """Forget the commands of a transaction that the store has taken."""
        self.tried, self.repairs = [], []
        self.protocol.board.forget_closed()

    def catch_up(self, wire: Wire, upto: int) -> None:
        """Take what others took, up to this entry; the log may have been cut behind an image meanwhile."""
        rows = self._log.behind(wire, self.applied)
        if self.applied < 0 or (rows[0][0] if rows else upto + 1) != self.applied + 1:
            whole = self.applied == NEVER or NEVER < self.applied <= upto  # one that only fell behind has lost nothing
            repairs = self.begin_anew(wire)
            if not whole:
                self.repairs += repairs
            return
        if rows:
            self._others.count = self._others.count or 1  # before the next renewal counts: waiting programs look often
        for number, steps in rows:
            self._replay(number, steps)

    def _replay(self, number: int, text: str) -> None:
        self.applied = UNREADABLE  # until all of it is taken
        commands = read(text, number)
        if Bury(self._lease.worker) in commands:
            self._lease.lose(self.protocol)
        replay(self.protocol, commands, number)
        self.wrote(number)

    def begin_anew(self, wire: Wire) -> list[Callable[[Protocol], None]]:
        """Put the replica into the state of the store: from the image, and the log behind it.

        Returns what is to be done about what the store has lost with its power.
        """
        number, state = self._log.image(wire)
        joins = self.applied == NEVER  # then nobody has a transaction of this replica that must stay the same object
        fresh = self.protocol if joins else Protocol()
        chronicle, fresh.chronicle = fresh.chronicle, None  # what was decided before it joined is not its to tell
        load(fresh, json.loads(state) if state else _EMPTY)
        self._imaged = number
        for entry, steps in self._log.behind(wire, number):
            replay(fresh, read(steps, entry), entry)
            number = entry
        fresh.chronicle = chronicle
        reached, self._acknowledged = self._acknowledged, number
        if joins:
            self.applied = number
            fresh.take_aborted()  # by others, who conclude them, or long ago
            return []
        if number < reached:
            self._tell_of_loss(fresh, reached - number)
        own = Own(self.protocol, self._lease.worker, self.tried)
        load(self.protocol, image(fresh), worker=self._lease.worker, tried=self.tried)
        self.applied = number
        repairs = own.repairs(self.protocol)
        if self._lease.is_held and not self._enrolment.is_entered(wire):
            self._lease.lose(self.protocol)
        return repairs

    def _tell_of_loss(self, found: Protocol, steps: int) -> None:
        """Say that the store has gone back: nobody else can tell what is not on record any more."""
        known = {(txn.name, txn.attempt) for txn in found.live.values()}
        mine = [txn for txn in self.protocol.live.values() if txn.owner == self._lease.worker]
        gone = sorted(txn.name for txn in mine if (txn.name, txn.attempt) not in known)
        _log.critical(
            "the ledger %s has gone back by %d step(s) that it had acknowledged: an older copy of it was put back, or"
            " its server lost them; what they tell of stands, and is in no residue; of what was under way here %s;"
            " stop what uses it before you put back a copy, and look at by hand what was done since that was made",
            shown(self._url),
            steps,
            f"it knows nothing of {', '.join(gone)}" if gone else "it knows all",
            extra=self._lease.about(transactions=gone),
        )

    def write_image(self, wire: Wire, number: int) -> None:
        """Write the state behind an entry when many entries are behind the last image; drop what no worker needs."""
        if number - self._imaged <= IMAGE_EVERY + 2 * len(self.protocol.board.live):
            return
        try:
            state = encode_ascii(image(self.protocol))
        except Exception:  # the log is all that is needed: it grows, and nobody is refused for that
            _log.exception("no image of the protocol can be written: its log stays whole", extra=self._lease.about())
            self._imaged = number
            return
        self._log.write_image(wire, number, state)
        needed = self._enrolment.least_applied(wire)
        # The image's own entry stays: it tells a writer that lost the answer that the entry was committed.
        self._log.drop(wire, min(number - 1, number if needed is None else needed))
        self._imaged = number

    def in_child(self) -> None:
        """Have a lock of its own, in a forked child: no lock is held by a thread that is not there."""
        self.lock = threading.Lock()


_EMPTY = image(Protocol())

__all__ = ["IMAGE_EVERY", "NEVER", "UNREADABLE", "Replica"]
