"""The commands of the protocol, as values: the alphabet of the shared log.

Each step that moves the protocol is one tagged struct. A ledger records these values, their JSON is derived from them,
and a replica takes them in the same order (`Protocol.apply`): the protocol is deterministic, so the replica holds the
same scopes, claims, floors and versions. Sources: state machine replication (Schneider 1990), over a shared log
(Tango, 2013).

`refusals` are the errors that a command may answer with. A refused command is on record like any other, and is refused
wherever it is taken again; any other error is a fault, and whoever meets one stops.

A command names a transaction by its number and a call by its transaction's and its own. Its fields are the parameters
of the rule's method that takes it, in their order (`rules.parts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, ClassVar, NewType, cast

import msgspec

from settlemark._edges.errors import (
    Cancelled,
    ContractViolation,
    Entangled,
    LateAppend,
    OutsideDeclared,
    Refused,
    Revoked,
    SettlemarkError,
    StateError,
)
from settlemark._edges.text import CAUSE, prose
from settlemark._model.guards import ALL_ON, Guards
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import NOBODY, Call, Mode, Role, Txn
from settlemark._protocol.index import Position
from settlemark._protocol.states import Reason

TxnId = NewType("TxnId", int)
"""The number of a transaction, `Txn.id`."""


class CallRef(msgspec.Struct, frozen=True, array_like=True):
    """A call: its transaction's number, and its own (0: it has none yet), with all that makes it."""

    txn: TxnId
    number: int
    scope: Scope
    mode: Mode
    place: int = -1
    turned: bool = False
    leaves: int = 0


class At(msgspec.Struct, frozen=True):
    """A scope, where a text could stand as well."""

    scope: Scope


Said = str | int | float | bool | At | None
"""One thing that is said of an abort."""


class Command(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="do"):
    """One step of the protocol."""

    refusals: ClassVar[tuple[type[SettlemarkError], ...]] = ()

    @classmethod
    def of(cls, *given: Any, **named: Any) -> Command:
        """Return the command that stands for a step, which was taken with these transactions, calls and values."""
        return cls(*map(_plain, given), **{name: _plain(value) for name, value in named.items()})


# ---- beginning


class Begin(Command, frozen=True, tag="begin"):
    """A transaction takes its place."""

    refusals = (Cancelled, Entangled, StateError)

    name: str
    run: str | None = None
    attempt: int = 1
    declared: tuple[Scope, ...] = ()
    position: Position | None = None
    retry: bool = False
    owner: str = NOBODY
    parent: int = 0
    group: int = 0
    role: Role = ""
    guards: Guards = ALL_ON
    queues: bool = False
    mends: bool = False


class Split(Command, frozen=True, tag="split"):
    """A part of a parked transaction takes a place of its own."""

    name: str
    run: str
    reads: tuple[Scope, ...]
    guards: Guards = ALL_ON
    tools: tuple[tuple[str, int, str], ...] = ()
    hooked: bool = False


class Cancel(Command, frozen=True, tag="cancel"):
    """A fence is put up before a run."""

    run: str


class Unfence(Command, frozen=True, tag="unfence"):
    """The fences before these runs are taken down."""

    runs: tuple[str, ...]


# ---- touching


class Admit(Command, frozen=True, tag="admit"):
    """A call asks to touch its scope; `planned` is its tool, that one's signature, and a number of changes."""

    refusals = (LateAppend, Refused, Revoked, Entangled)

    call: CallRef
    planned: tuple[str, str, int] | None = None
    patient: bool = True


class Declare(Command, frozen=True, tag="declare"):
    """A transaction holds what it may touch."""

    txn: TxnId
    scopes: tuple[Scope, ...]


class Withdraw(Command, frozen=True, tag="withdraw"):
    """A call waits no longer."""

    call: CallRef


class Acted(Command, frozen=True, tag="acted"):
    """A read, or an effect that ran at once, has returned."""

    call: CallRef
    happened: bool


class Resumed(Command, frozen=True, tag="resumed"):
    """Suspended calls run again."""

    refusals = (LateAppend, Refused)

    calls: tuple[CallRef, ...]


class Released(Command, frozen=True, tag="released"):
    """A held effect has left."""

    call: CallRef


class Unhold(Command, frozen=True, tag="unhold"):
    """A held effect will never leave."""

    call: CallRef


class Undone(Command, frozen=True, tag="undone"):
    """An abort has dealt with an effect."""

    call: CallRef
    clean: bool


class Refine(Command, frozen=True, tag="refine"):
    """A broad claim becomes narrower ones."""

    refusals = (OutsideDeclared,)

    call: CallRef
    to: tuple[Scope, ...]


# ---- settling


class Seal(Command, frozen=True, tag="seal"):
    """The footprint of a transaction is frozen."""

    refusals = (LateAppend, Refused, StateError)

    txn: TxnId
    hooked: bool = False


class Commit(Command, frozen=True, tag="commit"):
    """A sealed transaction commits: it was found to wait for nobody."""

    txn: TxnId
    lasting: bool


class Finish(Command, frozen=True, tag="finish"):
    """All releases of a committed transaction are done."""

    refusals = (StateError,)

    txn: TxnId


class Abort(Command, frozen=True, tag="abort"):
    """A transaction is aborted."""

    txn: TxnId
    reason: Reason
    detail: dict[str, Said]


class Revert(Command, frozen=True, tag="revert"):
    """A releasing transaction is aborted, of which nothing has left."""

    refusals = (StateError,)

    txn: TxnId
    reason: Reason
    detail: dict[str, Said]


class FinishAbort(Command, frozen=True, tag="finish_abort"):
    """All undos of an aborted transaction are done."""

    refusals = (StateError,)

    txn: TxnId


class Unretry(Command, frozen=True, tag="unretry"):
    """Nobody will retry a transaction."""

    txn: TxnId


class Retract(Command, frozen=True, tag="retract"):
    """What has committed is undone on request."""

    name: str
    attempt: int


# ---- tools


class Rebind(Command, frozen=True, tag="rebind"):
    """A tool is another one from now on."""

    tool: str
    signature: str


class Revoke(Command, frozen=True, tag="revoke"):
    """A tool is taken away."""

    tool: str


class Reinstate(Command, frozen=True, tag="reinstate"):
    """A tool is given back."""

    tool: str


# ---- who brings it to its end


class Park(Command, frozen=True, tag="park"):
    """A transaction is put aside, or somebody has come back to it."""

    txn: TxnId
    parked: bool
    hooked: bool = False


class Own(Command, frozen=True, tag="own"):
    """A worker takes a transaction."""

    refusals = (StateError,)

    txn: TxnId
    worker: str


class Bury(Command, frozen=True, tag="bury"):
    """A dead worker's transactions are nobody's."""

    worker: str


# ---- epochs and time


class Advance(Command, frozen=True, tag="advance"):
    """The floor of a scope is raised."""

    refusals = (ContractViolation,)

    scope: Scope
    epoch: int


class Leap(Command, frozen=True, tag="leap"):
    """Epochs are left out."""

    epochs: int


class TellTime(Command, frozen=True, tag="tell_time"):
    """What time it is where the record lives."""

    seconds: int


COMMANDS: tuple[type[Command], ...] = tuple(Command.__subclasses__())
"""The whole alphabet."""


# ---- values and texts


def _plain(value: Any) -> Any:
    """Return what stands for a value in a command."""
    kind = _kind(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is Call:
        return CallRef(
            value.txn.id, value.number, value.scope, value.mode, value.place, value.turned, int(value.leaves)
        )
    if kind is Txn:
        return value.id
    if kind is tuple or kind is list:
        return tuple(_plain(item) for item in value)
    if kind is dict:
        return {name: _said(said) for name, said in value.items()}
    return prose(value, CAUSE) if isinstance(value, str) else value


_kind: Callable[[Any], type[Any]] = type
_AS_THEY_ARE = frozenset({int, bool, float, type(None), Scope, Mode, Reason, Guards})


def _said(value: object) -> Said:
    if isinstance(value, Scope):
        return At(value)
    if value is None or type(value) in (bool, int, float):
        return cast("Said", value)
    return prose(str(value), CAUSE)


def detail_of(said: dict[str, Said]) -> dict[str, Any]:
    """Return what is said of an abort as the protocol has it."""
    return {name: value.scope if isinstance(value, At) else value for name, value in said.items()}


def _to_text(value: object) -> str:
    if isinstance(value, Scope):
        return value.text
    raise NotImplementedError(type(value).__name__)


def _from_text(kind: type[Any], text: str) -> Any:
    if kind is Scope:
        return Scope.parse(text)
    raise NotImplementedError(kind.__name__)


_ENCODER = msgspec.json.Encoder(enc_hook=_to_text)
_DECODER = msgspec.json.Decoder(
    tuple[
        Begin | Split | Cancel | Unfence | Admit | Declare | Withdraw | Acted | Resumed | Released | Unhold | Undone
        | Refine | Seal | Commit | Finish | Abort | Revert | FinishAbort | Unretry | Retract | Rebind | Revoke
        | Reinstate | Park | Own | Bury | Advance | Leap | TellTime,
        ...,
    ],
    dec_hook=_from_text,
)  # fmt: skip


def encode(commands: Iterable[Command]) -> str:
    """Return commands as a JSON list.

    Raises:
        ValueError: a number in them is infinite, or none.

    >>> encode([Seal(TxnId(7)), Advance(Scope.parse("room:/Ada"), 3)])
    '[{"do":"seal","txn":7},{"do":"advance","scope":"room:/Ada","epoch":3}]'
    """
    commands = list(commands)
    for command in commands:
        if type(command) in (Abort, Revert):
            _refuse_endless(cast("Abort | Revert", command).detail)
    return _ENCODER.encode(commands).decode()


def _refuse_endless(detail: dict[str, Said]) -> None:
    """Return when JSON has every number of a detail: msgspec would write null for one that it has not.

    Raises:
        ValueError: one is infinite, or no number.
    """
    for name, said in detail.items():
        if type(said) is float and not isfinite(said):
            raise ValueError(f"{name}={said} is no number that JSON has")


def decode(text: str) -> tuple[Command, ...]:
    """Return the commands of a JSON list.

    Raises:
        ValueError: it is none (`msgspec.DecodeError`), or a scope in it is no scope.
    """
    return _DECODER.decode(text)
