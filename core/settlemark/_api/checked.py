"""Checks of arguments of the public face, before anything is done: each returns the argument or names the mistake."""

from __future__ import annotations

from typing import Literal, get_args

from settlemark._acts.failure import Ask
from settlemark._attempt.attempt import Hook, OnFailure
from settlemark._edges.errors import UsageError
from settlemark._edges.given import function, several
from settlemark._edges.text import DERIVED, NAME, Most, brief, identity
from settlemark._lifecycle.parking import Park
from settlemark._model.scope import Scope
from settlemark._protocol.states import State
from settlemark._report.stuck import MENDS
from settlemark.ledger._contract import Page

WaitFor = Literal["scopes", "nobody"]
"""What a transaction waits for after a lost race: older ones on the same scopes, or nobody."""
_WAITS_FOR, _ON_FAILURE, _PARKS = get_args(WaitFor), get_args(OnFailure), get_args(Park)
LEAST_LEASE = 0.5
A_NAME = "a transaction's name is a text, as in 'trip-42'"
"""What is said of a transaction's name: none that its caller gives is one that a mend has."""


def checked_wait(seconds: object, what: str = "wait") -> float:
    """Return seconds, 0 or more."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise UsageError(f"{what}={seconds!r}: give seconds, 0 or more")
    return seconds


def checked_age(seconds: object) -> float:
    """Return the seconds for which a transaction may be open."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise UsageError(f"max_age={seconds!r}: give the seconds for which it may be open, more than 0")
    return seconds


def checked_lease(seconds: float) -> float:
    """Return the seconds of a lease, no fewer than a busy process may pause."""
    if checked_wait(seconds, "lease") < LEAST_LEASE:
        raise UsageError(f"lease={seconds!r}: give {LEAST_LEASE:g} seconds or more, since a busy process pauses too")
    return seconds


def checked_days(days: object, what: str = "retention") -> float:
    """Return days, 0 or more."""
    if isinstance(days, bool) or not isinstance(days, int | float) or not days >= 0:
        raise UsageError(f"{what}={days!r}: give days, 0 or more")
    return days


def checked_number(number: object, what: str, of_what: str) -> int:
    """Return a number of things, 0 or more."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise UsageError(f"{what}={number!r}: give {of_what}, 0 or more")
    return number


def checked_epoch(epoch: object) -> int:
    """Return an epoch: a positive integer."""
    if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 1:
        raise UsageError(f"epoch={epoch!r}: give a positive integer, as in tx.epoch")
    return epoch


def checked_wait_for(chosen: object) -> object:
    """Return a valid `wait_for=`."""
    if chosen not in _WAITS_FOR:
        raise UsageError(f"wait_for={chosen!r}: choose {' or '.join(map(repr, _WAITS_FOR))}")
    return chosen


def checked_failure(on_failure: OnFailure, ask: Ask | None) -> OnFailure:
    """Return a valid `on_failure=`; `"ask"` needs an `ask=` function."""
    if on_failure not in _ON_FAILURE:
        raise UsageError(f"on_failure={on_failure!r}: choose one of {', '.join(map(repr, _ON_FAILURE))}")
    if on_failure == "ask" and not callable(ask):
        raise UsageError(f"on_failure='ask' and ask={ask!r}: give ask=function, which is called with a Failure")
    return on_failure


def checked_hooks(given: object) -> tuple[Hook, ...]:
    """Return the hooks of a commit, given as one or several."""
    hooks = (given,) if callable(given) else several(given, "before_commit=")
    return tuple(function(hook, "before_commit=") for hook in hooks)


def checked_footprint(given: object) -> list[Scope]:
    """Return the scopes that are held from the start, given as one or several."""
    return [Scope.parse(each) for each in ([given] if isinstance(given, str | Scope) else several(given, "may_touch="))]


def checked_park(how: Park) -> Park:
    """Return a way to park.

    Raises:
        UsageError: there is no such way.
    """
    if how not in _PARKS:
        raise UsageError(f"park={how!r}: choose one of {', '.join(map(repr, _PARKS))}")
    return how


def checked_text(text: object, what: str, most: Most = NAME) -> str:
    """Return a name, a run or a tool: a text that every store can hold unchanged."""
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{what}, not {brief(text)}")
    if what is A_NAME and text.startswith(MENDS):
        raise UsageError(
            f"{brief(text)}: names that begin with {MENDS} are those of mends, which only a mend takes; nothing was"
            " begun: give this work another name"
        )
    return identity(text, f"{what}; this one", most)


def checked_word(text: object, what: str, most: Most) -> str:
    """Return what an operator gives: a key, a name, or who decides."""
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{what}, not {brief(text)}: nothing was recorded")
    return identity(text, f"{what}; this one", most)


def checked_page(last: object, since: object, run: str | None, state: State | str | None) -> Page:
    """Return which page of the recorded transactions is asked for."""
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 1):
        raise UsageError(f"last={last!r}: give how many, 1 or more")
    if since is not None and (isinstance(since, bool) or not isinstance(since, int | float)):
        raise UsageError(f"since={since!r}: give seconds since 1970, as time.time() does")
    if run is not None:
        identity(run, "run=", DERIVED)
    try:
        return Page(last, since, run, None if state is None else State(state))
    except ValueError:
        raise UsageError(f"state={state!r}: choose one of {', '.join(repr(each.value) for each in State)}") from None


__all__ = [
    "A_NAME",
    "LEAST_LEASE",
    "WaitFor",
    "checked_age",
    "checked_days",
    "checked_epoch",
    "checked_failure",
    "checked_lease",
    "checked_number",
    "checked_page",
    "checked_park",
    "checked_text",
    "checked_wait",
    "checked_wait_for",
    "checked_word",
]
