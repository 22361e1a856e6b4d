"""What can go wrong, split by whose move is next.

```
SettlemarkError
├── UsageError            the caller's mistake: nothing was done and nothing moved
│   ├── ScopeError        a scope's text or template is malformed
│   ├── DeclarationError  an effect is declared badly, or not at all
│   ├── PayloadError      arguments or a result cannot be stored as JSON
│   ├── KeyConflict       the same decision was seen again with other arguments
│   ├── StateError        the transaction is not in a state that allows this
│   ├── LateAppend        a call arrived after the seal: refused, and its transaction aborted
│   ├── OutsideDeclared   a call touched what its transaction had not declared
│   ├── ContractViolation an orchestrator said that work is over which may still come
│   ├── Revoked           a call's tool was taken away: it was not run
│   ├── Fenced            a lease on a resource is lost: another one has it, and this one acts no more
│   ├── LeaseHeld         another one has the lease on a resource
│   ├── Unfounded         a message states what the record does not bear out
│   ├── Unowed            a message promises what nobody owes: it is held
│   ├── Entangled         a call needs what its own caller, or a sibling branch, holds until it has ended
│   └── WouldBlock        a synchronous call would have to wait inside an event loop
├── Refused               the settlement said no: undone, never released
│   ├── Stale             what the plan was read from has changed
│   │   └── Cascaded      what it had read early was undone
│   ├── Wounded           an older transaction needed a resource this one had claimed
│   ├── Vetoed            a pre-commit hook said no
│   ├── Denied            a policy denies a call
│   ├── OverBudget        a budget has not so much left as a call asks
│   ├── Rejected          a person was asked about one call, and said no
│   ├── Cancelled         the run was cancelled: a fence stands
│   ├── Halted            an operator has halted it: nothing begins there until it is resumed
│   ├── LeaseLost         this process was thought dead: another one ends the transaction
│   ├── Overdue           it was open for longer than max_age=
│   ├── Rewound           its work was rewound: undone on request, and not replayed
│   └── WaitTimeout       the deadline passed while another held the resource
├── MovedOn               raised by an undo that no longer applies: its world has moved on
├── InDoubt               an outcome nobody can tell: recorded, not guessed
├── PartialCommit         some irreversible effects left and a later one failed for good
├── LedgerError           the durable record could not be read or written
│   └── Forgotten         a decision is on record and its result is not: it is not run again
└── InternalError         our own bug
```

A tool's own exception is never wrapped: it reaches the caller as the tool raised it.
Every error carries its data as attributes, and survives `pickle`. Each class has its `remedy`: what to do next.
"""

from __future__ import annotations

from typing import Any, ClassVar

from settlemark._edges.plain import plain_lines


def _rebuild(cls: type[SettlemarkError], message: str, state: dict[str, Any]) -> SettlemarkError:
    return cls(message, **state)


class SettlemarkError(Exception):
    """Base of every error raised by settlemark.

    Keyword arguments become attributes, so that a program can act on them:

    >>> SettlemarkError("no", scope="room:/Ada").scope
    'room:/Ada'

    Attributes:
        always: names of the attributes that every error of this class has; None where there is no value.
        remedy: what to do about errors of this class; the message itself is more specific.
    """

    remedy: ClassVar[str] = "Read the message: it names the effect, the scope, who holds it, and what to do."

    always: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(plain_lines(message))  # Python prints an error that nobody catches as it is, names and all
        self.data = dict.fromkeys(self.always) | data

    def __getattr__(self, name: str) -> Any:
        if name != "data" and name in self.data:
            return self.data[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), self.data)


class UsageError(SettlemarkError):
    """The caller's mistake: nothing was done and nothing moved."""

    remedy: ClassVar[str] = "Change the call as the message says and make it again: nothing was done."


class ScopeError(UsageError, ValueError):
    """A scope's text or template is malformed. Attribute `text`: what was given."""

    remedy: ClassVar[str] = (
        "Correct the scope: a kind, a colon, and a path that begins with a slash, as in `room:/{hotel}`."
    )


class DeclarationError(UsageError):
    """An effect is declared badly, or not at all. Attribute `tool`: its name."""

    remedy: ClassVar[str] = (
        "Correct the declaration that the message names; it is checked where it is made, before anything runs."
    )


class PayloadError(UsageError, TypeError):
    """Arguments or a result cannot be stored as JSON. Attribute `path`: where in the value."""

    remedy: ClassVar[str] = "Pass or return JSON values: convert the value at `path`, or return an id in its place."


class KeyConflict(UsageError):
    """The same decision was seen again with other arguments.

    Attributes: `key`, `recorded` and `given` (the two argument mappings).
    """

    remedy: ClassVar[str] = (
        "Give another decision another transaction name; where the decision is the same, pass the arguments "
        "that are on record."
    )


class StateError(UsageError):
    """The transaction is not in a state that allows this. Attributes: `transaction`, `state`."""

    remedy: ClassVar[str] = "Look at `state`: enter the transaction's name again, or begin a new one."


class LateAppend(UsageError):
    """A call arrived after the seal: it was refused and its transaction aborted.

    Attributes: `transaction`, `scope`.
    """

    remedy: ClassVar[str] = "Make every call before the block ends: await the tasks that you start in it."


class OutsideDeclared(UsageError):
    """A call touched what its transaction had not declared. Attributes: `scope`, `declared`."""

    remedy: ClassVar[str] = "Widen `may_touch=` to cover the scope, or correct the tool's `scope=`."


class ContractViolation(UsageError):
    """An orchestrator said that work is over which may still come: nothing moved.

    Attributes: `scope`, `epoch`, `holder` (a transaction's name, or None), `frontier` (the first epoch that may move).
    """

    remedy: ClassVar[str] = "Raise the frontier only behind work that has ended; end or abort `holder` first."


class Revoked(UsageError):
    """A tool was revoked (`settlement.revoke`): it was not run. Attribute `tool`."""

    remedy: ClassVar[str] = "Plan again without the tool, or let an operator call `settlement.reinstate`."


class Entangled(UsageError):
    """A call needs what its own caller, or a sibling branch, holds until it has ended: neither could go on.

    Attributes: `transaction`, `holder` (a transaction's name), `scope`.
    """

    remedy: ClassVar[str] = (
        "Make the call in its caller's own transaction: drop `independent=True`, or let the caller end first."
    )


class LeaseHeld(UsageError):
    """Another one has the lease on a resource: nothing was granted.

    Attributes: `scope` (of that lease), `holder`, `since`, `until`, `free_at` (when to ask again) and `token`; times
    are in seconds since 1970, on the store's clock.
    """

    remedy: ClassVar[str] = "Work on something else, or ask again at `free_at`; `settlemark leases` lists who has what."


class Fenced(UsageError):
    """A lease on a resource is lost, or was never had: the resource was not touched.

    Attributes: `scope`, `token` (of the lost lease, or None), `holder` and `since` (of the one that has it now, or
    None), `current` (its token, or the greatest that the resource has seen).
    """

    remedy: ClassVar[str] = (
        "Stop acting on the resource; ask for its lease anew, and look at it again, before going on."
    )


class Unowed(UsageError):
    """A message promises what nobody owes: it is held. Attributes: `run`, `promises` (a list of `Promise`)."""

    remedy: ClassVar[str] = (
        "Owe each of `promises` with `tx.owe`, strike it out with `PromiseCheck.strike`, or say it otherwise."
    )


class Unfounded(UsageError):
    """A message states outcomes that the record does not bear out: it is held.

    Attributes: `run`, `claims` (a list of `HeldClaim`: those that are unsupported or contradicted).
    """

    remedy: ClassVar[str] = (
        "Say of each of `claims` what the record says (see `told`), or act first, or leave it out; what is in doubt is"
        " said to be in doubt."
    )


class WouldBlock(UsageError):
    """A synchronous call would have to wait inside an event loop. Attributes: `holder`, `scope`."""

    remedy: ClassVar[str] = "Use `async with` and `await` inside an event loop, or move the call to a thread."


class Refused(SettlemarkError):
    """The settlement said no: the transaction's effects were undone or never left.

    Attributes: `transaction`, `epoch`, and what the subclass adds.
    """

    remedy: ClassVar[str] = "See the message: enter the name again after a lost race, plan again after anything else."

    always: ClassVar[tuple[str, ...]] = ("transaction", "epoch")


class Stale(Refused):
    """What the plan was read from has changed. Attribute `scope`: what changed."""

    remedy: ClassVar[str] = "Read again, plan again, and enter the name again; `settlement.run` does so by itself."


class Cascaded(Stale):
    """Work that was read early was undone (`reads="early"`). Attributes: `scope`, `holder` (the undone transaction)."""

    remedy: ClassVar[str] = 'Enter the name again; use `reads="settled"` where this is too frequent.'


class Wounded(Refused):
    """An older transaction needed a resource this one had claimed. Attributes: `scope`, `holder`."""

    remedy: ClassVar[str] = "Enter the name again; `settlement.run` does so, behind the older transactions."


class Vetoed(Refused):
    """A pre-commit hook said no. Attributes: `hook`, `verdict` (its reason)."""

    remedy: ClassVar[str] = "Act on the hook's reason (`verdict`), then enter the name again."


class Rejected(Refused):
    """A person was asked whether a call may run, and said no. Attributes: `tool`, `key`, `because` (or None)."""

    remedy: ClassVar[str] = "Plan without this call; `because` has what the person said."


class Denied(Refused):
    """A policy denies a call: it was not run. Attributes: `tool`, `scope`, `key`, `rule`, `policy` (its version)."""

    remedy: ClassVar[str] = "Plan without this call, or have the policy changed; see `settlemark verdicts`."

    always: ClassVar[tuple[str, ...]] = (*Refused.always, "tool", "scope", "key", "rule", "policy")


class OverBudget(Refused):
    """A budget has not so much left as a call asks: the call was not run, and nothing of it is reserved.

    Attributes: `budget`, `bucket`, `limit`, `charged`, `reserved`, `asked` (exact amounts), and `holders` (keys of
    effects for which something is reserved, a few of them).
    """

    remedy: ClassVar[str] = (
        "Spend less, wait until what is reserved is given back, or raise the limit; see `settlemark budgets`."
    )


class Cancelled(Refused):
    """The run was cancelled: a fence stands, and nothing of this run acts any more."""

    remedy: ClassVar[str] = "Begin the work anew under another run id: the fence of this one stays."


class Halted(Refused):
    """An operator has halted this scope, this run, or everything: nothing begins there until it is resumed.

    Attributes: `halt` (its number), `what` is halted, as people name it, `by` whom, `because`, `since` (seconds since
    1970, on the store's clock). `parked` tells whether the transaction was put aside as it is: then it goes on by
    itself once it is resumed, and is not to be repeated. Otherwise what it did is undone.
    """

    remedy: ClassVar[str] = (
        "Stop, and tell the person who runs you; `settlement.resume`, or `settlemark resume`, lifts a halt. Then enter"
        " the name again."
    )

    always: ClassVar[tuple[str, ...]] = (*Refused.always, "halt", "what", "by", "because", "since", "parked")


class LeaseLost(Refused):
    """This process was silent for longer than its lease: another worker ends the transaction, and nothing acts here."""

    remedy: ClassVar[str] = (
        "Stop acting, and enter the name again: it answers with what became of the work. Raise `lease=` "
        "where processes pause for long."
    )


class Rewound(Refused):
    """The transaction's work was rewound: it was undone on request, and is not replayed.

    Attribute `by`: who, when and why.
    """

    remedy: ClassVar[str] = "Begin the work anew under another name."


class Overdue(Refused):
    """The transaction was open for longer than `max_age=` and was undone, although its process lives.

    Attribute `max_age`: seconds.
    """

    remedy: ClassVar[str] = "Enter the name again, with less in one transaction or with a higher `max_age=`."


class WaitTimeout(Refused):
    """The deadline passed while another held the resource; nothing was run.

    Attributes: `holder` (a transaction's name), `scope`, `waited` (seconds).
    """

    remedy: ClassVar[str] = (
        "See `settlemark waiting` for who holds the scope; try again when the holder has ended, or raise `wait=`."
    )

    always: ClassVar[tuple[str, ...]] = (*Refused.always, "holder", "scope", "waited")


class MovedOn(SettlemarkError):
    """For an undo to raise: it no longer applies, for its world has moved on. It is not tried again by itself."""

    remedy: ClassVar[str] = (
        "See `settlemark stuck`: mend by hand what stands, and say so with `settlemark settle-by-hand`."
    )


class InDoubt(SettlemarkError):
    """An outcome that nobody can tell: recorded as unknown, not guessed, and not repeated.

    Attributes: `key`, `tool`, `scope`.
    """

    remedy: ClassVar[str] = (
        "Ask the counterparty by the key, then tell the answer: `settlemark resolve KEY confirmed` or "
        "`absent`. Do not repeat the call."
    )


class PartialCommit(SettlemarkError):
    """Some irreversible effects left and a later one failed for good.

    Attributes: `transaction`, `released` and `failed` (lists of keys).
    """

    remedy: ClassVar[str] = (
        "See `settlemark residue`, mend by hand what failed, and record it with `settlemark resolve KEY dealt-with`."
    )


class LedgerError(SettlemarkError):
    """The durable record could not be read or written. Attribute `url`."""

    remedy: ClassVar[str] = (
        "Mend what the message says of the store, then try again; `settlemark doctor` looks for the cause."
    )


class Forgotten(LedgerError):
    """A decision is on record but its result is pruned or its key dropped: the call is not run again.

    Attributes: `key`, `tool`, `outcome`.
    """

    remedy: ClassVar[str] = (
        "Decide the call anew under another name if it must act again; keep payloads for longer with `retention=`."
    )


class InternalError(SettlemarkError):
    """Our own bug: please report it with the message."""

    remedy: ClassVar[str] = "Report it with its message, and with `settlemark export` of the transaction."
