"""Machine-readable logs: every record of the logger `settlemark` carries its subject as data.

The data has names, scopes, keys and outcomes: never arguments or results.
"""

from __future__ import annotations

import json
import logging
import weakref
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO, cast

from settlemark._edges.errors import InternalError, LedgerError
from settlemark._edges.plain import plain, plain_json, plain_traceback, told
from settlemark._edges.wording import in_words, is_a, kept_by, kind_of

if TYPE_CHECKING:
    from settlemark._protocol.holdings import Txn

FIELD = "settlemark"
LOGGER = "settlemark"
WITHHELD = "(withheld: its ledger is encrypted)"


class Quote(str):  # noqa: SLOT000 - it has a replacement text
    """A text that may quote a payload, as an argument of a log call: withheld while a ledger here is encrypted."""

    instead = WITHHELD


def quote_of(error: BaseException) -> Quote:
    """Return an exception in words, as an argument of a log call; only its class where payloads are withheld."""
    quote = Quote(in_words(error))
    quote.instead = str(quote) if is_a(error, _OURS) else f"{kind_of(error)} {WITHHELD}"
    return quote


class _Shown(logging.Filter):
    """A filter for settlemark's records: names cannot steer a terminal, and encrypted payloads are not quoted.

    The filter is on the logger, not on a handler, so that every handler gets filtered records.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the record's message; its data stays."""
        tells = not _encrypted
        if isinstance(record.args, tuple):
            record.args = tuple(_shown(value, tells=tells) for value in record.args)
        elif isinstance(record.args, Mapping):
            record.args = {name: _shown(value, tells=tells) for name, value in record.args.items()}
        record.msg = plain(record.msg)
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is not None:
            record.exc_text = plain_traceback(error, messages=tells)
            if not tells:
                record.exc_info = None  # an application's handler would print the message
        return True


def _shown(value: object, *, tells: bool) -> object:
    kind = type(value)  # and not what a class of somebody's own says of itself
    if issubclass(kind, int | float):
        return value
    if issubclass(kind, BaseException) and not tells and not issubclass(kind, _OURS):
        return f"{kind_of(value)} {WITHHELD}"
    if kind is Quote and not tells:
        return cast("Quote", value).instead
    return plain(value)


_OURS = (LedgerError, InternalError)
"""These name keys, tools and stores, and quote no payload."""
_encrypted: weakref.WeakSet[object] = weakref.WeakSet()
logging.getLogger(LOGGER).addFilter(_Shown())


def redact_logs_for(whose: object) -> None:
    """Keep payloads out of this process's logs while an object that uses an encrypted ledger lives."""
    _encrypted.add(whose)


def stop_redacting_for(whose: object) -> None:
    """Stop what `redact_logs_for` began: the ledger is closed."""
    _encrypted.discard(whose)


def about(**data: Any) -> dict[str, Any]:
    """Return the `extra=` of a log call: the record's subject; None is left out.

    >>> about(transaction="trip-42", scope=None)
    {'settlemark': {'transaction': 'trip-42'}}
    """
    return {FIELD: {key: value for key, value in data.items() if value is not None}}


def about_txn(txn: Txn, **data: Any) -> dict[str, Any]:
    """Return the `extra=` of a log call about a transaction."""
    return about(transaction=txn.name, run=txn.run, attempt=txn.attempt, epoch=txn.epoch, **data)


def log_failure(log: logging.Logger, text: str, error: BaseException, **data: Any) -> None:
    """Log that a user's function failed where the failure must harm nobody, with the traceback if there is one.

    The record holds the traceback as logging would find it, and nothing is asked of the exception itself. A handler of
    the application may ask the exception, and fail.
    """
    said, found = quote_of(error), (type(error), error, kept_by(error)[0])
    with suppress(Exception):
        try:
            log.error("%s: %s", text, said, exc_info=found, extra=about(**data))
        except Exception:
            log.error("%s: %s", text, said, extra=about(**data))  # noqa: TRY400 - the traceback cannot be written


class JsonLines(logging.Formatter):
    """Formats a log record as one JSON object on one line, with its data beside its message.

    Fields: `at` (UTC), `level`, `logger`, `message`; the record's subject, such as `transaction`, `run`, `epoch`,
    `scope`, `tool`, `key`, `worker`; and `exception` with its traceback.

    >>> import json
    >>> record = logging.LogRecord("settlemark", logging.INFO, "", 0, "%s waits", ("trip-42",), None)
    >>> record.settlemark = {"transaction": "trip-42"}
    >>> json.loads(JsonLines().format(record))["transaction"]
    'trip-42'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        data = getattr(record, FIELD, None)
        if isinstance(data, Mapping):
            line = {**data, **line}
        if record.exc_info:
            line["exception"] = record.exc_text or self.formatException(record.exc_info)
        elif record.exc_text:
            line["exception"] = record.exc_text
        return plain_json(json.dumps(line, ensure_ascii=False, default=told))


def json_logs(stream: TextIO | None = None, *, level: int | str = logging.INFO) -> logging.Handler:
    """Print settlemark's log as JSON, one object a line, and return the handler that does so.

    It goes to `stream`, by default to the standard error. A second call replaces what the first one set up;
    `logging.getLogger("settlemark").removeHandler(handler)` takes it away.

    >>> import io, json
    >>> out = io.StringIO()
    >>> handler = json_logs(out, level="WARNING")
    >>> logging.getLogger("settlemark").warning("all rooms are taken")
    >>> json.loads(out.getvalue())["message"]
    'all rooms are taken'
    >>> logging.getLogger("settlemark").removeHandler(handler)
    """
    logger = logging.getLogger(LOGGER)
    for before in [known for known in logger.handlers if isinstance(known.formatter, JsonLines)]:
        logger.removeHandler(before)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.setLevel(level)
    logger.addHandler(handler)
    if not logger.isEnabledFor(handler.level):
        logger.setLevel(handler.level)
    return handler


__all__ = [
    "JsonLines",
    "Quote",
    "about",
    "about_txn",
    "json_logs",
    "log_failure",
    "quote_of",
    "redact_logs_for",
    "stop_redacting_for",
]
