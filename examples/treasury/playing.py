"""Plays a day of the treasury, settled and not, with the same troubles: a process that dies is another process."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counterparties import OPENING, Counterparties
from day import HEDGE, Day, Script, settled
from judge import faults
from naive import NaiveDay
from tools import tools_of

from settlemark import Settlement
from settlemark.testing import VirtualClock, die, in_child

MORNING = 1_767_603_600.0  # 2026-01-05, 9:00 UTC
_LIVES = 5
_SECONDS = 60.0


@dataclass(frozen=True)
class Trouble:
    """What goes wrong on a day.

    Attributes:
        lost: banks that lose the answer to their next wire.
        refuses: the second leg of the hedge is refused.
        stuck: banks that do not answer the next request to take a wire back.
        deaths: before which of its strikes each life of the process ends; the next life is not cut short.
    """

    lost: tuple[str, ...] = ()
    refuses: bool = False
    stuck: tuple[str, ...] = ()
    deaths: tuple[int, ...] = ()

    @classmethod
    def of(cls, chance: random.Random) -> Trouble:
        """Draw the trouble of a day."""
        return cls(
            tuple(bank for bank in OPENING if chance.random() < 0.2),
            chance.random() < 0.3,
            tuple(bank for bank in OPENING if chance.random() < 0.2),
            tuple(chance.randint(1, 40) for _ in range(chance.choice([0, 1, 1, 2]))),
        )

    def meet(self, them: Counterparties) -> None:
        """Have the counterparties make it."""
        if self.refuses:
            them.banks["southern"].wire("short", "fx", "street", OPENING["southern"]["fx"] - HEDGE + 1)
        for bank in self.lost:
            them.banks[bank].lose_answer()
        for bank in self.stuck:
            them.banks[bank].fail("wire", "before", on="cancel")


@dataclass
class Played:
    """How a day came out.

    Attributes:
        date: its name.
        faults: what the counterparties' logs say is wrong, with the settlement and without.
        unexplained: wires that the ledger cannot give a reason for.
        open_items: what is not settled, by name, in the end.
        deaths: how often its process was killed.
    """

    date: str
    faults: list[str] = field(default_factory=list[str])
    naive: list[str] = field(default_factory=list[str])
    unexplained: list[str] = field(default_factory=list[str])
    open_items: list[str] = field(default_factory=list[str])
    deaths: int = 0


def _strikes(number: int | None) -> Any:
    """Return what ends the process at its strike of this number."""
    left = [number]

    def strike() -> None:
        if left[0] is not None:
            left[0] -= 1
            if left[0] == 0:
                die()

    return strike


def settlement_of(home: Path, now: float) -> tuple[Settlement, VirtualClock]:
    """Return the ledger of the day that was played last, and its clock."""
    clock = VirtualClock(now)
    return settled(f"sqlite:///{home}/ledger.db", clock), clock


def play(them: Counterparties, number: int, *, seed: int = 0, trouble: Trouble | None = None) -> Played:
    """Play one day both ways, and return how it came out."""
    chance = random.Random(f"{seed}/{number}")
    script = Script(f"day-{number}", *(chance.random() < 0.7 for _ in range(4)))
    trouble = trouble or Trouble.of(chance)
    played = Played(script.date)
    for settles in (True, False):
        deaths = play_once(them, script, trouble, settles=settles)
        found = faults(them, script)
        if not settles:
            played.naive = found
            continue
        played.faults, played.deaths = found, deaths
        _ask(them, script, played)
    return played


def play_once(them: Counterparties, script: Script, trouble: Trouble, *, settles: bool) -> int:
    """Have a day worked in a process; killed, in another, until one comes to the day's end. Return the deaths."""
    them.reset()
    trouble.meet(them)
    now = [MORNING]
    address = them.address

    def live(tell: Any, number: int | None) -> None:
        mine, strike = Counterparties.connect(address), _strikes(number)
        if not settles:
            NaiveDay(mine, script, strike).work()
            return
        settlement, clock = settlement_of(mine.home, now[0])
        with settlement:
            Day(settlement, mine, tools_of(mine, strike=strike), clock, script, lambda _: tell(clock())).work()

    for life in range(_LIVES):
        number = trouble.deaths[life] if life < len(trouble.deaths) else None
        end = in_child(lambda tell, number=number: live(tell, number), timeout=_SECONDS)
        now += end.told
        if end.error or end.late:
            raise RuntimeError(f"{script.date} broke off: {end.error or end.stack}")
        if not end.killed:
            return life
        now = [max(now)]
    raise RuntimeError(f"{script.date} did not end in {_LIVES} lives")


def _ask(them: Counterparties, script: Script, played: Played) -> None:
    """Ask the ledger for the reason of each wire, and for what is open."""
    settlement, clock = settlement_of(them.home, MORNING + 2 * 86_400)
    with settlement:
        day = Day(settlement, them, tools_of(them), clock, script)
        played.open_items = day.open_items()
        for wire in them.movements():
            if wire.source == "street" or wire.target == "street" or wire.key is None:
                continue
            try:
                settlement.why(wire.key)
            except LookupError as error:
                played.unexplained.append(str(error))


def summary(played: list[Played]) -> str:
    """Return what the days came to, in sentences."""
    kinds = Counter(fault.split(":")[0].split(" of ")[0] for day in played for fault in day.naive)
    wrong = sum(1 for day in played if day.naive)
    lines = [
        f"{len(played)} days, {sum(day.deaths for day in played)} deaths of their process.",
        f"settled: {sum(1 for day in played if day.faults)} days with something wrong.",
        f"  wires without a reason: {sum(len(day.unexplained) for day in played)}",
        f"  open items, each named: {sum(len(day.open_items) for day in played)}",
        f"without: {wrong} days with something wrong:",
        *(f"  {kind}: {times}" for kind, times in kinds.most_common()),
    ]
    lines += [f"{day.date}: {fault}" for day in played for fault in (*day.faults, *day.unexplained)]
    return "\n".join(lines)
