"""How typed code uses settlemark: read by the type checkers, never run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from settlemark import (
    UNKNOWN,
    Audit,
    Bucket,
    Budget,
    Claim,
    ClaimCheck,
    CurrentCall,
    Decision,
    Declaration,
    Doubt,
    Footprint,
    Halt,
    HeldClaim,
    Injected,
    LeaseRow,
    Level,
    Obligation,
    Outcome,
    Parked,
    PartialCommit,
    Pause,
    Payloads,
    Policy,
    PolicyRule,
    PolicyVerdict,
    Primer,
    Promise,
    PromiseCheck,
    Pruned,
    Queued,
    Refused,
    Remedy,
    Residue,
    Retries,
    Rewind,
    Scope,
    Settled,
    Settlement,
    Standstill,
    State,
    SteeredRun,
    Steering,
    Stuck,
    Tag,
    Transaction,
    WaitTimeout,
    Why,
    aowe,
    current_call,
    effect,
    inverse,
)
from settlemark import AsyncTransaction as Async
from settlemark.hosting import Notice, Staged
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


@effect("irreversible", scope="mail:/{to}", unknown=(OSError,), spends={"usd": 1}, spent={"usd": "{result}"})
async def send_mail(to: str, body: str) -> int:
    """Send a mail."""
    return len(to + body)


@effect("idempotent", scope="room:/{hotel}", expires="{result.until}", then=cancel_room)
def hold_room(hotel: str) -> dict[str, float]:
    """Hold a room until a time."""
    return {"until": float(len(hotel))}


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
    with settlement.transaction("sweep") as tx:
        decision: Decision = tx.decide(
            "sweep", because="it yields more", alternatives=["hold"], policy="v7", grounds=[1]
        )
        with decision:
            why: Why = settlement.why("sweep#1/0")
            audited: Audit = settlement.audit("sweep", digest="0" * 64)
            settlement.enforce(None)
            denied: list[PolicyVerdict] = settlement.verdicts(run="sweep", verdict="deny")
        assert (why.because, audited.intact, denied) == (None, True, [])
    settlement.cancel(declaration.tool)
    settlement.close()
    return [(residue.transaction, residue.tag) for residue in left]


class Board:
    """A channel, by which a person is paged."""

    name = "board"

    def tell(self, notice: Notice) -> None:
        told: dict[str, Any] = notice.to_json()
        assert told["subject"] == notice.subject


def proposed(stuck: Stuck) -> list[dict[str, object]] | None:
    """A plan, as plain data."""
    tried: Remedy | None = stuck.remedy
    return None if tried is not None else [{"tool": "cancel", "arguments": {"room": stuck.effects[0].scopes[0]}}]


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
        budgets=[Budget("usd", "49.90", per="day")],
        policy=Policy("v7", [PolicyRule("small", "allow", tool="pay", amount="{amount}", up_to=10)], default="ask"),
        channels=[Board()],
        on_stuck=proposed,
    )


def count_down(item: str) -> None:
    """Take one away."""


@effect("reversible", scope="stock:/{item}", undo=count_down, commutes="add")
def count_up(item: str) -> None:
    """Add one to the stock."""


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
    }  # fmt: skip # a table


def answers(settlement: Settlement, doubt: Doubt) -> list[object]:
    """What an operator says."""
    became: Outcome = settlement.confirm(doubt.key, {"wire": "w7"}, note="by webhook")
    resolved: Outcome = settlement.resolve(doubt, "confirmed", by="ada", note="called", result={"wire": "w7"})
    approved: bool = settlement.approve("trip-42", by="ada", roles="board", arguments={"to": "ada"}, seen="").settled
    rejected: bool = settlement.reject("trip-42", because="too dear", by="ada", roles=["board"]).settled
    settlement.redeem("a-token", "edit", because="cheaper", arguments={"to": "ada"})
    left: list[Any] = settlement.answer("trip-42!0", approve=True, because="it may go", wait=1)
    going: Rewind = settlement.rewind(["trip-42/1"], by="ada", note="a mistake", dry_run=True, overwrite=())
    waived: Obligation = settlement.waive("17", by="ada", note="called")
    stopped: Standstill = settlement.halt("payment:/**", by="ada", because="odd payments", wait=1)
    settlement.halt(agent="ada", by="ada", because="odd payments")
    settlement.halt(run="ada/*", everything=False, by="ada", because="odd payments")
    lifted: Halt = settlement.resume(stopped, by="ada")
    standing: list[Halt] = settlement.halts(every=True)
    said: Steering = settlement.steer("trip-42", "revise", "another hotel", scope=["hotel:/**"], by="ada")
    told: list[Steering] = settlement.steering("trip-42")
    settlement.steered("trip-42", steered, wait=1)
    stands: Pause = settlement.pause("trip-42", by="ada", because="no budget")
    going_on: Pause = settlement.go_on("trip-42", by="ada")
    handed: Pause = settlement.hand_over("trip-42", to="bob", by="ada")
    discarded: Pause = settlement.discard("trip-42", by="bob")
    every: list[Pause] = settlement.paused(every=True)
    settlement.on_due(lambda tx, owed: None, tool="refund")
    with settlement.lease("checkout:/repo", for_=timedelta(minutes=1), by="agent-3", grace=5) as lease:
        token: int = lease.token
        until: float = lease.renew()
    held: list[LeaseRow] = settlement.leases()
    held.append(settlement.end_lease("checkout:/repo", by="ada", because="gone"))
    stuck: list[Stuck] = settlement.stuck()
    again: dict[str, Outcome] = settlement.undo_again(stuck[0], by="ada", note="the desk is open")
    settled_by_hand: list[Stuck] = settlement.settle_by_hand("trip-42", by="ada", note="called")
    settled: list[Settled] = list(settlement.entity("invoice:/7").follow(wait=0))
    owed: list[Obligation] = settlement.obligations(state="open", run="trip-42", to="customer:/7", due_before=None)
    primer: Primer = settlement.primer("trip-42", most=4_000)
    instructions: str = primer.text
    heard: list[HeldClaim] = settlement.claims(
        "I have refunded 20 EUR.", run="trip-42", extract=ClaimCheck.outcomes, before_say=lambda wrong: True
    )
    settlement.advance("room:/Ada", 7)
    pruned: Pruned = settlement.prune(30, keys=365)
    charged: bool = settlement.charge("usd", 0.02, run="trip-42", key="answer-1", beyond=True)
    buckets: list[Bucket] = settlement.budgets("usd")
    return [
        instructions,
        heard,
        became,
        resolved,
        approved,
        rejected,
        left,
        going,
        waived,
        stopped.silent,
        lifted.what,
        standing,
        (said, told),
        (stands, going_on, handed, discarded, every),
        owed,
        pruned,
        charged,
        buckets,
        (token, until, held, settled),
        (again, settled_by_hand),
        settlement.recover(keep_open=0).committed,
    ]


def steered(run: SteeredRun) -> list[str]:
    """The program of a run that can be steered."""
    with run.step("1", may_touch="room:/Ada", before_commit=(), wait=1, on_failure="abort", park="keep") as tx:
        tx.call(len, [run.name])
    run.keep(executor={"notes": [run.executor]}, environment=run.environment)
    return [said.text for said in run.said]


async def awaited(settlement: Settlement, doubt: Doubt) -> list[object]:
    """The same in an event loop: each name with an `a` before it."""
    became: Outcome = await settlement.aconfirm(doubt.key, None)
    resolved: Outcome = await settlement.aresolve(doubt, "absent", by="ada")
    approved: bool = (await settlement.aapprove("trip-42", by="ada")).settled
    rejected: bool = (await settlement.areject("trip-42", because="too dear", by="ada")).settled
    await settlement.aredeem("a-token", "reject", because="too dear")
    left: list[Any] = await settlement.aanswer("trip-42!0", approve=False)
    going: Rewind = await settlement.arewind("trip-42/1", by="ada")
    claimed: list[HeldClaim] = await settlement.aclaims([Claim("done", tool="refund")])
    primed: Primer = await settlement.aprimer("trip-42", most=4_000)
    waived: Obligation = await settlement.awaive("17", by="ada")
    again: dict[str, Outcome] = await settlement.aundo_again("trip-42", by="ada")
    ended: list[Stuck] = await settlement.asettle_by_hand("trip-42", by="ada")
    stopped: Standstill = await settlement.ahalt(run="ada/*", everything=False, by="ada", because="odd", wait=1)
    lifted: Halt = await settlement.aresume(stopped.halt, by="ada")
    said: Steering = await settlement.asteer("trip-42", "add", "a window seat", by="ada")
    stands: list[Pause] = [
        await settlement.apause("trip-42", by="ada", because="no budget"),
        await settlement.ago_on("trip-42", by="ada"),
        await settlement.ahand_over("trip-42", to="bob", by="ada"),
        await settlement.adiscard("trip-42", by="bob"),
    ]
    undone: list[str] = (await settlement.arecover()).undone
    await settlement.aclose()
    charged: bool = await settlement.acharge("usd", "0.02", run="trip-42")
    row: LeaseRow = await settlement.aend_lease("checkout:/repo", by="ada", because="gone")
    async with await settlement.alease(row.scope, for_=60) as lease:
        await lease.arenew()
    return [
        charged, became, resolved, approved, rejected, left, going, waived, undone, lifted, primed.known, again, ended,
        claimed, said, stands,
    ]  # fmt: skip # a list of names and values


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


def what_is_said(settlement: Settlement) -> tuple[list[HeldClaim], list[Promise], object]:
    """What an agent is about to say is held against the record, and against what is owed."""
    claims, promises = ClaimCheck(settlement), PromiseCheck(settlement, PromiseCheck.commitments)
    send: object = settlement.declare("send_mail", "irreversible", scope="mail:/{to}", check=claims.guard("body"))
    settlement.declare("send_letter", "irreversible", scope="mail:/{to}", check=promises.guard("body"))
    promised: list[Promise] = [*promises.hold("I will call you.", run="trip-42"), *PromiseCheck.refunds("20 EUR")]
    promises.strike(promised[0], run="trip-42", by="ada", note="nobody will")
    promises.owed_as("I will call you.", settlement.obligations()[0])
    return claims.hold("I have booked it.", run="trip-42"), promised, send


async def what_is_said_in_an_event_loop(settlement: Settlement) -> list[object]:
    """The same, awaited; and a history that is followed."""
    claims, promises = ClaimCheck(settlement), PromiseCheck(settlement, PromiseCheck.refunds)
    await promises.astrike("I will call you.", run="trip-42", by="ada")
    await promises.aowed_as("I will call you.", settlement.obligations()[0])
    said: list[HeldClaim] = await claims.ahold("I have booked it.", run="trip-42")
    promised: list[Promise] = await promises.ahold("I will call you.", run="trip-42")
    followed: list[Settled] = [each async for each in settlement.entity("invoice:/7").afollow(wait=0)]
    lease = settlement.lease("checkout:/repo", for_=60)
    lease.release()
    async with await settlement.alease("checkout:/repo", for_=60) as other:
        await other.arelease()
    owed: Obligation = await aowe("call back", to="customer:/7", by=timedelta(days=1))
    return [*said, *promised, *followed, owed]


def put_aside(settlement: Settlement) -> tuple[list[Staged], Obligation]:
    """What a transaction holds back, owes, and leaves to a person; and one that its own program ends."""
    with settlement.transaction("trip-42") as tx:
        held: list[Staged] = tx.staged("room:/Ada")
        owed: Obligation = tx.owe("call back", to="customer:/7", by=timedelta(days=1))
        number: int = tx.attempt if not tx.joined else 1
        tx.park("split")
    with settlement.transaction("trip-43") as other:
        other.abort(f"attempt {number} was enough")
    return held, owed
