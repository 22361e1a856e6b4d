"""An SMTP server in another process that can do what `Mailbox` cannot: say no to one of several recipients, ask who
one is, speak TLS, and go away at a given step. It keeps what it accepted in its own log."""

from __future__ import annotations

import asyncio
import email
import email.policy
import ssl
import threading
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult
from tests.rooms.testing import ChildServer, Journal, attend, read_journal

USER, PASSWORD = "desk", "hunter2-hunter2"


class PostOffice:
    """Its parent's end. `told` says what it does: see `Clerk`."""

    def __init__(self, log_path: str | Path) -> None:
        self._child = ChildServer("tests.adapters.mail.server", log_path)
        self.host, self.port, self.log_path = "localhost", self._child.ready["port"], self._child.log_path

    def told(self, **orders) -> None:
        """Do as it says from here on."""
        self._child.ask(orders)

    def log(self) -> list[dict]:
        """What it was sent, and who tried."""
        return [{k: v for k, v in e.items() if k not in ("n", "at")} for e in read_journal(self.log_path)]

    def mails(self) -> list[dict]:
        """What it accepted."""
        return [entry for entry in self.log() if entry["event"] == "mail"]

    def close(self) -> None:
        """End it."""
        self._child.close()


class Clerk:
    """What aiosmtpd asks.

    `refuse`: a reply by recipient. `leave_at`: "MAIL", "RCPT", "DATA" or "BODY" (after it is in the log), where it
    breaks the connection; `hang`: it never answers a message that it has taken. `times`: how many messages that is.
    """

    def __init__(self, log_path: str) -> None:
        self.journal = Journal(log_path)
        self.orders: dict = {}

    def control(self, orders):
        self.orders = orders
        return {}

    def _leaves(self, server, step):
        if self.orders.get("leave_at") != step:
            return False
        self.orders = {} if self.orders.get("times", -1) == 1 else self.orders
        server.transport.abort()
        return True

    async def handle_MAIL(self, server, _session, envelope, address, options):  # noqa: N802 - aiosmtpd's name
        if self._leaves(server, "MAIL"):
            return ""
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(self, server, _session, envelope, address, _options):  # noqa: N802 - aiosmtpd's name
        self.journal.append({"event": "rcpt", "to": address})
        if self._leaves(server, "RCPT"):
            return ""
        reply = self.orders.get("refuse", {}).get(address)
        if reply:
            return reply
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - aiosmtpd's name
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.journal.append(
            {
                "event": "mail",
                "to": list(envelope.rcpt_tos),
                "from": envelope.mail_from,
                "headers": [[name, str(value)] for name, value in message.items() if name != "Date"],
                "parts": [
                    [p.get_content_type(), p.get_content().replace("\r\n", "\n")]
                    for p in message.walk()
                    if not p.is_multipart()
                ],
                "user": session.auth_data.login.decode() if session.authenticated else None,
                "tls": session.ssl is not None,
            }
        )
        if self._leaves(server, "BODY"):
            await asyncio.Event().wait()
        if self.orders.get("hang"):
            self.orders = {}
            await asyncio.Event().wait()
        return "250 OK"


def _who(_server, _session, _envelope, _mechanism, login):
    good = (login.login, login.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=good, handled=good, auth_data=login)


def main(log_path: str) -> None:
    """Serve until the parent is gone; with TLS where a certificate lies beside the log."""
    clerk = Clerk(log_path)
    loop = asyncio.new_event_loop()
    certificate = Path(log_path).with_name("certificate.pem")
    context = None
    if certificate.exists():
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)

    def talk():
        return SMTP(
            clerk, hostname="localhost", loop=loop, tls_context=context, authenticator=_who, auth_require_tls=False
        )

    server = loop.run_until_complete(loop.create_server(talk, "127.0.0.1", 0))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    attend({"port": server.sockets[0].getsockname()[1]}, clerk.control)
