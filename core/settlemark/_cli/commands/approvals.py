"""`settlemark approvals`, `approve`, `edit` and `reject`: calls that wait for a person, and the person's answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from settlemark._cli.commands.options import AsJson, AsTable, LedgerName, Module, Namespace, operating, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import fail, say, say_json, say_table, say_text

if TYPE_CHECKING:
    from settlemark._report.questions import Question

Which = Annotated[
    str, typer.Argument(metavar="KEY|NAME", help="The call's key, or its transaction's name: settlemark approvals.")
]
By = Annotated[str, typer.Option("--as", "--by", metavar="NAME", help="Who answers; it is put on record.")]
Roles = Annotated[
    list[str] | None, typer.Option("--role", metavar="ROLE", help="As what, where a role may answer: finance.")
]
Seen = Annotated[
    str | None,
    typer.Option(metavar="DIGEST", help="Refuse if its arguments have another digest.", show_default=False),
]


def approvals(
    ledger: LedgerName = None, *, as_json: AsJson = False, as_table: AsTable = False, namespace: Namespace = "default"
) -> None:
    """List every call that waits for a person's yes, with its arguments, and how to answer."""
    from settlemark._report.questions import asked_account, asked_in

    found = seen(ledger, namespace, asked_in)
    if as_json:
        say_json([one.to_json() for one in found])
    elif as_table and found:
        say_table(_table(found))
    else:
        say_text(asked_account(found))


def _table(found: list[Question]) -> Any:
    from settlemark._model import json_text
    from settlemark._report.sentences import add_row, new_table, short

    shown = new_table("Waiting for a person", "transaction", "tool", "scope", "with", "why", "answered", "key")
    for one in found:
        answer = "" if one.answer is None else f"{one.answer.get('decision')}, by {one.answered_by}"
        given = json_text.encode_result(one.arguments)
        add_row(shown, short(one.transaction), one.tool, one.scope, given, one.rationale or "", answer, one.key)
    return shown


def approve(
    which: Which,
    ledger: LedgerName = None,
    *,
    by: By,
    role: Roles = None,
    seen: Seen = None,
    as_json: AsJson = False,
    module: Module = None,
    namespace: Namespace = "default",
) -> None:
    """Approve a call that waits for a person: its process goes on.

    A parked transaction settles here when --module declares its tools, else in a process that has them. Approving twice
    has no further effect; exits with 1 when nothing waits, it was answered otherwise, or the answer does not count.
    """
    _answer(which, ledger, namespace, module, as_json=as_json, by=by, roles=role, seen=seen)


def edit(
    which: Which,
    arguments: Annotated[
        str, typer.Argument(metavar="JSON", help="The arguments that it is to run with, all of them, as an object.")
    ],
    ledger: LedgerName = None,
    *,
    by: By,
    role: Roles = None,
    seen: Seen = None,
    as_json: AsJson = False,
    module: Module = None,
    namespace: Namespace = "default",
) -> None:
    """Approve a call that waits for a person, with other arguments than its own; else as approve."""
    given: Any = None
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        fail(f"{_AS_IN}, and this is not JSON: {error}")
    if not isinstance(given, dict):
        fail(f"{_AS_IN}, and this is not a JSON object")
    _answer(which, ledger, namespace, module, as_json=as_json, by=by, roles=role, seen=seen, arguments=given)


_AS_IN = """give all arguments of the call, as in '{"to": "b@c.example"}'"""


def reject(
    which: Which,
    ledger: LedgerName = None,
    *,
    because: Annotated[str, typer.Option(help="Why not; it is put on record, and the model is told.")],
    by: By,
    role: Roles = None,
    as_json: AsJson = False,
    module: Module = None,
    namespace: Namespace = "default",
) -> None:
    """Reject a call that waits for a person: it never runs, and its program is told why.

    A parked transaction is undone; a program that enters its name again is asked again. Exits with 1 when nothing
    waits, or it was answered otherwise.
    """
    _answer(which, ledger, namespace, module, as_json=as_json, by=by, roles=role, because=because)


def _answer(
    which: str,
    ledger: str | None,
    namespace: str,
    module: str | None,
    *,
    as_json: bool,
    by: str,
    roles: list[str] | None = None,
    seen: str | None = None,
    arguments: Any = None,
    because: str | None = None,
) -> None:
    from settlemark._edges.errors import LedgerError, SettlemarkError, Stale, UsageError

    with operating(ledger, namespace, module) as settlement:
        try:
            if because is None:
                done = settlement.approve(which, by=by, roles=roles or (), arguments=arguments, seen=seen)
            else:
                done = settlement.reject(which, because=because, by=by, roles=roles or ())
        except (LedgerError, UsageError):
            raise
        except Stale as error:
            fail(f"the answer does not count: {error}", code=Exit.FOUND)
        except SettlemarkError as error:
            fail(f"the answer is on record, and this did not settle with it: {error}", code=Exit.FOUND)
    if as_json:
        say_json(
            {
                "keys": list(done.keys),
                "decision": done.decision,
                "changed": done.news,
                "settled": done.settled,
                "more": done.more,
                "waits": done.waits,
            }
        )
        return
    word = {"approve": "approved", "edit": "approved with other arguments", "reject": "rejected"}[done.decision]
    for key in done.keys:
        say(f"{key} is {word}, by {by}." if done.news else f"{key} was {word} already; nothing was changed.")
    if done.more:
        say(f"It is on record; {done.more} more of those who may answer have to say the same.")
    elif done.waits:
        say(f"It is on record, and has not settled yet: {done.waits}.")
        say(
            "Any process that has its tools, and its key if it is encrypted, settles it; settlemark recover"
            " --module YOURAPP.TOOLS does, too, if it is not."
        )
    elif not done.settled:
        say(
            "It is on record: the process or framework that waits for it goes on with it; settlemark waiting tells who."
        )


__all__ = ["approvals", "approve", "edit", "reject"]
