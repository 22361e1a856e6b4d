"""How typed code uses settlemark: read by the type checkers, never run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from settlemark import (
    UNKNOWN,
    CurrentCall,
    Declaration,
    Doubt,
    Footprint,
    Injected,
    Level,
    Outcome,
    Parked,
    PartialCommit,
    Payloads,
    Pruned,
    Queued,
    Refused,
    Residue,
    Retries,
    Rewind,
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
from settlemark.ledger import RecordedTransaction


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


def settings(key: str) -> Settlement:
    """All that a settlement may be told."""
    return Settlement(
        "sqlite:///trips.db",
        namespace="prod",
        wait=5,
        lease=10,
        quarantine=60,
        keep_open=30,
        max_age=600,
        on_failure="ask",
        ask=lambda failure: "skip" if failure.tries > 2 else "retry",
        approver=lambda gate: gate.tool != "wire",
        retries=Retries(tries=5),
        on_residue=print,
        observe=None,
        prevent=Level.L3,
        reads="early",
        tools="pinned",
        history="history.jsonl",
        payloads=Payloads(redact=["card.number"], encrypt=key, tenant="acme", retention=30, retain=100),
        injected=Injected(clock=time.time, monotonic=time.monotonic, store_clock=time.time, ids=lambda: "first"),
    )


def price_of(item: str) -> str:
    """Name the scope of a price."""
    return f"price:/{item}"


@effect(
    "read",
    name="look_at",
    scope=price_of,
    check=print,
    refine=price_of,
    version="2",
    aliases="look",
    versions=("1",),
    live=price_of,
    valid_for=60,
    redact=("card",),
)
def look_at(item: str) -> int:
    """Ask for a price."""
    return len(item)


def declarations(settlement: Settlement) -> tuple[Declaration, Declaration | None]:
    """Declaring tools of others takes the same parts as the decorator."""
    made: Declaration = settlement.declare(
        "wire",
        "irreversible",
        scope="bank:/{account}",
        may_touch="bank:/",
        probe=find_room,
        release=print,
        keyed=True,
        window=86_400,
        unknown=(TimeoutError,),
        approve=True,
    )
    settlement.declare("charge", "reversible", scope="bank:/x", undo=print, cost="a fee")
    settlement.revoke("wire")
    settlement.reinstate("wire")
    return made, settlement.declared("wire", None)


def looking(settlement: Settlement) -> dict[str, object]:
    """What a settlement tells: none of it moves anything."""
    doubts: list[Doubt] = settlement.in_doubt()
    records: list[RecordedTransaction] = settlement.transactions(last=20, since=0.0, run="trip-42", state="aborted")
    waiting: list[tuple[str, str, str]] = settlement.waiting()
    parked: list[Parked] = settlement.parked()
    frontier: int = settlement.frontier("room:/Ada")
    account: str = settlement.show(last=20)
    asked = settlement.approvals()
    return {
        "doubts": doubts, "records": records, "waiting": waiting, "parked": parked, "frontier": frontier,
        "account": account, "asked": [question.key for question in asked], "url": settlement.url,
    }  # fmt: skip


def answers(settlement: Settlement, doubt: Doubt) -> list[object]:
    """What an operator says."""
    became: Outcome = settlement.confirm(doubt.key, {"wire": "w7"}, note="by webhook")
    resolved: Outcome = settlement.resolve(doubt, "confirmed", by="ada", note="called", result={"wire": "w7"})
    approved: bool = settlement.approve("trip-42", by="ada", arguments={"to": "ada"}).settled
    rejected: bool = settlement.reject("trip-42", because="too dear", by="ada").settled
    left: list[Any] = settlement.answer("trip-42!0", approve=True, because="it may go", wait=1)
    going: Rewind = settlement.rewind(["trip-42/1"], by="ada", note="a mistake", dry_run=True, overwrite=())
    settlement.advance("room:/Ada", 7)
    pruned: Pruned = settlement.prune(30, keys=365)
    return [became, resolved, approved, rejected, left, going, pruned, settlement.recover(keep_open=0).committed]


async def awaited(settlement: Settlement, doubt: Doubt) -> list[object]:
    """The same in an event loop: each name with an `a` before it."""
    became: Outcome = await settlement.aconfirm(doubt.key, None)
    resolved: Outcome = await settlement.aresolve(doubt, "absent", by="ada")
    approved: bool = (await settlement.aapprove("trip-42", by="ada")).settled
    rejected: bool = (await settlement.areject("trip-42", because="too dear", by="ada")).settled
    left: list[Any] = await settlement.aanswer("trip-42!0", approve=False)
    going: Rewind = await settlement.arewind("trip-42/1", by="ada")
    undone: list[str] = (await settlement.arecover()).undone
    await settlement.aclose()
    return [became, resolved, approved, rejected, left, going, undone]


async def holds(settlement: Settlement) -> int:
    """A place that is kept for work to come."""
    with settlement.hold("room:/Ada", name="night") as hold:
        with hold.transaction("night/1") as tx:
            epoch: int = tx.epoch
        hold.drop()
    async with settlement.hold("room:/Bee") as other:
        await other.adrop()
    best: object = settlement.speculate([lambda branch: branch.call(look_at, "a")], lambda found: len(found) - 1)
    return epoch if best else 0


def book(tx: Transaction) -> dict[str, str]:
    """A body for `Settlement.run`."""
    booked: dict[str, str] = tx.call(reserve_room, hotel="Ada", date="2026-12-01")
    return booked
