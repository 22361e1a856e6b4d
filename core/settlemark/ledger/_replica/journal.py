"""The protocol's steps as JSON, so that another replica can take them in the same order.

The protocol is deterministic: two replicas that took the same steps hold the same scopes, claims,
floors and versions. Source: state machine replication (Schneider 1990) over a shared log (Tango, 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from settlemark._edges.errors import SettlemarkError
from settlemark._edges.text import CAUSE, prose
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Call, Mode, Txn
from settlemark._protocol.protocol import Protocol, Step
from settlemark._protocol.states import Reason


class _Over(Exception):
    """The step is about a transaction that has finished: it moves nothing."""


def written(steps: Iterable[Step]) -> list[Any]:
    """Return steps as plain data for JSON."""
    return [
        [name, list(map(_plain, args)), {k: _plain(v) for k, v in kwargs.items()} if kwargs else kwargs]
        for name, args, kwargs in steps
    ]


def replay(protocol: Protocol, steps: Iterable[Any]) -> None:
    """Take steps that another replica took; what was refused there is refused here, and moves the same."""
    for name, args, kwargs in steps:
        method: Callable[..., Any] = getattr(protocol, name)
        try:
            given = [_restored(protocol, a) for a in args]
            named = {key: _restored(protocol, value) for key, value in kwargs.items()}
            method(*given, **named)
        except (_Over, SettlemarkError):
            continue


def _plain(value: Any) -> Any:  # noqa: PLR0911 - a table
    if type(value) in _AS_THEY_ARE:
        return value if type(value) is not str or len(value) <= CAUSE else prose(value, CAUSE)
    if isinstance(value, Call):
        return {
            "c": [
                value.txn.id,
                value.number,
                value.scope.text,
                value.mode.value,
                value.place,
                value.turned,
                int(value.leaves),
            ]
        }
    if isinstance(value, Txn):
        return {"t": value.id}
    if isinstance(value, Scope):
        return {"s": value.text}
    if isinstance(value, Reason):
        return {"r": value.value}
    if isinstance(value, str):
        return prose(value, CAUSE)  # a class of somebody's own
    if isinstance(value, tuple):
        return {"p": [_plain(item) for item in cast("Any", value)]}
    if isinstance(value, list):
        return [_plain(item) for item in cast("Any", value)]
    return str(value)


_AS_THEY_ARE = frozenset({type(None), bool, int, float, str})


def _restored(protocol: Protocol, value: Any) -> Any:  # noqa: PLR0911 - a table
    if isinstance(value, list):
        return [_restored(protocol, item) for item in cast("Any", value)]
    if not isinstance(value, dict):
        return value
    ((kind, what),) = cast("dict[str, Any]", value).items()
    match kind:
        case "c":
            return _call(protocol, *what)
        case "t":
            return _txn(protocol, what)
        case "s":
            return Scope.parse(what)
        case "r":
            return Reason(what)
        case _:
            return tuple(_restored(protocol, item) for item in what)


def _txn(protocol: Protocol, serial: int) -> Txn:
    txn = protocol.by_id.get(serial)
    if txn is None:
        raise _Over
    return txn


def _call(
    protocol: Protocol,
    serial: int,
    number: int,
    scope: str,
    mode: int,
    place: int,
    turned: bool = False,
    leaves: int = 0,
) -> Call:
    txn = _txn(protocol, serial)
    found = txn.calls.get(number)
    if found is None:
        if 0 < number <= txn.numbered:
            raise _Over
        found = Call(txn, Scope.parse(scope), Mode(mode), place, turned=turned, leaves=leaves)
    return found
