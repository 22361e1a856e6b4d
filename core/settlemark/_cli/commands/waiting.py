"""`settlemark waiting`: unfinished transactions, their owners, and who holds whom up, since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settlemark._cli.commands.options import AsJson, AsTable, LedgerName, Namespace, seen
from settlemark._cli.terminal import say, say_json, say_table, say_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from settlemark._api.who_waits import Standing


def waiting(
    ledger: LedgerName = None, *, as_json: AsJson = False, as_table: AsTable = False, namespace: Namespace = "default"
) -> None:
    """Show what is unfinished, which process owns it, and who waits for whom, on what, since when."""
    from settlemark._api import who_waits as _waiting

    stand, now = seen(ledger, namespace, _waiting.standing)
    if as_json:
        say_json([one.values() for one in stand])
    elif as_table and stand:
        say_table(_table(stand, now))
    else:
        say_text(_waiting.told(stand, now))


def say_unfinished(left: list[Standing]) -> None:
    """Say on stderr, in one line, how many transactions of ended processes nobody has taken up yet."""
    if left:
        say(f"settlemark: {_told(left)}", err=True)


def unfinished_values(left: list[Standing]) -> list[dict[str, object]]:
    """Return the same as JSON values: at most one."""
    return [{"unfinished": len(left), "told": _told(left)}] if left else []


def _told(left: list[Standing]) -> str:
    are, them = ("transaction is", "it") if len(left) == 1 else ("transactions are", "them")
    return (
        f"{len(left)} unfinished {are} of a process that is gone or silent, and what became of {them} is not known"
        f" yet: settlemark doctor names {them}, and settlemark recover --module YOURAPP.TOOLS ends {them}"
    )


def _table(stand: list[Standing], now: float) -> RenderableType:
    from settlemark._api.who_waits import duration, name_of
    from settlemark._report.sentences import add_row, new_table, short
    from settlemark.ledger._workers import process

    def since(at: float | None) -> str:
        return "" if at is None else duration(now - at)

    shown = new_table(
        "Unfinished", "transaction", "state", "for", "process", "lease", "holds", "waits for", "on", "waits since"
    )
    for one in stand:
        state = "parked" if one.parked else "over, not on record" if one.ended else one.state.value
        lease = "" if one.lease_left is None else f"{one.lease_left:.0f} s" if one.alive else "gone"
        add_row(
            shown,
            name_of(one),
            state,
            since(one.since),
            process(one.worker) if one.worker else "nobody",
            lease,
            one.scopes,
            [
                *(f"a person, for {each.tool}" for each in one.asked),
                *(short(w.holder) for w in one.waits),
                *(f"{process(each.worker)}, silent at {each.tool}" for each in one.kept),
            ],
            [*(q.scope for q in one.asked), *(w.scope for w in one.waits), *(s.scope for s in one.kept)],
            [*(since(each.since) for each in one.asked), *(since(w.since) for w in one.waits)],
        )
    return shown


__all__ = ["say_unfinished", "unfinished_values", "waiting"]
