"""Channels: how people are told that a call waits for them, by a signed webhook or by mail with one-time links.

```python
settlement = Settlement(
    "sqlite:///trip.db",
    channels=[
        WebhookChannel("https://chat.example/hooks/approvals", secret="whsec_…"),
        MailChannel("localhost", 25, sender="desk@b.example", link="https://desk.example/answer/{token}",
                    people={"ada": "ada@b.example"}, roles={"board": ["ada"]}),
    ],
)
```
"""

from __future__ import annotations

import email.policy
import email.utils
import smtplib
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from email.message import EmailMessage
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from settlemark.hosting import Notice, json_text
from settlemark_adapters._addresses import as_one_line, one_address
from settlemark_adapters._spans import span
from settlemark_adapters.webhook._signature import ID, SIGNATURE, TIMESTAMP, secrets_of, signature

if TYPE_CHECKING:
    import httpx

_POLICY = email.policy.SMTP.clone(cte_type="7bit")  # not every server takes eight bits
_OK = range(200, 300)
_ROLE = "role:"
_TOKEN = "{token}"  # noqa: S105 - a place in a link
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class NotTold(ConnectionError):
    """A notice was not brought: the settlement tries again later."""


class WebhookChannel:
    """Brings notices to one address, signed by Standard Webhooks.

    The body is `{"type": "approval.asked", "data": {…}}`: the notice, with the question as `settlemark approvals
    --json` shows it. `settlemark_adapters.webhook.verify` verifies it; `webhook-id` is the notice's id, the same
    whenever it is sent again.

    Args:
        url: where notices go; redirects are not followed. Errors tell its host alone.
        secret: signs what is sent: `whsec_` and Base64. Several, while one is replaced by another.
        name: what the channel is called in the record.
        timeout: seconds to wait for the answer.
        clock: returns seconds since 1970, for the signature.
        transport: of httpx, for tests.

    Raises:
        ImportError: httpx is not there: `settlemark[http]`.
        ValueError: the address or the secret is malformed.

    >>> import base64, httpx
    >>> from settlemark_adapters.webhook import verify
    >>> came = []
    >>> sink = httpx.MockTransport(lambda request: came.append(request) or httpx.Response(204))
    >>> secret = "whsec_" + base64.b64encode(b"s" * 24).decode()
    >>> channel = WebhookChannel("https://chat.example/in", secret=secret, transport=sink)
    >>> channel.tell(Notice("n1", "asked", ("ada",), "pay waits for a yes", "…", {"key": "k"}, 0.0))
    >>> event = verify(came[0].headers, came[0].content, secret)
    >>> event.id, event.topic, event.payload["to"]
    ('n1', 'approval.asked', ['ada'])
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | Sequence[str],
        name: str = "webhook",
        timeout: float = 10.0,
        clock: Callable[[], float] = time.time,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        import httpx

        from settlemark_adapters.http._client import readable

        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise ValueError("a webhook goes to an address as https://chat.example/hooks/approvals")
        self.name = name
        self._url, self._host = readable(url), parts.hostname
        self._secrets = secrets_of(secret)
        self._clock = clock
        # Not httpx.Client: it logs each address.
        self._transport = httpx.HTTPTransport() if transport is None else transport
        self._patience = {"timeout": httpx.Timeout(span("timeout", timeout)).as_dict()}

    def tell(self, notice: Notice) -> None:
        """Send a notice.

        Raises:
            NotTold: nobody answered, or not with a 2xx.
        """
        import httpx

        topic = "stuck" if notice.occasion == "stuck" else f"approval.{notice.occasion}"
        body = json_text.encode({"type": topic, "data": notice.to_json()}).encode()
        at = int(self._clock())
        signed = " ".join(signature(notice.id, at, body, secret) for secret in self._secrets)
        headers = {"Content-Type": "application/json", ID: notice.id, TIMESTAMP: str(at), SIGNATURE: signed}
        try:
            request = httpx.Request("POST", self._url, content=body, headers=headers, extensions=self._patience)
            with closing(self._transport.handle_request(request)) as response:
                status = response.status_code
        except httpx.HTTPError as error:
            raise NotTold(f"{self._host} did not answer: {type(error).__name__}") from None
        if status not in _OK:
            raise NotTold(f"{self._host} answered {status}")

    def close(self) -> None:
        """Close its connections."""
        self._transport.close()


class MailChannel:
    """Brings notices by mail, to each recipient one of his own, with a link by which he answers once.

    The link has a token that is secret, and of which the ledger keeps the digest alone: `settlement.redeem(token,
    "approve")` answers in the recipient's name. Have the page behind the link show the question and a button, and
    redeem when that is pressed: mail scanners open links, too.

    Args:
        host, port: the SMTP server.
        sender: who the mails are from: an address.
        people: addresses by name: `{"ada": "ada@b.example"}`.
        roles: names by role: `{"finance": ["ada", "bo"]}`: who is told as `role:finance`.
        anyone: the names of those who are told where anyone may answer.
        link: where people answer, with `{token}` in it; None: mails have no links.
        name: what the channel is called in the record.
        user, password: who logs in there; nobody by default.
        tls: `"starttls"`, `"implicit"` (port 465), or None.
        timeout: seconds to wait for each of the server's answers.
        local_hostname: this machine's name, as it is told to the server.

    Raises:
        ValueError: an address is none, a role names somebody without one, the link has no `{token}`, or the password
            would be sent in clear.

    >>> from settlemark.testing import Mailbox
    >>> with Mailbox() as box:
    ...     channel = MailChannel(box.host, box.port, sender="desk@b.example", people={"ada": "ada@b.example"},
    ...                           roles={"board": ["ada"]}, local_hostname="localhost")
    ...     channel.tell(Notice("n1", "asked", ("role:board",), "pay waits for a yes", "pay 5 EUR", {}, 0.0))
    ...     [(mail["to"], mail["subject"]) for mail in box.messages()]
    [('ada@b.example', 'pay waits for a yes')]
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing a mail server wants, or its user
        self,
        host: str,
        port: int,
        *,
        sender: str,
        people: Mapping[str, str],
        roles: Mapping[str, Iterable[str]] | None = None,
        anyone: Iterable[str] = (),
        link: str | None = None,
        name: str = "mail",
        user: str = "",
        password: str = "",
        tls: Literal["starttls", "implicit"] | None = None,
        timeout: float = 30.0,
        local_hostname: str | None = None,
    ) -> None:
        self.name = name
        self._host, self._port, self._here = host, port, local_hostname
        self._timeout = span("timeout", timeout)
        self._sender = one_address(sender)
        self._people = {who: one_address(address) for who, address in people.items()}
        self._roles = {role: tuple(members) for role, members in (roles or {}).items()}
        self._anyone = tuple(anyone)
        for who in (*self._anyone, *(who for members in self._roles.values() for who in members)):
            if who not in self._people:
                raise ValueError(f"{who!r} has no address in people=")
        if link is not None and _TOKEN not in link:
            raise ValueError(f"link={link!r} has no {_TOKEN} in it: where people answer is told apart by that")
        if password and tls is None and host not in _LOOPBACK:
            raise ValueError(f"the password would be sent to {host} in clear: give tls=")
        self._link, self._user, self._password, self._tls = link, user, password, tls

    def recipients(self, notice: Notice) -> list[tuple[str, tuple[str, ...]]]:
        """Return to whom a notice goes, of those whose address is known, and as what each is told."""
        found: dict[str, tuple[str, ...]] = {}
        for to in notice.to:
            role = to.removeprefix(_ROLE) if to.startswith(_ROLE) else None
            for who in (to,) if role is None else self._roles.get(role, ()):
                if who in self._people:
                    found[who] = (*found.get(who, ()), *(() if role is None else (role,)))
        return list(found.items()) if notice.to else [(who, ()) for who in self._anyone]

    def tell(self, notice: Notice) -> None:
        """Send a notice to each of its recipients.

        Raises:
            NotTold: the server cannot be reached, or refuses one of them; those before have it, and get it again under
                the same Message-ID.
        """
        whom = self.recipients(notice)
        if not whom:
            return
        try:
            with self._server() as server:
                for who, _ in whom:
                    server.send_message(self._letter(notice, who), self._sender, [self._people[who]])
        except (smtplib.SMTPException, OSError) as error:
            raise NotTold(f"{self._host} did not take the mail: {type(error).__name__}") from None

    def _letter(self, notice: Notice, who: str) -> EmailMessage:
        letter = EmailMessage(_POLICY)
        letter["Message-ID"] = f"<{notice.id}.{_named(who)}@{self._sender.rpartition('@')[2]}>"
        letter["Date"] = email.utils.formatdate(notice.at)
        letter["From"], letter["To"] = self._sender, self._people[who]
        letter["Subject"] = as_one_line(notice.subject)
        token = notice.tokens.get(who)
        text = notice.text
        if self._link is not None and token is not None:
            text += f"\n\nTo answer: {self._link.replace(_TOKEN, token)}\nThe link is yours alone, and answers once."
        letter.set_content(text)
        return letter

    def _server(self) -> smtplib.SMTP:
        context, here = ssl.create_default_context(), self._here
        if self._tls == "implicit":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                self._host, self._port, local_hostname=here, timeout=self._timeout, context=context
            )
        else:
            server = smtplib.SMTP(self._host, self._port, local_hostname=here, timeout=self._timeout)
        if self._tls == "starttls":
            server.starttls(context=context)
        if self._user:
            server.login(self._user, self._password)
        return server


def _named(who: str) -> str:
    return who.encode().hex()


__all__ = ["MailChannel", "NotTold", "WebhookChannel"]
