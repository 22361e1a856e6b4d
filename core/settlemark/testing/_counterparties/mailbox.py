"""A real SMTP server in another process: keeps what it accepted in its own log, and fails on request."""

from __future__ import annotations

import asyncio
import email
import email.policy
import email.utils
import importlib
import importlib.util
import smtplib
import threading
from collections import deque
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from settlemark.testing._counterparties.process import ChildServer, Journal, attend, read_journal

if TYPE_CHECKING:
    import os
    from types import TracebackType

_TIMEOUT_SECONDS = 10.0
_REPLIES = {
    "transient": "451 4.3.0 try again later",
    "permanent": "554 5.7.1 this message will never be accepted",
}


class Mailbox:
    """A mail server on loopback, started as a child process.

    Usable from many threads; another process reaches the same mailbox with `connect(**mailbox.address)`.

    Laws: a message is in the log before it is acknowledged. SMTP knows no idempotency key: a message sent
    twice is there twice, with the same `message_id`.

    Raises:
        ImportError: aiosmtpd is not installed; the message names the extra.

    >>> with Mailbox() as mailbox:
    ...     receipt = mailbox.send("ada@b.example", "Booked", "Room 7", message_id="<trip-1@b.example>")
    ...     [(mail["to"], mail["subject"], mail["body"]) for mail in mailbox.messages()]
    [('ada@b.example', 'Booked', 'Room 7')]
    """

    host: str
    port: int
    log_path: str
    _child: ChildServer | None

    def __init__(self, log_path: str | os.PathLike[str] | None = None) -> None:
        if importlib.util.find_spec("aiosmtpd") is None:
            raise ImportError(
                'Mailbox needs aiosmtpd: pip install "settlemark[demo]"',
                name="aiosmtpd",
            )
        child = ChildServer("settlemark.testing._counterparties.mailbox", log_path)
        self._attach("127.0.0.1", child.ready["port"], child.log_path, child)

    @classmethod
    def connect(cls, host: str, port: int, log_path: str) -> Self:
        """A mailbox that runs already: sends and reads; `fail` and `reset` are its starter's."""
        self = cls.__new__(cls)
        self._attach(host, port, log_path, None)
        return self

    def _attach(self, host: str, port: int, log_path: str, child: ChildServer | None) -> None:
        self.host = host
        self.port = port
        self.log_path = log_path
        self._child = child

    @property
    def address(self) -> dict[str, Any]:
        """What `connect` takes, as plain JSON."""
        return {"host": self.host, "port": self.port, "log_path": self.log_path}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child this object started (with its log, if temporary)."""
        if self._child is not None:
            self._child.close()

    def send(
        self,
        to: str,
        subject: str,
        body: str,
        *,
        message_id: str | None = None,
        sender: str = "agent@settlemark.example",
        timeout: float = _TIMEOUT_SECONDS,
    ) -> dict[str, str]:
        """The receipt of an accepted message: `to`, `subject`, `message_id`.

        Raises:
            smtplib.SMTPResponseException: A definite no (451, 554): nothing was accepted.
            ConnectionError: The connection broke before an answer: the outcome is unknown.
            TimeoutError: No answer in time: the outcome is unknown.
        """
        message = EmailMessage(policy=email.policy.SMTP)
        message["From"] = sender
        message["To"] = to
        message["Subject"] = subject
        message["Message-ID"] = message_id or email.utils.make_msgid(domain="settlemark.example")
        message.set_content(body)
        recipients = [address.addr_spec for address in message["To"].addresses]
        try:
            # A host name given here saves smtplib from asking the name service for it.
            with smtplib.SMTP(self.host, self.port, local_hostname="localhost", timeout=timeout) as server:
                # Not `send_message`: its generator turns a line's "From " into ">From ".
                server.sendmail(sender, recipients, message.as_bytes())
        except smtplib.SMTPServerDisconnected as broken:
            raise ConnectionError(
                f"the connection broke before the mail to {to} was acknowledged: look for its message id"
            ) from broken
        return {"to": to, "subject": subject, "message_id": str(message["Message-ID"])}

    def messages(self) -> list[dict[str, Any]]:
        """The accepted messages since the last reset, oldest first, read from the log file."""
        return read_journal(self.log_path)

    def fail(self, how: Literal["transient", "permanent", "lost"], *, times: int = 1) -> None:
        """Let the next `times` messages fail (-1: for good); earlier rules are used up first.

        `transient`: refused with 451. `permanent`: refused with 554. `lost`: accepted, then the connection
        drops before the 250.
        """
        if how not in (*_REPLIES, "lost"):
            raise ValueError(f"a mailbox fails in these ways: transient, permanent, lost; not {how!r}")
        self._control({"how": how, "times": times})

    def heal(self) -> None:
        """Clear all faults."""
        self._control({"how": None})

    def reset(self) -> None:
        """Start afresh: no messages, no faults. The log keeps its lines; `messages` looks after it."""
        self._control({"how": "reset"})

    def _control(self, message: dict[str, Any]) -> None:
        if self._child is None:
            raise RuntimeError("this mailbox is only connected to: ask the process that started it")
        self._child.ask(message)


class _Inbox:
    """What aiosmtpd asks about each message."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._rules: deque[dict[str, Any]] = deque()

    def control(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            if message["how"] in (None, "reset"):
                self._rules.clear()
            else:
                self._rules.append(message)
            if message["how"] == "reset":
                self._journal.append({"event": "reset"})
        return {}

    def _take_fault(self) -> str | None:
        with self._lock:
            while self._rules:
                rule = self._rules[0]
                if rule["times"] != 0:
                    rule["times"] -= rule["times"] > 0
                    return cast("str", rule["how"])
                self._rules.popleft()
        return None

    async def handle_DATA(self, server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        how = self._take_fault()
        if how in _REPLIES:
            return _REPLIES[how]
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        part = message.get_body(("plain", "html"))
        body = "" if part is None else str(part.get_content())
        self._journal.append(
            {
                "from": envelope.mail_from,
                "to": ", ".join(envelope.rcpt_tos),
                "subject": str(message["Subject"] or ""),
                "message_id": str(message["Message-ID"] or ""),
                "body": body.replace("\r\n", "\n").removesuffix("\n"),
            }
        )
        if how == "lost":
            server.transport.abort()
            # The lost connection cancels this very coroutine: there is no answer to give.
            await asyncio.Event().wait()
        return "250 OK"


def main(log_path: str) -> None:
    """Serve until the parent is gone."""
    # By name: aiosmtpd is optional, and has no types that strict checkers accept.
    smtp: Any = importlib.import_module("aiosmtpd.smtp")
    inbox = _Inbox(Journal(log_path))
    loop = asyncio.new_event_loop()

    def talk() -> Any:
        return smtp.SMTP(inbox, hostname="localhost", enable_SMTPUTF8=True, loop=loop)

    # Not aiosmtpd's Controller: it connects to the port it was given, and 0 is none.
    server = loop.run_until_complete(loop.create_server(talk, "127.0.0.1", 0))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    attend({"port": server.sockets[0].getsockname()[1]}, inbox.control)
