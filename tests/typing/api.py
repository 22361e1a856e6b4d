"""How typed code uses settlemark: read by the type checkers, never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from settlemark import (
    UNKNOWN,
    CurrentCall,
    Declaration,
    Footprint,
    PartialCommit,
    Queued,
    Refused,
    Residue,
    Retries,
    Scope,
    Settlement,
    State,
    Tag,
    Transaction,
    WaitTimeout,
    current_call,
    effect,
    inverse,
)
from settlemark import AsyncTransaction as Async


def cancel_room(number: str) -> None:
    """Take a booking back."""


def find_room(key: str) -> Mapping[str, str] | object | None:
    """Ask what became of a booking."""
    return UNKNOWN if key else None


@effect("reversible", scope="room:/{hotel}/{date}", undo=inverse(cancel_room, number="id"), probe=find_room)
def reserve_room(hotel: str, date: str, *, guests: int = 1) -> dict[str, str]:
    """Book a room."""
    call: CurrentCall | None = current_call()
    return {"id": call.key if call is not None else f"{hotel}{date}{guests}"}


@effect("irreversible", scope="mail:/{to}", unknown=(OSError,))
async def send_mail(to: str, body: str) -> int:
    """Send a mail."""
    return len(to + body)


def declared_tools_keep_their_types() -> tuple[dict[str, str], str]:
    """The decorator changes no signature."""
    booked = reserve_room("Ada", date="2026-12-01", guests=2)
    return booked, booked["id"]


async def async_tools_keep_theirs() -> int:
    """An async tool stays one."""
    return await send_mail(to="a@b.example", body="…")


def budget(footprint: Footprint) -> bool | str:
    """Judge a footprint before the commit."""
    return len(footprint.effects) < 3 or f"{footprint.transaction} does too much"


def plain_code(settlement: Settlement) -> tuple[State, int, str]:
    """Transactions, turns, errors and what an operator sees."""
    with settlement.transaction("trip-42", may_touch=["room:/Ada"], before_commit=[budget], wait=5) as tx:
        price: int | None = tx.read("price:/Ada", lambda: 7)
        tx.call(reserve_room, hotel="Ada", date="2026-12-01")
        queued: Queued = tx.call(send_mail, "a@b.example", body="…")
        with tx.turn(order="scopes", because="they asked") as turn:
            turn.plan(reserve_room, "Ada", "2026-12-02").run()
    state: State = tx.state
    try:
        settlement.run("trip-43", lambda again: again.call(reserve_room, hotel="Ada", date="x"), tries=3)
    except WaitTimeout as timeout:
        return state, timeout.waited, timeout.holder
    except PartialCommit as partial:
        return state, len(partial.released), str(partial)
    except Refused as refused:
        return state, price or 0, refused.transaction
    return state, len(queued.key), str(queued.result())


async def async_code(settlement: Settlement) -> str:
    """The same, awaited."""
    async with settlement.transaction("trip-44") as tx:
        face: Async = tx
        await face.read(Scope.parse("price:/Ada"))
        answer: Any = await face.call(reserve_room, hotel="Ada", date="2026-12-01")
        await face.turn().plan(send_mail, to="a@b.example", body="…").arun()
        await face.commit()
    await settlement.acancel("trip-44")
    return str(answer)


def operators(url: str) -> list[tuple[str, Tag]]:
    """Declaring tools of others, and looking at what was left."""
    settlement = Settlement(url, namespace="prod", retries=Retries(tries=5), on_failure="retry", wait=1.5)
    declaration: Declaration = settlement.declare("send_email", "irreversible", scope="mail:/{to}", version="2")
    left: list[Residue] = settlement.residue()
    settlement.cancel(declaration.tool)
    settlement.close()
    return [(residue.transaction, residue.tag) for residue in left]


def book(tx: Transaction) -> dict[str, str]:
    """A body for `Settlement.run`."""
    booked: dict[str, str] = tx.call(reserve_room, hotel="Ada", date="2026-12-01")
    return booked
