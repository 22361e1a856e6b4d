"""The exit statuses of `settlemark`, for scripts to rely on."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The meaning of a command's exit status."""

    DONE = 0
    FOUND = 1
    FAILED = 2


STATUS = {
    Exit.DONE: "done, and there was nothing to tell",
    Exit.FOUND: "done, and something was found or refused: each command says what",
    Exit.FAILED: "not done: wrong arguments, a store that cannot be used, a missing extra; nothing was changed, unless"
    " it says that not all of it could be printed",
}
FOUND = {
    "approve": "the settlement refused the answer, or could not settle with it",
    "edit": "the settlement refused the answer, or could not settle with it",
    "reject": "the settlement refused the answer, or could not settle with it",
    "in-doubt": "there are outcomes that nobody knows",
    "resolve": "the outcome was known already, or the settlement refused the verdict",
    "stuck": "a transaction is stuck",
    "undo-again": "something of it still stands, or nothing of it was stuck",
    "settle-by-hand": "nothing of it is stuck",
    "recover": "something could not be taken up, or is left to mend",
    "release": "nobody has such a lease",
    "residue": "something is left to mend, or a process that ended left work unfinished",
    "obligations": "something is owed",
    "waive": "nothing is owed under this id any more",
    "why": "there is no effect under this key",
    "primer": "nothing of the run is on record",
    "claims": "the record does not bear out something that is said",
    "audit": "a row is not what was recorded",
    "verdicts": "something was denied, where that is asked (`--denied`)",
    "halt": "something may still act there",
    "resume": "no such halt stands",
    "halts": "something is halted",
    "steer": "the settlement refused what was said",
    "steering": "something waits to be taken",
    "pause": "the settlement refused the pause",
    "pauses": "a run is paused",
    "go-on": "the run is not paused, or another's",
    "hand-over": "the run is not paused, or another's",
    "discard": "the run is not paused, or another's",
    "doctor": "there is a danger",
    "check": "an anomaly was found",
    "lint": "a declaration has a mistake",
    "analyze": "a channel is open to an anomaly, or a tool is undeclared",
    "demo": "the settled side left something that it should not have",
    "fuzz": "a call changed what its scopes do not cover",
}
"""The meaning of status 1, for each command that has it; every other command has 0 and 2 alone."""

__all__ = ["FOUND", "STATUS", "Exit"]
