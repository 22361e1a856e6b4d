"""Values that agents overwrite, in a channel: what is lost without versions, and what two copies say of one cell."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

from tests.evidence._bench import UNGUARDED, Bench, Operation, Session, Strategy
from tests.evidence._judge import Judged
from tests.evidence._report import Findings, Share, Table, Told, bars

from settlemark.channels import HeadMoved, VersionedChannel
from settlemark.history import ReplicaRead, ReplicaReadFile, replica_reads, split_view

WRITERS = 4
ROUNDS = 6
SESSIONS = 20


async def appending(session: Session) -> None:
    """Four agents each read a shared plan and append a step, all at once, six times over."""
    for step in range(1, ROUNDS + 1):

        def agent(place: int, step: int = step) -> Any:
            async def body(operation: Operation) -> None:
                seen = await operation.look("plan")
                await operation.at(10 * step + place)
                await operation.put("plan", [*(seen or []), f"{step}.{place}"])

            return body

        await session.together(
            *(
                session.operate(f"agent{n}", agent(n), step=step, writes=["plan"], begin=10 * step)
                for n in range(WRITERS)
            )
        )


def kept(judged: Judged) -> int:
    """How many steps are in the plan at the end of the log."""
    return len([line["value"] for line in judged.log if line["do"] == "write"][-1])


def appends(size: int, told: Told) -> Table:
    """Appends to one value, by the engine and by a versioned channel."""
    wanted = size * WRITERS * ROUNDS
    rows: list[dict[str, Any]] = []
    for strategy in (UNGUARDED, Strategy("serializable", {"prevent": {"A1"}})):
        with Bench(strategy) as bench:
            judged = bench.play([appending] * size, told)
        there = sum(map(kept, judged))
        rows.append(
            {
                "writers": strategy.name,
                "lost": Share(wanted - there, wanted),
                "attempts": sum(each.tries for each in judged),
            }
        )
    return Table(
        f"{size} sessions of {WRITERS} writers and {ROUNDS} rounds; the paper's Letta lost 18 of 24",
        [
            *rows,
            _versioned(size),
        ],
    )


def _versioned(size: int) -> dict[str, Any]:
    attempts = lost = 0
    with tempfile.TemporaryDirectory(prefix="settlemark-evidence-") as folder:
        for n in range(size):
            log = Path(folder) / f"{n}.jsonl"
            channel = VersionedChannel("plan")
            with log.open("w") as file:
                for step in range(ROUNDS):
                    waiting = [(place, channel.read()) for place in range(WRITERS)]
                    while waiting:
                        place, seen = waiting.pop(0)
                        attempts += 1
                        plan = [*(seen.value or []), f"{step}.{place}"]
                        try:
                            version = channel.write(plan, expected=seen.version)
                        except HeadMoved:
                            waiting.append((place, channel.read()))
                        else:
                            file.write(json.dumps({"version": version, "plan": plan}) + "\n")
            last = [json.loads(line) for line in log.read_text().splitlines()][-1]
            lost += WRITERS * ROUNDS - len(set(last["plan"]))
    return {"writers": "versioned channel", "lost": Share(lost, size * WRITERS * ROUNDS), "attempts": attempts}


def views(size: int) -> Table:
    """What readers of lagging copies are told, and readers that are pinned to the primary."""
    rows = []
    for pinned in (False, True):
        chance = random.Random(19)
        split = reads = 0
        with tempfile.TemporaryDirectory(prefix="settlemark-evidence-") as folder:
            for n in range(size):
                path = Path(folder) / f"{n}.jsonl"
                with ReplicaReadFile(path) as file:
                    _lag(VersionedChannel("plan", pinned=pinned, log=file), chance)
                told = list(replica_reads(path))
                reads += len(told)
                split += split_view(told).count > 0
                assert not pinned or _steady(told)
        rows.append({"readers": "pinned" if pinned else "any copy", "A4": Share(split, size), "reads": reads})
    return Table(f"{size} channels with a primary and two copies that lag", rows)


def _lag(channel: VersionedChannel, chance: random.Random) -> None:
    copies = [channel.replica(name) for name in ("east", "west")]
    for n in range(8):
        channel.write(f"plan {n}", expected=channel.head)
        for copy in copies:
            if chance.random() < 0.5:
                copy.catch_up()
        chance.choice([channel, *copies]).read(agent=f"agent{n % 2}")


def _steady(told: list[ReplicaRead]) -> bool:
    """Whether versions never went back, and a version always had one value."""
    versions = [each.version for each in told]
    return versions == sorted(versions) and len({(each.version, str(each.value)) for each in told}) == len(
        set(versions)
    )


BECAUSE = """
Of four who read the same and append, one stays: 3 of 4 are lost, which is the paper's 18 of 24.

Two copies of which one lags say different things, at whatever moments they are asked; so do two answers of the
primary at two versions, which is why the definition asks for two copies.
"""


def run(runs: int, told: Told) -> Findings:
    """Play 20 sessions of appends and 200 channels with copies, or fewer in proportion to `runs` of 1000."""
    tables = [appends(max(2, SESSIONS * runs // 1000), told), views(max(20, 10 * SESSIONS * runs // 1000))]
    return Findings(
        "channels",
        "Channels: appends that are lost without versions, and copies that disagree",
        tables,
        BECAUSE,
        bars(tables[0], ["lost"]),
    )


__all__ = ["run"]
