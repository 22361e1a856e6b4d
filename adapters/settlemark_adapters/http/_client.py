"""Sends one request, again where that is safe, and says what is known of it: done, refused, not sent, unknown."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypedDict
from urllib.parse import urljoin, urlsplit

from settlemark.hosting import in_words, kind_of, message_of, missing
from settlemark_adapters._spans import span
from settlemark_adapters.http._answer import Answer
from settlemark_adapters.http._errors import HttpError, HttpRefused, HttpTimedOut, HttpUnanswered, HttpUnsent
from settlemark_adapters.http._filling import authority, header_value
from settlemark_adapters.http._patience import Patience
from settlemark_adapters.http._secrets import Secrets

try:
    import httpx
except ImportError as _error:
    raise missing("this adapter speaks HTTP with httpx", "http", _error) from _error

MOST = 1 << 20
_ALWAYS = {"Accept": "application/json, */*;q=0.5", "Accept-Encoding": "identity", "User-Agent": "settlemark"}
_MOST_REDIRECTS = 3
# Not begun: the request came too early, too often, or is unknown to the server.
NOT_BEGUN = frozenset({HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.NOT_IMPLEMENTED})
_SAME_METHOD = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
_MOVED = frozenset({HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND, HTTPStatus.SEE_OTHER, *_SAME_METHOD})
_NOTHING_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
    httpx.InvalidURL,
)


class Options(TypedDict, total=False):
    """Options of a request.

    Attributes:
        reads: it changes nothing at the server.
        repeatable: sending it twice does it once: under a key, or by what its method means.
        definite: statuses from 500 on by which the server says that nothing was done.
        expected: statuses that are an ordinary answer, and no refusal.
        within: seconds after which it is not sent again, since the server may have forgotten its key.
    """

    reads: bool
    repeatable: bool
    definite: frozenset[int]
    expected: frozenset[int]
    within: float | None


@dataclass(frozen=True)
class Sending:
    """A request that is ready to be sent; see `Options` for the other attributes.

    Attributes:
        tool: the tool's name, for errors.
        method: its method.
        path: from the base address on, quoted, with its query.
        content: its body, or None.
        headers: beside the client's own.
    """

    tool: str
    method: str
    path: str
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    reads: bool = False
    repeatable: bool = False
    definite: frozenset[int] = frozenset()
    expected: frozenset[int] = frozenset()
    within: float | None = None


class Client:
    """One server, and the headers that go with every request to it and to nobody else.

    Laws: a request goes to the base address only, and follows no redirect to another one; no connection is kept, since
    a kept one that the server has closed would leave an outcome unknown needlessly; no cookie is kept, no address is
    logged, and no secret of an answer is repeated. A forked process has connections of its own.

    Args:
        transport: makes the connections; by default one of the client's own, without the environment's proxies and
            `.netrc`.
        shown: the address in errors, where that itself is a secret.
        hidden: more secrets, beside the headers.

    Raises:
        ValueError: the address is no plain http(s) address, or a header is invalid.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str],
        timeout: float,
        patience: Patience | None = None,
        most: int = MOST,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = time.sleep,
        transport: httpx.BaseTransport | None = None,
        shown: str | None = None,
        hidden: Collection[str] = (),
    ) -> None:
        self.base_url = checked_address(base_url)
        self.host = authority(self.base_url)
        self.timeout = span("timeout", timeout)
        self.patience = patience or Patience()
        self.clock = clock
        self._headers = {name: header_value(name, value) for name, value in headers.items()}
        self._secrets = Secrets(self._headers, hidden)
        self._most = most
        self._shown = shown
        self._sleep = sleep
        self._given = transport
        self._made: tuple[int, httpx.BaseTransport] | None = None

    @property
    def margin(self) -> float:
        """The seconds before a key is forgotten within which no call begins anew: its own tries may take so long."""
        return self.patience.longest(self.timeout)

    def send(self, sending: Sending) -> Answer:
        """Send a request and return the answer, of a status from 200 to 299 or an expected one.

        Raises:
            HttpRefused: a definite no.
            HttpUnsent: surely nothing was done.
            HttpUnanswered, HttpTimedOut: unknown.
        """
        began = self.clock()
        url = self.base_url + sending.path
        doubt = ""
        tries = redirects = 0
        while True:
            try:
                answer = self._once(sending, url)
            except HttpUnsent as error:
                if not doubt:
                    raise
                raise self._unanswered(sending, f"{error}, after it had answered {doubt}", None) from error
            if answer.ok or answer.status in sending.expected:
                return answer
            if redirects < _MOST_REDIRECTS and (moved := self._moved(sending, url, answer)):
                url, redirects = moved, redirects + 1
                continue
            tries += 1
            begun = not sending.reads and _may_have_begun(answer.status, sending)
            doubt = doubt or (str(answer) if begun else "")
            try:
                pause = self._pause(sending, answer, tries, begun=begun)
                if pause is None or (sending.within is not None and self.clock() - began + pause >= sending.within):
                    raise self._ended(sending, answer, doubt)
                self._sleep(pause)
            except HttpError:
                raise
            except Exception as error:  # a clock or a pause of the user's own; what was sent before stays in doubt
                if not doubt:
                    raise
                raise self._unanswered(sending, f"{in_words(error)}, after it had answered {doubt}", None) from error

    def scrub(self, value: Any) -> Any:
        """Return JSON data without this client's secrets."""
        return self._secrets.scrub(value)

    def _once(self, sending: Sending, url: str) -> Answer:
        headers = {**_ALWAYS, **self._headers, **sending.headers}
        timeouts = {"timeout": httpx.Timeout(self.timeout).as_dict()}
        try:
            # Not through httpx.Client: it logs each address, and keeps cookies.
            request = httpx.Request(sending.method, url, headers=headers, content=sending.content, extensions=timeouts)
            with closing(self._transport().handle_request(request)) as response:
                return self._read(response, time.monotonic() + self.timeout)
        except _NOTHING_SENT as error:
            raise self._error(
                HttpUnsent, sending, f"could not be sent ({_named(error)}), so nothing was done: see that it is there"
            ) from error
        except httpx.TimeoutException as error:
            raise self._error(HttpTimedOut, sending, f"was sent and not answered in {self.timeout:g} s") from error
        except httpx.HTTPError as error:
            raise self._unanswered(sending, _named(error), None) from error

    def _read(self, response: httpx.Response, deadline: float) -> Answer:
        raw, whole = bytearray(), True
        try:
            for chunk in response.iter_bytes():
                raw += chunk
                if len(raw) > self._most:
                    whole = False
                    break
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer does not end")
        except httpx.HTTPError:
            if response.status_code < HTTPStatus.BAD_REQUEST:
                raise  # the part that is missing tells what it did
            whole = False
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, headers, bytes(raw[: self._most]), whole, self._secrets)

    def _moved(self, sending: Sending, url: str, answer: Answer) -> str | None:
        """Return where a request may be redirected: to the same server, with nothing done so far."""
        may_follow = answer.status in (_MOVED if sending.reads else _SAME_METHOD)
        target = _location(url, answer)
        same = target is not None and urlsplit(target)[:2] == urlsplit(url)[:2]
        return target if may_follow and same and target != url else None

    def _pause(self, sending: Sending, answer: Answer, tries: int, *, begun: bool) -> float | None:
        """Return how long to wait before another try, or None for no other try."""
        patience = self.patience
        again = answer.status in patience.statuses or (begun and answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR)
        if not again or tries >= patience.tries or (begun and not sending.repeatable):
            return None
        told = answer.retry_after(self.clock())
        pause = patience.pause(tries) if told is None else told
        return pause if pause <= patience.most else None

    def _ended(self, sending: Sending, answer: Answer, doubt: str) -> HttpError:
        after = answer.retry_after(self.clock())
        if doubt:
            earlier = f", after it had answered {doubt}" if doubt != str(answer) else ""
            return self._unanswered(sending, f"it answered {answer}{earlier}", answer)
        if answer.status in _MOVED:
            elsewhere = urlsplit(_location(self.base_url, answer) or "").netloc
            advice = f"it points to {elsewhere or 'no address'}, which is not followed: name that address as base_url"
        elif after is not None:
            advice = f"it wants to be asked again in {after:g} s"
        else:
            advice = "try later" if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "change the call"
        return self._error(HttpRefused, sending, f"was refused with {answer}; nothing was done: {advice}", answer)

    def _unanswered(self, sending: Sending, why: str, answer: Answer | None) -> HttpError:
        return self._error(HttpUnanswered, sending, f"was sent, and what became of it is unknown: {why}", answer)

    def _error(self, kind: type[HttpError], sending: Sending, what: str, answer: Answer | None = None) -> HttpError:
        request = f"{sending.method} {self._shown or self.base_url + sending.path}"
        return kind(
            self.scrub(f"{sending.tool}: {request} {what}"),
            tool=sending.tool,
            request=self.scrub(request),
            status=None if answer is None else answer.status,
            body=None if answer is None else answer.content,
            retry_after=None if answer is None else answer.retry_after(self.clock()),
        )

    def _transport(self) -> httpx.BaseTransport:
        if self._given is not None:
            return self._given
        made = self._made
        if made is None or made[0] != os.getpid():
            transport = httpx.HTTPTransport(
                # Certificates take long to load: only for https.
                verify=urlsplit(self.base_url).scheme == "https",
                trust_env=False,
                limits=httpx.Limits(max_keepalive_connections=0),
            )
            self._made = made = (os.getpid(), transport)
        return made[1]


def checked_address(url: str) -> str:
    """Return a base address, without a slash at its end.

    Raises:
        ValueError: it is invalid; the message does not repeat it, since it may hold a password.

    >>> checked_address("https://api.example/v1/")
    'https://api.example/v1'
    """
    example = "write it as in https://api.example/v1"
    parts = urlsplit(readable(url))
    port, host = parts.port, httpx.URL(url).host
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise ValueError(f"the address names no http or https server: {example}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the address holds a user or password, which ends up in logs: pass headers= instead")
    if parts.query or parts.fragment or any(part in (".", "..") for part in parts.path.split("/")):
        raise ValueError(f"the address has more than a server and a path: {example}")
    return url.rstrip("/")


def readable(url: str) -> str:
    """Return an address that can be sent to, as it is.

    Raises:
        ValueError: it cannot; the message does not repeat it.
    """
    try:
        urlsplit(url).port  # noqa: B018 - it raises
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        raise ValueError("the address cannot be read: write it as in https://api.example/v1") from None
    return url


def _location(url: str, answer: Answer) -> str | None:
    """Return where an answer points to, or None if that cannot be read."""
    try:
        target = urljoin(url, answer.headers.get("location", ""))
        urlsplit(target)
    except ValueError:
        return None
    return target


def _may_have_begun(status: int, sending: Sending) -> bool:
    """Whether a request with this answer may have been done, in part or whole."""
    if status in NOT_BEGUN or status in sending.definite or status in _SAME_METHOD:
        return False
    refused = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return not refused or status == HTTPStatus.REQUEST_TIMEOUT


def _named(error: Exception) -> str:
    return in_words(error) if message_of(error) else kind_of(error)
