"""The commands of the protocol, as values: the format of the shared log.

Each step that moves the protocol is one tagged struct. A ledger records these values (their JSON is derived from them)
and a replica applies them in the same order (`Protocol.apply`): the protocol is deterministic, so the replica has the
same scopes, claims, floors and versions. Sources: state machine replication (Schneider 1990), over a shared log (Tango,
2013).

`refusals` are the errors that a command may answer with. A refused command is recorded like any other, and every
replica refuses it too; any other error is a fault, at which a replica stops.

A command names a transaction by its number, and a call by its transaction's number and its own. Its fields are the
parameters of the rule's method that takes it, in their order (`rules.parts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from operator import attrgetter
from typing import Any, ClassVar, NewType, cast

import msgspec

from settlemark._edges.errors import (
    Cancelled,
    ContractViolation,
    Entangled,
    Halted,
    LateAppend,
    OutsideDeclared,
    Refused,
    Revoked,
    SettlemarkError,
    StateError,
    UsageError,
)
from settlemark._edges.text import CAUSE, prose
from settlemark._model.guards import ALL_ON, Guards
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import NOBODY, Call, Mode, Role, Txn
from settlemark._protocol.index import Position
from settlemark._protocol.states import Reason

TxnId = NewType("TxnId", int)
"""The number of a transaction, `Txn.id`."""


class CallRef(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call: its transaction's number, its own (0: not numbered yet), and its description."""

    txn: TxnId
    number: int
    scope: Scope
    mode: Mode
    place: int = -1
    turned: bool = False
    leaves: int = 0
    commutes: str = ""


class At(msgspec.Struct, frozen=True):
    """A scope, in a place where a text may stand too."""

    scope: Scope


Said = str | int | float | bool | At | None
"""One detail of an abort's reason."""


class Command(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="do", gc=False):
    """One step of the protocol: a value, which nothing leads back to, so the garbage collector need not look at it."""

    refusals: ClassVar[tuple[type[SettlemarkError], ...]] = ()


# ---- beginning


class Begin(Command, frozen=True, tag="begin"):
    """A transaction begins."""

    refusals = (Cancelled, Halted, Entangled, StateError)

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
    agents: tuple[str, ...] = ()


class Joined(Command, frozen=True, tag="joined"):
    """An agent begins to act in a transaction."""

    refusals = (Halted,)

    txn: TxnId
    agent: str


class Split(Command, frozen=True, tag="split"):
    """A part of a parked transaction becomes a transaction of its own."""

    name: str
    run: str
    reads: tuple[Scope, ...]
    guards: Guards = ALL_ON
    tools: tuple[tuple[str, int, str], ...] = ()
    hooked: bool = False
    agents: tuple[str, ...] = ()
    attempt: int = 1


class Cancel(Command, frozen=True, tag="cancel"):
    """A run is fenced."""

    run: str


class Unfence(Command, frozen=True, tag="unfence"):
    """The fences of these runs are removed."""

    runs: tuple[str, ...]


class Halt(Command, frozen=True, tag="halt"):
    """An operator halts a scope, a run, an agent, or with none of them everything."""

    scope: Scope | None
    run: str | None
    by: str
    because: str
    since: float
    agent: str | None = None


class Lift(Command, frozen=True, tag="lift"):
    """A halt is lifted."""

    refusals = (UsageError,)

    number: int


# ---- touching


class Admit(Command, frozen=True, tag="admit"):
    """A call asks to touch its scope; `planned` is the tool, its signature, and the number of tool changes then."""

    refusals = (LateAppend, Refused, Revoked, Entangled)

    call: CallRef
    planned: tuple[str, str, int] | None = None
    patient: bool = True


class Declare(Command, frozen=True, tag="declare"):
    """A transaction holds what it may touch."""

    txn: TxnId
    scopes: tuple[Scope, ...]


class Withdraw(Command, frozen=True, tag="withdraw"):
    """A call stops waiting."""

    call: CallRef


class Acted(Command, frozen=True, tag="acted"):
    """A read, or an eager effect, has returned."""

    call: CallRef
    happened: bool


class Resumed(Command, frozen=True, tag="resumed"):
    """Suspended calls run again."""

    refusals = (LateAppend, Refused)

    calls: tuple[CallRef, ...]


class Released(Command, frozen=True, tag="released"):
    """A held effect has left."""

    call: CallRef


class DropCall(Command, frozen=True, tag="drop_call"):
    """A held effect will never leave."""

    call: CallRef


class Undone(Command, frozen=True, tag="undone"):
    """An abort has dealt with an effect."""

    call: CallRef
    clean: bool


class Refine(Command, frozen=True, tag="refine"):
    """A broad claim is replaced by narrower ones."""

    refusals = (OutsideDeclared,)

    call: CallRef
    to: tuple[Scope, ...]


# ---- settling


class Seal(Command, frozen=True, tag="seal"):
    """A transaction's footprint is frozen."""

    refusals = (LateAppend, Refused, StateError)

    txn: TxnId
    hooked: bool = False


class Commit(Command, frozen=True, tag="commit"):
    """A sealed transaction commits; it was found to wait for nobody."""

    txn: TxnId
    releasing: bool


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
    """A releasing transaction of which nothing has left is aborted."""

    refusals = (StateError,)

    txn: TxnId
    reason: Reason
    detail: dict[str, Said]


class FinishAbort(Command, frozen=True, tag="finish_abort"):
    """All undos of an aborted transaction are done."""

    refusals = (StateError,)

    txn: TxnId


class DropRetry(Command, frozen=True, tag="drop_retry"):
    """A transaction will not be retried."""

    txn: TxnId


class Retract(Command, frozen=True, tag="retract"):
    """A committed transaction is undone on request."""

    name: str
    attempt: int


# ---- tools


class Rebind(Command, frozen=True, tag="rebind"):
    """A tool has changed."""

    tool: str
    signature: str


class Revoke(Command, frozen=True, tag="revoke"):
    """A tool is revoked."""

    tool: str


class Reinstate(Command, frozen=True, tag="reinstate"):
    """A tool is reinstated."""

    tool: str


class Owe(Command, frozen=True, tag="owe"):
    """Something is owed that a tool ("": none) fulfils: from now on its commits look for what they fulfil."""

    tool: str


# ---- ownership


class Park(Command, frozen=True, tag="park"):
    """A transaction is put aside, or resumed."""

    txn: TxnId
    parked: bool
    hooked: bool = False


class Own(Command, frozen=True, tag="own"):
    """A worker takes a transaction over."""

    refusals = (StateError,)

    txn: TxnId
    worker: str


class Bury(Command, frozen=True, tag="bury"):
    """A dead worker's transactions lose their owner."""

    worker: str


# ---- epochs and time


class Advance(Command, frozen=True, tag="advance"):
    """The floor of a scope is raised."""

    refusals = (ContractViolation,)

    scope: Scope
    epoch: int


class SkipEpochs(Command, frozen=True, tag="skip_epochs"):
    """Epochs are skipped."""

    epochs: int


class TellTime(Command, frozen=True, tag="tell_time"):
    """The store's time is recorded."""

    seconds: int


COMMANDS: tuple[type[Command], ...] = tuple(Command.__subclasses__())
"""All commands."""


# ---- values and texts


def plain(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values that stand for others in a command."""
    return tuple(
        [value if (kind := _kind(value)) in _AS_THEY_ARE else _PLAIN.get(kind, _of_a_class)(value) for value in values]
    )


def _ref(call: Call) -> CallRef:
    return CallRef(
        TxnId(call.txn.id), call.number, call.scope, call.mode, call.place, call.turned, int(call.leaves), call.commutes
    )


def _detail(said: dict[str, object]) -> dict[str, Said]:
    return {name: _said(value) for name, value in said.items()}


def _of_a_class(value: Any) -> Any:
    return prose(value, CAUSE) if isinstance(value, str) else value


_kind: Callable[[Any], type[Any]] = type
_AS_THEY_ARE = frozenset({int, bool, float, str, type(None), Scope, Mode, Reason, Guards})
"""Types of what a command holds as it is given: a text is an identity, checked where it came in, or is prose by now."""
_PLAIN: dict[type[Any], Callable[[Any], Any]] = {
    Call: _ref,
    Txn: attrgetter("id"),
    tuple: plain,
    list: plain,
    dict: _detail,
}


def _said(value: object) -> Said:
    if isinstance(value, Scope):
        return At(value)
    if value is None or type(value) in (bool, int, float):
        return cast("Said", value)
    return prose(str(value), CAUSE)


def detail_of(said: dict[str, Said]) -> dict[str, Any]:
    """Return an abort's details as the protocol keeps them."""
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
        Begin
        | Joined
        | Split
        | Cancel
        | Unfence
        | Halt
        | Lift
        | Admit
        | Declare
        | Withdraw
        | Acted
        | Resumed
        | Released
        | DropCall
        | Undone
        | Refine
        | Seal
        | Commit
        | Finish
        | Abort
        | Revert
        | FinishAbort
        | DropRetry
        | Retract
        | Rebind
        | Revoke
        | Reinstate
        | Owe
        | Park
        | Own
        | Bury
        | Advance
        | SkipEpochs
        | TellTime,
        ...,
    ],
    dec_hook=_from_text,
)


def encode(commands: Iterable[Command]) -> str:
    """Return commands as a JSON list.

    Raises:
        ValueError: a number in them is infinite or NaN.

    >>> encode([Seal(TxnId(7)), Advance(Scope.parse("room:/Ada"), 3)])
    '[{"do":"seal","txn":7},{"do":"advance","scope":"room:/Ada","epoch":3}]'
    """
    commands = list(commands)
    for command in commands:
        if type(command) in (Abort, Revert):
            _refuse_endless(cast("Abort | Revert", command).detail)
    return _ENCODER.encode(commands).decode()


def _refuse_endless(detail: dict[str, Said]) -> None:
    """Check that JSON can hold every number of a detail: msgspec would write null for the others.

    Raises:
        ValueError: a number is infinite or NaN.
    """
    for name, said in detail.items():
        if type(said) is float and not isfinite(said):
            raise ValueError(f"{name}={said} is not a number that JSON can hold")


def decode(text: str) -> tuple[Command, ...]:
    """Return the commands of a JSON list.

    Raises:
        ValueError: the text is no list of commands (`msgspec.DecodeError`), or holds a malformed scope.
    """
    return _DECODER.decode(text)
