"""Mail through an SMTP server: held until its step settles, to all of its recipients or to none, and never twice.

SMTP has no idempotency key, so a message carries its decision's: the Message-ID is made from the key, and a search of
the sent messages (`find=`) tells by it the outcome of one whose answer was lost. A server refuses a recipient before it
gets the message, so that nobody has received it yet; only `partly=True` sends it to the others.
"""

from __future__ import annotations

import contextlib
import email.policy
import email.utils
import hashlib
import smtplib
import ssl
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, nullcontext
from email.message import EmailMessage
from typing import Any, Literal, NamedTuple

from settlemark import UNKNOWN, Settlement
from settlemark.hosting import escape
from settlemark_adapters._adapter import Adapter, operation
from settlemark_adapters._addresses import (
    Suppressed,
    addresses,
    one_address,
    one_line,
    recipients,
    some_text,
    suppressed_among,
)
from settlemark_adapters._spans import span

_POLICY = email.policy.SMTP.clone(cte_type="7bit")  # not every server takes eight bits
_LONGEST_REPLY = 300
_GOODBYE = 421
_YES, _NO = "2", ("4", "5")  # the first digit decides; another one says nothing
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class MailRefused(RuntimeError):
    """The server refused: nobody was sent anything.

    Attributes:
        refused: the server's reply, by recipient.
        accepted: the recipients it would have accepted.
        temporary: it may accept later.
    """

    def __init__(self, message: str, *, refused: dict[str, str] | None = None, accepted: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.refused = dict(refused or {})
        self.accepted = list(accepted)
        self.temporary = all(reply.startswith("4") for reply in self.refused.values())


class MailUnreachable(RuntimeError):
    """The server cannot be reached, or does not let the user in: nothing was sent."""


class MailLost(ConnectionError):
    """The connection broke after the message: whether it was accepted is unknown. Attribute `message_id`."""

    def __init__(self, message: str, *, message_id: str = "") -> None:
        super().__init__(message)
        self.message_id = message_id


class SuppressedRecipient(PermissionError):
    """A recipient is on the suppression list: nothing was sent. Attribute `addresses`: those on it."""

    def __init__(self, message: str, *, addresses: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.addresses = list(addresses)


class _Letter(NamedTuple):
    message_id: str
    recipients: list[str]
    content: bytes


class Mail(Adapter):
    """The tool `send_mail`, over one SMTP server.

    Args:
        host: the server's name.
        port: its port.
        settlement: as for every adapter.
        sender: who the mails are from: `"desk@hotel.example"`, or with a name: `"Desk <desk@hotel.example>"`.
        user: who logs in there; nobody by default.
        password: of that user; only ever told to the server, and without `tls` only to one on this machine.
        tls: `"starttls"` (the server must offer it), `"implicit"` (port 465), or None.
        context: which certificates are trusted; the system's by default.
        suppressed: who must not be written to: a collection of addresses (it may grow later), a file with one a line
            (`#` begins a comment), or a function that is given an address in lower case and says whether it is. An
            entry `@domain` stands for all of a domain; one with more in it (`Ada <ada@b.example>; on Monday`) for every
            address there. Asked when the mail is called for, and again when it leaves: no run can pass it. When it
            cannot be read, nothing is sent.
        find: given a Message-ID, says whether the server has accepted that message: searches a journal, or a sent
            folder. It returns its recipients or True; None or False when it surely has not (one that lags behind
            must not say so); or `settlemark.UNKNOWN`. Without it an outcome that was lost stays unknown.
        partly: send to the others when the server refuses some; the result then names both.
        timeout: seconds to wait for each of the server's answers.
        local_hostname: this machine's name, as it is told to the server.
        options: `name` and `effects`, as for every adapter.

    Raises:
        ValueError: `sender` is no address, or the password would be sent in clear.
        TypeError: `suppressed` is one text: a path is `Path(…)`, one address is `[…]`.

    >>> from settlemark.testing import Mailbox
    >>> with Mailbox() as box, Settlement("memory:") as settlement:
    ...     mail = Mail(box.host, box.port, settlement, sender="desk@hotel.example", local_hostname="localhost")
    ...     with settlement.transaction("trip") as tx:
    ...         tx.call(mail.send, to="ada@b.example", subject="Booked", body="Room 7").outcome
    ...     [(sent["to"], sent["message_id"] == mail.message_id("trip#1/0")) for sent in box.messages()]
    'queued'
    [('ada@b.example', True)]
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing a mail server wants, or its user
        self,
        host: str,
        port: int = 25,
        settlement: Settlement | None = None,
        *,
        sender: str,
        user: str | None = None,
        password: str | None = None,
        tls: Literal["starttls", "implicit"] | None = None,
        context: ssl.SSLContext | None = None,
        suppressed: Suppressed = (),
        find: Callable[[str], Any] | None = None,
        partly: bool = False,
        timeout: float = 30.0,
        local_hostname: str | None = None,
        **options: Any,
    ) -> None:
        if password is not None and tls is None and host not in _LOOPBACK:
            raise ValueError(f"the password would be sent to {host} in clear: give tls='starttls' or tls='implicit'")
        if isinstance(suppressed, str):
            raise TypeError("suppressed= is one text: give Path(…) for a file, […] for addresses")
        name, address = email.utils.parseaddr(one_line("sender", sender))
        self._sender = one_address(address)
        self._from = email.utils.formataddr((name, self._sender))
        self._domain = self._sender.rpartition("@")[2]
        self._host, self._port, self._local_hostname = host, port, local_hostname
        self._timeout = span("timeout", timeout)
        self._login = None if user is None or password is None else (user, password)
        self._tls, self._context = tls, context
        self._suppressed, self._find, self._partly = suppressed, find, partly
        super().__init__(settlement, **options)

    def message_id(self, key: str) -> str:
        """Return the Message-ID for a key: the same for every try of one decision."""
        return f"<{hashlib.sha256(key.encode()).hexdigest()[:32]}@{self._domain}>"

    # ---- the tool

    def _scopes(self, to: Any, cc: Any = None, bcc: Any = None) -> list[str]:
        # A server may mind the case of what stands before the @; most do not, and then it is one mailbox.
        spelled = [each for address in recipients(to, cc, bcc) for each in (address, address.casefold())]
        return [f"mail:/{escape(address)}" for address in dict.fromkeys(spelled)]

    def _fit(self, **arguments: Any) -> None:
        self._refuse_suppressed(self._written("", **arguments).recipients)

    def _let(self, to: Any, cc: Any = None, bcc: Any = None) -> AbstractContextManager[None]:
        # It may have been put on the list since the call; a user's own function is asked here, too.
        self._refuse_suppressed(recipients(to, cc, bcc))
        return nullcontext()

    def _sent(self, key: str, to: Any, cc: Any = None, bcc: Any = None) -> Any:
        return self._found(self.message_id(key), recipients(to, cc, bcc))

    @operation("send_mail", "irreversible", scope=_scopes, check=_fit, around=_let, probe=_sent)
    def send(
        self,
        to: list[str] | str,
        subject: str,
        body: str,
        cc: list[str] | None = None,
        bcc: list[str] | None = None,
        html: str | None = None,
        reply_to: str | None = None,
    ) -> dict[str, Any]:
        """Send a mail. It leaves when the step settles, to all recipients or to none.

        Args:
            to: who it is to: one address, or several.
            subject: its subject, one line.
            body: its text.
            cc: who gets a copy.
            bcc: who gets a copy that the others do not see.
            html: the same text as HTML.
            reply_to: the address that answers are to go to.
        """
        letter = self._written(self.key, to, subject, body, cc, bcc, html, reply_to)
        with self._server() as server:
            accepted, refused = self._delivered(server, letter)
        return {"message_id": letter.message_id, "accepted": accepted, "refused": refused}

    # ---- what was sent

    def _found(self, message_id: str, everybody: list[str]) -> Any:
        found: Any = UNKNOWN if self._find is None else self._find(message_id)
        if found is UNKNOWN or not found:
            return UNKNOWN if found is UNKNOWN else None
        known = {str(address).casefold() for address in (everybody if found is True else found)}
        accepted = [address for address in everybody if address.casefold() in known]
        refused = {address: "it was not sent to them" for address in everybody if address not in accepted}
        return {"message_id": message_id, "accepted": accepted, "refused": refused}

    def _refuse_suppressed(self, everybody: list[str]) -> None:
        among = suppressed_among(self._suppressed, everybody)
        if among:
            raise SuppressedRecipient(
                f"send_mail: {', '.join(among)} must not be written to (suppression list): nothing was sent to"
                " anyone; leave them out of to, cc and bcc",
                addresses=among,
            )

    # ---- the message

    def _written(
        self,
        key: str,
        to: Any = (),
        subject: Any = "",
        body: Any = "",
        cc: Any = None,
        bcc: Any = None,
        html: Any = None,
        reply_to: Any = None,
        **_others: Any,  # other arguments of a user's own function
    ) -> _Letter:
        """Return the message.

        Raises:
            ValueError: an address, a header or a text is malformed.
        """
        message = EmailMessage(policy=_POLICY)
        message["From"] = self._from
        message["To"] = ", ".join(addresses("to", to))
        if cc:
            message["Cc"] = ", ".join(addresses("cc", cc))
        if reply_to is not None:
            message["Reply-To"] = one_address(one_line("reply_to", reply_to))
        message["Subject"] = one_line("subject", subject)
        message["Date"] = email.utils.format_datetime(email.utils.localtime())
        message["Message-ID"] = self.message_id(key)
        message.set_content(some_text("body", body))
        if html is not None:
            message.add_alternative(some_text("html", html), subtype="html")
        return _Letter(self.message_id(key), recipients(to, cc, bcc), message.as_bytes())

    # ---- the server

    @contextlib.contextmanager
    def _server(self) -> Generator[smtplib.SMTP]:
        """Yield a connection that is ready for a message."""
        try:
            server = self._connected()
        except (smtplib.SMTPException, OSError) as error:
            # A server's answer to a login may repeat the password.
            said = f"error {error.smtp_code}" if isinstance(error, smtplib.SMTPAuthenticationError) else error
            raise MailUnreachable(
                f"send_mail: {self._host}:{self._port} takes no mail from here ({said}): nothing was sent;"
                " see whether it runs, and what user=, password= and tls= it wants"
            ) from (None if isinstance(error, smtplib.SMTPAuthenticationError) else error)
        try:
            yield server
            with contextlib.suppress(smtplib.SMTPException, OSError):
                server.quit()  # whatever it answers, the mail was accepted
        finally:
            server.close()

    def _connected(self) -> smtplib.SMTP:
        where: dict[str, Any] = {"local_hostname": self._local_hostname, "timeout": self._timeout}
        context = self._context or (None if self._tls is None else ssl.create_default_context())
        if self._tls == "implicit":
            server: smtplib.SMTP = smtplib.SMTP_SSL(self._host, self._port, context=context, **where)
        else:
            server = smtplib.SMTP(self._host, self._port, **where)
        try:
            if self._tls == "starttls":
                server.starttls(context=context)
            server.ehlo_or_helo_if_needed()
            if self._login is not None:
                server.login(*self._login)
        except BaseException:
            server.close()
            raise
        return server

    def _delivered(self, server: smtplib.SMTP, letter: _Letter) -> tuple[list[str], dict[str, str]]:
        """Give the server the message, and return who gets it and who, with its reply, does not.

        Raises:
            MailRefused: nobody does.
            MailUnreachable: it went away before it had the message.
            MailLost: it went away afterwards.
        """
        try:
            accepted, refused = self._announced(server, letter.recipients)
        except (smtplib.SMTPException, OSError) as error:
            raise MailUnreachable(
                f"send_mail: {self._host} went away before it had the message ({error}): nothing was sent"
            ) from error
        if refused and not (self._partly and accepted):
            raise _refusal(self._host, accepted, refused)
        try:
            reply = _reply(server.data(letter.content))
        except smtplib.SMTPDataError as error:  # it refused the message before it was sent
            raise _refusal(
                self._host, [], refused | dict.fromkeys(accepted, _reply((error.smtp_code, error.smtp_error)))
            ) from None
        except (smtplib.SMTPException, OSError) as error:
            raise MailLost(
                f"send_mail: the connection to {self._host} broke before it had answered ({error}): look there for"
                f" {letter.message_id}, or give find= so that it is looked for",
                message_id=letter.message_id,
            ) from error
        if reply.startswith(_NO):
            raise _refusal(self._host, [], refused | dict.fromkeys(accepted, reply))
        if not reply.startswith(_YES):
            raise MailLost(
                f"send_mail: {self._host} answered {reply!r} to the message, which is neither yes nor no: look there"
                f" for {letter.message_id}, or give find= so that it is looked for",
                message_id=letter.message_id,
            )
        return accepted, refused

    def _announced(self, server: smtplib.SMTP, everybody: list[str]) -> tuple[list[str], dict[str, str]]:
        """Tell the server the recipients; return whom it accepts and whom not."""
        code, said = server.mail(self._sender)
        if not _reply((code, said)).startswith(_YES):
            return [], dict.fromkeys(everybody, _reply((code, said)))
        refused: dict[str, str] = {}
        for number, address in enumerate(everybody):
            code, said = server.rcpt(address)
            reply = _reply((code, said))
            if code == _GOODBYE:
                return [], refused | dict.fromkeys(everybody[number:], reply)
            if not reply.startswith(_YES):
                refused[address] = reply
        return [address for address in everybody if address not in refused], refused


def _refusal(host: str, accepted: list[str], refused: dict[str, str]) -> MailRefused:
    said = "; ".join(f"{address}: {reply}" for address, reply in refused.items())
    others = f", and would have taken {', '.join(accepted)}" if accepted else ""
    final = any(reply.startswith("5") for reply in refused.values())
    advice = "correct or leave out who it refuses" if final else "it may take it later"
    return MailRefused(
        f"send_mail: {host} refused {said}{others}: nothing was sent to anyone; {advice}",
        refused=refused,
        accepted=accepted,
    )


def _reply(answer: tuple[int, bytes | str]) -> str:
    code, said = answer
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return f"{code} {' '.join(text.split())}"[:_LONGEST_REPLY]


__all__ = ["Mail", "MailLost", "MailRefused", "MailUnreachable", "SuppressedRecipient"]
