"""Telling people: what they are to be told is on record, and each channel brings it, once if nothing goes wrong."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from settlemark._acts.perform import Program
from settlemark._approvals.answers import ApprovalRecord
from settlemark._approvals.channel import Channel, LinkChannel, Notice
from settlemark._edges.errors import LedgerError
from settlemark._edges.wording import is_a
from settlemark._engine.kernel import Kernel
from settlemark._observe.logs import about, quote_of
from settlemark._protocol.protocol import Protocol
from settlemark._report.questions import Question, asked_account
from settlemark.ledger._approvals import approval_of_key, rewrite
from settlemark.ledger._contract import Book
from settlemark.ledger._links import Link, add_link
from settlemark.ledger._notices import (
    NoticeRow,
    add_notice,
    drop_notice,
    next_notice,
    note_told,
    put_off,
    take_notices,
)

log = logging.getLogger("settlemark")

_DIGITS, _TOKEN_BYTES = 32, 32


class Notices:
    """Tells people what is on record for them.

    Attributes:
        channels: by their names; empty: this process tells nobody.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.channels: Mapping[str, Channel] = {}

    def ask(self, book: Book, record: ApprovalRecord, one: Question, at: float) -> None:
        """Record that people are to be told of a question, in this step, if it is time."""
        found = record.to_tell(at) if self.channels else []
        for occasion, to in found:
            again = f"/{record.round}" if record.round else ""
            number = f"{record.key}{again}/{occasion}/{record.told or 0.0!r}/{'/'.join(to)}"
            told = replace(one, approval=record)
            notice = Notice(
                hashlib.sha256(number.encode()).hexdigest()[:_DIGITS],
                occasion,
                to,
                f"{one.tool} on {one.scope} waits for a yes",
                asked_account([told]),
                told.to_json(),
                at,
            )
            add_notice(
                book,
                notice,
                run=one.run,
                channels=self.channels,
                name=one.transaction,
                attempt=one.attempt,
                key=one.key,
            )
        if found:
            rewrite(book, record, at=at, told=at)

    def next(self, book: Book) -> float | None:
        """Return when somebody is to be told next, on the store's clock; None: nobody is."""
        return next_notice(book) if self.channels else None

    def tell_people(self) -> Program[None]:
        """Bring what is to be told now: each notice to each of its channels that this process has."""
        if not self.channels:
            return
        taken: list[NoticeRow] = yield from self._kernel.step(self._take, durable=True)
        for row in taken:
            yield from self._tell(row)

    def _take(self, _protocol: Protocol, book: Book) -> list[NoticeRow]:
        at, found = self._kernel.ledger.time(), list[NoticeRow]()
        for row in take_notices(book, at, self.channels):
            record = None if row.about is None else approval_of_key(book, row.about)
            if record is None or record.waits:
                found.append(row)
            else:
                drop_notice(book, row, at)  # it was answered meanwhile
        return found

    def _tell(self, row: NoticeRow) -> Program[None]:
        now: NoticeRow | None = row
        for name in row.left:
            channel = self.channels.get(name)
            if channel is None or now is None:
                continue  # another process has it
            try:
                notice = row.notice
                if row.about is not None and isinstance(channel, LinkChannel):
                    notice = yield from self._with_tokens(row, channel)
                yield self._kernel.callers.asking("", channel.tell, notice)
            except (GeneratorExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                if is_a(error, LedgerError):
                    raise
                log.warning(
                    "%s could not be told by %s, which is tried again: %s",
                    row.notice.subject,
                    name,
                    quote_of(error),
                    extra=about(run=row.run),
                )
                continue
            now = yield from self._kernel.step(partial(self._note, now, name), durable=True)
        if now is not None and now.left:
            yield from self._kernel.step(partial(self._put_off, now), durable=True)

    def _with_tokens(self, row: NoticeRow, channel: LinkChannel) -> Program[Notice]:
        """Return a notice with a token for each of its recipients, of which the digests are on record."""
        whom = dict(channel.recipients(row.notice))
        tokens = {name: secrets.token_urlsafe(_TOKEN_BYTES) for name in whom}

        def keep(_protocol: Protocol, book: Book) -> None:
            record, at = approval_of_key(book, row.about or ""), self._kernel.ledger.time()
            if record is None:
                return
            of: dict[str, Any] = {"run": row.run, "name": record.transaction or None, "attempt": record.attempt or None}
            for name, token in tokens.items():
                add_link(
                    book, token, Link(record.key, record.digest, name, tuple(whom[name]), record.round), at=at, **of
                )

        yield from self._kernel.step(keep, durable=True)
        return replace(row.notice, tokens=tokens)

    def _note(self, row: NoticeRow, name: str, _protocol: Protocol, book: Book) -> NoticeRow | None:
        return note_told(book, row, self._kernel.ledger.time(), name)

    def _put_off(self, row: NoticeRow, _protocol: Protocol, book: Book) -> None:
        if not set(row.left) & set(self.channels):
            return  # what is left is for another process
        put_off(book, row, self._kernel.ledger.time())


__all__ = ["Notices"]
