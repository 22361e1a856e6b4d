"""The errors that tell a program why its transaction was undone."""

from __future__ import annotations

from typing import Any

from settlemark._edges.errors import (
    Cancelled,
    Cascaded,
    Halted,
    LateAppend,
    LeaseLost,
    Overdue,
    Refused,
    Rewound,
    SettlemarkError,
    Stale,
    Vetoed,
    WaitTimeout,
    Wounded,
)
from settlemark._edges.wording import by_reader
from settlemark._protocol.holdings import Halt, shown_time
from settlemark._protocol.states import Reason


def refusal(name: str, epoch: int, reason: Reason, detail: dict[str, Any]) -> SettlemarkError:  # noqa: PLR0911 - a table
    """Return the error that tells why a transaction was aborted, and what to do next."""
    data = {"transaction": name, "epoch": epoch, **detail}
    scope = detail.get("scope")
    match reason:
        case Reason.STALE:
            how = detail.get("how", "changed after it was read")
            remedy = detail.get("remedy", "read it again and plan again")
            return Stale(f"{name} was undone: {scope} {how}; {remedy}", **data)
        case Reason.WOUNDED:
            return Wounded(
                f"{name} was undone: {detail.get('holder')} came first and needed {scope}; run it again",
                **data,
            )
        case Reason.CASCADED:
            return Cascaded(
                f"{name} was undone: it had read {scope} as {detail.get('holder')} left it, which was undone; read"
                " it again and plan again",
                **data,
            )
        case Reason.CANCELLED:
            return Cancelled(f"{name} was cancelled: nothing of it acts any more", **data)
        case Reason.HALTED:
            return Halted(f"{name} was undone: {_told(detail)}", **data, parked=False)
        case Reason.TIMEOUT:
            return WaitTimeout(
                f"{name} was undone: it waited {detail.get('waited'):g} s for {detail.get('holder')},"
                f" which holds {scope}; {by_reader('run it again, or raise wait=', 'run it again')}",
                **data,
            )
        case Reason.VETOED:
            return Vetoed(f"{name} was undone: {detail.get('hook')} said no: {detail.get('verdict')}", **data)
        case Reason.VIOLATION:
            return LateAppend(f"{name} was undone: a call on {scope} came after it was sealed", **data)
        case Reason.LEASE:
            return LeaseLost(
                f"{name} is another worker's now: this process was silent for longer than its lease, so it was taken"
                " for dead; nothing of it acts here any more; enter its name again to see how it ended",
                **data,
            )
        case Reason.OVERDUE:
            return Overdue(
                f"{name} was undone: {detail.get('cause')}; nothing of it acts any more: begin again, or raise"
                " max_age=",
                **data,
            )
        case Reason.REWOUND:
            return rewound(name, epoch, str(detail.get("cause", "")))
        case _:
            cause = detail.get("cause")
            told = f": {cause}" if cause else ""
            return Refused(f"{name} was undone ({reason}){told}", **data)


def halted(name: str, epoch: int | None, halt: Halt, *, parked: bool = False) -> Halted:
    """Return the error for what a halt keeps from acting; `parked`: it goes on by itself once it is resumed."""
    detail = detail_of(halt)
    how = "is put aside as it is, and goes on by itself then: repeat nothing" if parked else "was not run"
    return Halted(f"{name} {how}: {_told(detail)}", transaction=name, epoch=epoch, **detail, parked=parked)


def detail_of(halt: Halt) -> dict[str, Any]:
    """Return what errors tell of a halt."""
    return {"halt": halt.number, "what": halt.what, "by": halt.by, "because": halt.because, "since": halt.since}


def _told(detail: dict[str, Any]) -> str:
    why = f": {detail.get('because')}" if detail.get("because") else ""
    since = shown_time(float(detail.get("since") or 0))
    return (
        f"{detail.get('what')} is halted since {since} by {detail.get('by')}{why};"
        f" settlement.resume({detail.get('halt')}, by=...) or settlemark resume {detail.get('halt')} lifts it, then"
        " enter the name again"
    )


def rewound(name: str, epoch: int | None, by: str) -> Rewound:
    """Return the error for a transaction that was undone on request; `by` says who, when and why."""
    told = f" ({by})" if by else ""
    return Rewound(
        f"{name} was undone on request{told}: its work was rewound, so nothing of it is replayed or run; continue"
        " from the point of the rewind, or use a new name for new work",
        transaction=name,
        epoch=epoch,
        by=by,
    )
