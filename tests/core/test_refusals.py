"""Who is undone is told why: in words that name what it was about, and as data that a program can read."""

from __future__ import annotations

import pytest

from settlemark import (
    Cancelled,
    Cascaded,
    Halted,
    LateAppend,
    LeaseLost,
    Overdue,
    Refused,
    Rewound,
    Scope,
    Stale,
    Vetoed,
    WaitTimeout,
    Wounded,
)
from settlemark.hosting import Protocol, Reason

SAID = {
    "scope": Scope.parse("room:/Ada"),
    "holder": "another",
    "waited": 1.5,
    "hook": "budget",
    "verdict": "too dear",
    "cause": "it rained",
    "halt": 1,
    "what": "everything",
    "by": "ada",
    "because": "odd payments",
    "since": 0.0,
}
TOLD = {
    Reason.STALE: (Stale, ["room:/Ada"]),
    Reason.WOUNDED: (Wounded, ["another", "room:/Ada"]),
    Reason.CASCADED: (Cascaded, ["another", "room:/Ada"]),
    Reason.CANCELLED: (Cancelled, []),
    Reason.HALTED: (Halted, ["everything", "ada", "odd payments", "1970-01-01"]),
    Reason.TIMEOUT: (WaitTimeout, ["1.5 s", "another", "room:/Ada"]),
    Reason.VETOED: (Vetoed, ["budget", "too dear"]),
    Reason.VIOLATION: (LateAppend, ["room:/Ada"]),
    Reason.LEASE: (LeaseLost, []),
    Reason.OVERDUE: (Overdue, ["it rained"]),
    Reason.REWOUND: (Rewound, ["it rained"]),
}
DATA = {Reason.REWOUND: {"by": "it rained"}, Reason.HALTED: {**SAID, "parked": False}}


def told(reason, **said):
    protocol = Protocol()
    txn = protocol.begin("trip")
    protocol.abort(txn, reason, **said)
    return protocol.refusal(txn)


@pytest.mark.parametrize("reason", Reason)
def test_who_is_undone_is_told_by_whom_where_and_why(reason):
    kind, named = TOLD.get(reason, (Refused, ["it rained"]))
    error = told(reason, **SAID)
    assert type(error) is kind
    assert [word for word in ["trip", *named] if word not in str(error)] == []
    data = DATA.get(reason, SAID)
    assert error.data == {"transaction": "trip", "epoch": 1, **data}


def test_what_made_a_plan_stale_and_what_to_do_then_is_told_where_it_is_more_than_a_changed_read():
    revoked = told(Reason.STALE, scope=Scope.parse("registry:/tool/mail"), how="was revoked", remedy="choose another")
    assert str(revoked).startswith("trip was undone: registry:/tool/mail was revoked; choose another")
    changed = told(Reason.STALE, scope=Scope.parse("room:/Ada"))
    assert str(changed).startswith("trip was undone: room:/Ada changed after it was read; ")


def test_where_nobody_said_why_nothing_stands_for_it():
    assert ": " not in str(told(Reason.FAILED)).splitlines()[0]
    assert "(" not in str(told(Reason.REWOUND)).splitlines()[0]
