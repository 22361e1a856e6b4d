"""The errors of an HTTP call, split by what is known of its effect: surely nothing, or unknown.

```
HttpError
├── HttpUnsent        no connection was made, or the request could not be written: surely nothing was done
├── HttpRefused       a definite no, with `status` and `body`
├── HttpUnreadable    a read was answered with what cannot be read
└── HttpUnanswered    it may have been done (a ConnectionError, so a settlement takes it for unknown)
    └── HttpTimedOut  there was no answer in time (a TimeoutError)
```
"""

from __future__ import annotations

from typing import Any


def _rebuild(cls: type[HttpError], message: str, data: dict[str, Any]) -> HttpError:
    return cls(message, **data)


class HttpError(Exception):
    """Base of an HTTP call's errors; none of them contains secrets.

    Attributes:
        tool: the called tool's name.
        request: method and address.
        status: the answer's status, or None without an answer.
        body: the answer's content, as JSON data or text, or None.
        retry_after: seconds after which the server wants to be asked again, or None.

    >>> HttpRefused("no", status=422, body={"error": "too many"}).status
    422
    """

    def __init__(
        self,
        message: str,
        *,
        tool: str = "",
        request: str = "",
        status: int | None = None,
        body: Any = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.tool = tool
        self.request = request
        self.status = status
        self.body = body
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        names = ("tool", "request", "status", "body", "retry_after")
        return _rebuild, (type(self), str(self), {name: getattr(self, name) for name in names})


class HttpUnsent(HttpError):
    """No connection was made, or the request could not be written: surely nothing was done."""


class HttpRefused(HttpError):
    """The server said no: surely nothing was done."""


class HttpUnreadable(HttpError):
    """A read's answer cannot be read: it is too long, or is not JSON."""


class HttpUnanswered(HttpError, ConnectionError):
    """The request was sent and its outcome is unknown: it is probed, or sent again under its key."""


class HttpTimedOut(HttpUnanswered, TimeoutError):
    """The request was sent and there was no answer in time: its outcome is unknown."""
