"""Logs that a machine can read: every record of the logger `settlemark` carries what it is about as data.

The data has names, scopes, keys and outcomes: never arguments or results.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from settlemark._codec import legible
from settlemark._wording import in_words

if TYPE_CHECKING:
    from settlemark._attempt import Attempt
    from settlemark._effect import Effect
    from settlemark._txn import Txn

FIELD = "settlemark"


def about(**data: Any) -> dict[str, Any]:
    """Return the `extra=` of a log call: what its record is about; None is left out.

    >>> about(transaction="trip-42", scope=None)
    {'settlemark': {'transaction': 'trip-42'}}
    """
    return {FIELD: {key: value for key, value in data.items() if value is not None}}


def about_txn(txn: Txn, **data: Any) -> dict[str, Any]:
    """Return the `extra=` of a log call about a transaction."""
    return about(transaction=txn.name, run=txn.run, attempt=txn.attempt, epoch=txn.epoch, **data)


def about_effect(attempt: Attempt, effect: Effect, **data: Any) -> dict[str, Any]:
    """Return the `extra=` of a log call about an effect."""
    return about(
        transaction=attempt.name, run=attempt.run, attempt=attempt.number,
        epoch=None if attempt.txn is None else attempt.txn.epoch,
        tool=effect.declaration.tool, scope=effect.scope_text, key=effect.key, outcome=effect.outcome.value, **data,
    )  # fmt: skip


def log_failure(log: logging.Logger, text: str, error: BaseException, **data: Any) -> None:
    """Log that a function of the user's failed where that is to harm nobody, with its traceback where there is one.

    Its exception may be such that its traceback cannot be written.
    """
    said = f"{text}: {in_words(error)}"
    with suppress(Exception):
        try:
            log.error("%s", said, exc_info=error, extra=about(**data))
        except Exception:  # a traceback without end, or an exception that fails when it is looked at
            log.error("%s", said, extra=about(**data))  # noqa: TRY400 - that is what cannot be written


class JsonLines(logging.Formatter):
    """Formats a log record as one JSON object on one line, with its data beside its sentence.

    Fields: `at` (UTC), `level`, `logger`, `message`; what the record is about, such as `transaction`, `run`,
    `epoch`, `scope`, `tool`, `key`, `worker`; and `exception` with its traceback.

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
            line["exception"] = self.formatException(record.exc_info)
        return legible(line)


def json_logs(stream: TextIO | None = None, *, level: int | str = logging.INFO) -> logging.Handler:
    """Have settlemark's log printed as JSON, one object a line, and return the handler that does so.

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
    logger = logging.getLogger("settlemark")
    for before in [known for known in logger.handlers if isinstance(known.formatter, JsonLines)]:
        logger.removeHandler(before)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.setLevel(level)
    logger.addHandler(handler)
    if not logger.isEnabledFor(handler.level):
        logger.setLevel(handler.level)
    return handler


__all__ = ["JsonLines", "about", "about_effect", "about_txn", "json_logs", "log_failure"]
