"""Table 21 of the Atomix paper, with the real engine: four errors in declarations, what they do, and who catches them.

Two agents want one seat: each looks whether it is free, books it, and has a ticket mailed; some steps fail in the end.
The counterparty is a database of its own with a log of its own: what is counted, is counted there. Each error is one
change in the text of the tools; that same text is run by the engine and read by the linter.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass

import pytest

from settlemark import DeclarationError, Settlement, Stale, Wounded
from settlemark.lint import lint

TRIALS = 200
AT_ONCE = 10
FAILS = 0.15

TOOLS = """
from settlemark import current_call, effect

async def sent(key):
    return world.row("SELECT done FROM log WHERE key = ?", (key,))

async def cancel_seat(seat, passenger):
    world.execute("UPDATE seats SET holder = NULL WHERE seat = ? AND holder = ?", (seat, passenger))
    world.execute("INSERT INTO log VALUES (NULL, 'freed', ?, ?)", (seat, passenger))

async def apologize(to, seat):
    world.execute("INSERT INTO log VALUES (NULL, 'apologized', ?, ?)", (seat, to))

@effect("read", scope="seat:/{seat}")
async def look(seat, passenger):
    await world.pause()
    return world.row("SELECT holder FROM seats WHERE seat = ?", (seat,))

@effect("reversible", scope="seat:/{seat}", undo=cancel_seat, probe=sent)
async def book_seat(seat, passenger):
    await world.pause()
    world.execute("UPDATE seats SET holder = ? WHERE seat = ?", (passenger, seat))
    world.execute("INSERT INTO log VALUES (?, 'booked', ?, ?)", (current_call().key, seat, passenger))
    return seat

@effect("irreversible", scope="mail:/{to}", probe=sent)
async def send_ticket(to, seat):
    await world.pause()
    world.execute("INSERT INTO log VALUES (?, 'mailed', ?, ?)", (current_call().key, seat, to))
"""

BOOK = '@effect("reversible", scope="seat:/{seat}", undo=cancel_seat, probe=sent)'
MAIL = '@effect("irreversible", scope="mail:/{to}", probe=sent)'
LOOK = '@effect("read", scope="seat:/{seat}")'

ERRORS = {
    "control": {},
    "over-broad scope": {
        BOOK: '@effect("reversible", scope="seat:/all", undo=cancel_seat, probe=sent)',
        LOOK: '@effect("read", scope="seat:/all")',
    },
    "too narrow, below what is read": {
        BOOK: '@effect("reversible", scope="seat:/{seat}/{passenger}", undo=cancel_seat, probe=sent)',
    },
    "too narrow scope": {
        BOOK: '@effect("reversible", scope="seat:/{seat}/{passenger}", undo=cancel_seat, probe=sent)',
        LOOK: '@effect("read", scope="seat:/{seat}/{passenger}")',
    },
    "wrong class": {MAIL: '@effect("reversible", scope="mail:/{to}", undo=apologize, probe=sent)'},
    "missing compensation": {BOOK: '@effect("opaque", scope="seat:/{seat}", probe=sent)'},
    "a compensation that does nothing": {
        BOOK: '@effect("reversible", scope="seat:/{seat}", undo=lambda **_: None, probe=sent)',
    },
}


class StepFailedError(Exception):
    """What an agent does after its calls went wrong."""


class World:
    """The counterparty: seats, and a log of everything that was done to them."""

    def __init__(self, path, seed):
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.executescript(
            "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;"
            "CREATE TABLE seats (seat TEXT PRIMARY KEY, holder TEXT);"
            "CREATE TABLE log (key TEXT, done TEXT, seat TEXT, passenger TEXT);"
        )
        self.database.executemany("INSERT INTO seats VALUES (?, NULL)", [(str(n),) for n in range(TRIALS)])
        self.random = random.Random(seed)

    async def pause(self):
        for _ in range(self.random.randrange(6)):
            await asyncio.sleep(0)

    def execute(self, statement, values):
        self.database.execute(statement, values)

    def row(self, statement, values):
        found = self.database.execute(statement, values).fetchone()
        return found and found[0]

    def log(self):
        return self.database.execute("SELECT done, seat, passenger FROM log ORDER BY rowid").fetchall()


@dataclass
class Seen:
    """What 200 trials came to, by the counterparty's log and by what the agents were told.

    `oversold` are seats that two agents were told to have; `leaked` tickets of steps that failed; `left` bookings of
    steps that failed; `silent` those of them that the engine does not name; `wanted` the seats that somebody whose
    step does not fail wanted, and `sold` those that somebody was told to have; `at_once` the most bookings under way.
    """

    oversold: int
    leaked: int
    left: int
    silent: int
    wanted: int
    sold: int
    at_once: int


def written(folder, error):
    text = TOOLS
    for right, wrong in ERRORS[error].items():
        assert right in text
        text = text.replace(right, wrong)
    path = folder / "tools.py"
    path.write_text(text)
    return path


def loaded(path, world):
    spec = importlib.util.spec_from_file_location("tools_of_a_trial", path)
    module = importlib.util.module_from_spec(spec)
    module.world = world
    spec.loader.exec_module(module)
    return module


async def agent(settlement, tools, trial, passenger, *, fails):
    seat = str(trial)
    while True:
        try:
            async with settlement.transaction(f"{trial}/{passenger}") as tx:
                if await tx.call(tools.look, seat=seat, passenger=passenger) is not None:
                    return "full"
                await tx.call(tools.book_seat, seat=seat, passenger=passenger)
                await tx.call(tools.send_ticket, to=passenger, seat=seat)
                if fails:
                    raise StepFailedError
            return "booked"  # noqa: TRY300 - it is what the agent was told
        except (Stale, Wounded):
            continue
        except StepFailedError:
            return "failed"


async def trials(settlement, tools):
    chance = random.Random(21)
    ended, wanted = {}, 0

    async def one(trial, fails):
        names = [f"ann-{trial}", f"bob-{trial}"]
        told = await asyncio.gather(
            *(agent(settlement, tools, trial, name, fails=each) for name, each in zip(names, fails, strict=True))
        )
        ended.update(zip(names, told, strict=True))

    for first in range(0, TRIALS, AT_ONCE):
        group = [(n, (chance.random() < FAILS, chance.random() < FAILS)) for n in range(first, first + AT_ONCE)]
        wanted += sum(not all(fails) for _, fails in group)
        await asyncio.gather(*(one(*each) for each in group))
    return ended, wanted


def measured(folder, error):
    world = World(folder / "world.db", seed=21)
    with closing(world.database), Settlement("memory:") as settlement:
        tools = loaded(written(folder, error), world)
        ended, wanted = asyncio.run(trials(settlement, tools))
        return counted(world.log(), ended, wanted, settlement.residue())


def counted(log, ended, wanted, residue):
    holders, at_once, under_way = {}, 0, set()
    for done, seat, passenger in log:
        mine = holders.setdefault(seat, set())
        if done == "booked":
            mine.add(passenger)
            under_way.add(passenger)
            at_once = max(at_once, len(under_way))
        elif done == "freed":
            mine.discard(passenger)
        if done in {"mailed", "freed"}:
            under_way.discard(passenger)
    booked = {name for name, how in ended.items() if how == "booked"}
    left = {(seat, name) for seat, mine in holders.items() for name in mine - booked}
    named = {(entry.scope.split("/")[1], entry.transaction.split("/")[1]) for entry in residue}
    return Seen(
        oversold=sum(len(mine & booked) > 1 for mine in holders.values()),
        leaked=sum(done == "mailed" and passenger not in booked for done, _, passenger in log),
        left=len(left),
        silent=len(left - named),
        wanted=wanted,
        sold=sum(bool(mine & booked) for mine in holders.values()),
        at_once=at_once,
    )


@pytest.fixture
def tried(tmp_path):
    """Run the trials with one error in the declarations: what came of it, and what the linter says of that text."""

    def run(error):
        seen = measured(tmp_path, error)
        return seen, [(each.rule, each.tool, each.mend) for each in lint(tmp_path / "tools.py")]

    return run


def test_right_declarations_sell_each_seat_once_and_the_linter_is_silent(tried):
    seen, found = tried("control")
    assert (seen.oversold, seen.leaked, seen.left, seen.silent) == (0, 0, 0, 0)
    assert seen.sold == seen.wanted > TRIALS * 0.9
    assert seen.at_once > 1
    assert found == []


def test_too_broad_a_scope_fails_closed_it_only_waits(tried):
    seen, found = tried("over-broad scope")
    assert (seen.oversold, seen.leaked, seen.left, seen.silent) == (0, 0, 0, 0)
    assert seen.sold == seen.wanted
    assert seen.at_once == 1
    assert found == [("SM202", "book_seat", 'scope="seat:/{seat}"')]


@pytest.mark.parametrize("error", ["too narrow scope", "too narrow, below what is read"])
def test_too_narrow_a_scope_sells_seats_twice_and_the_linter_says_so(tried, error):
    seen, found = tried(error)
    assert seen.oversold > 0
    assert (seen.leaked, seen.left) == (0, 0)
    assert found == [("SM203", "book_seat", 'scope="seat:/{seat}"')]


def test_a_wrong_class_leaks_mail_of_failed_steps_and_the_linter_says_so(tried):
    seen, found = tried("wrong class")
    assert seen.leaked > 0
    assert (seen.oversold, seen.left, seen.sold) == (0, 0, seen.wanted)
    assert found == [("SM402", "send_ticket", '"irreversible", scope="mail:/{to}"')]


def test_a_missing_compensation_is_refused_at_import_and_the_linter_says_so(tmp_path):
    world = World(tmp_path / "world.db", seed=21)
    path = tmp_path / "tools.py"
    path.write_text(TOOLS.replace(BOOK, '@effect("reversible", scope="seat:/{seat}", probe=sent)'))
    with closing(world.database):
        with pytest.raises(DeclarationError, match="book_seat is reversible but has no undo"):
            loaded(path, world)
        assert world.log() == []
    assert [(each.rule, each.tool, each.mend) for each in lint(path)] == [("SM102", "book_seat", "undo=cancel_seat")]


def test_a_compensation_that_was_left_out_leaves_bookings_each_of_them_named_and_the_linter_says_so(tried):
    seen, found = tried("missing compensation")
    assert seen.left > 0
    assert seen.silent == 0
    assert (seen.oversold, seen.leaked) == (0, 0)
    assert found == [("SM106", "book_seat", '"reversible", undo=cancel_seat')]


def test_a_compensation_that_does_nothing_leaves_bookings_silently_and_the_linter_says_so(tried):
    seen, found = tried("a compensation that does nothing")
    assert seen.left == seen.silent > 0
    assert seen.leaked == 0
    assert found == [("SM103", "book_seat", "undo=cancel_seat")]
