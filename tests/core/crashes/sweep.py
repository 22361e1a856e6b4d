"""Kills a program at every statement of its ledger, lets the next process go on, and judges from the desk's log.

Each death is followed by both things that may come next: the next process recovers by itself, and the
framework comes back to its names, with a recovery before it or without one.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter, defaultdict
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tests.core.crashes.programs import PATIENCE, Play
from tests.core.crashes.tools import leaves_a_trace, may_be_in_doubt, tools
from tests.core.workers.audit import audit, named
from tests.core.workers.world import Desk
from tests.rooms.ledger import Which
from tests.rooms.runtime import Maintenance

from settlemark import InDoubt, PartialCommit, Retries, Settlement, State, Tag
from settlemark.hosting import host_of
from settlemark.testing import KillPoints, in_child

OTHER_DATABASES = "sqlite://"
"""No other database is watched: neither the desk's, nor the ledger's tables being looked for."""
COMES_BACK = 3


@dataclass(frozen=True)
class Case:
    """A ledger and a desk of its own."""

    url: str
    desk: Path
    namespace: str = "default"

    def open(self, **options):
        """Return a settlement, and the desk that its tools act at."""
        desk = Desk(self.desk)
        tools(desk)
        options = {"retries": Retries(first=0, most=0), "wait": PATIENCE, "namespace": self.namespace, **options}
        return Settlement(self.url, **options), desk

    def play(self, program):
        """Play a program, in whatever process this is."""
        settlement, desk = self.open()
        with settlement, closing(desk):
            Play(program, settlement, desk).run()

    def recover(self):
        """Recover, in whatever process this is."""
        settlement, desk = self.open()
        with settlement, closing(desk):
            settlement.recover(keep_open=0)


class Files:
    """Fresh SQLite files, each a copy of one whose tables are there already."""

    def __init__(self, folder):
        self._folder = folder
        self._made = 0
        template = folder / "template.db"
        Settlement(f"sqlite:///{template}").close()
        self._template = template.read_bytes()

    def fresh(self):
        folder = self._next()
        (folder / "ledger.db").write_bytes(self._template)
        return Case(f"sqlite:///{folder / 'ledger.db'}", folder / "desk.db")

    def copy(self, case):
        """Return the same files once more: what a second process would have found in the place of the first."""
        folder = self._next()
        for file in case.desk.parent.iterdir():
            if not file.name.endswith("-shm"):
                shutil.copyfile(file, folder / file.name)
        return Case(f"sqlite:///{folder / 'ledger.db'}", folder / "desk.db")

    def drop(self, *cases):
        for case in cases:
            shutil.rmtree(case.desk.parent)

    def _next(self):
        self._made += 1
        folder = self._folder / f"case-{self._made}"
        folder.mkdir()
        return folder


class Namespaces:
    """Fresh namespaces of one PostgreSQL database."""

    def __init__(self, url, folder):
        self._url = url
        self._folder = folder
        self._made = 0
        Settlement(url).close()

    def fresh(self):
        self._made += 1
        return Case(self._url, self._folder / f"desk-{self._made}.db", f"case-{self._made}")

    def drop(self, *cases):
        pass


@dataclass
class Tally:
    """What a sweep did, and all that went wrong."""

    points: int = 0
    kills: int = 0
    in_doubt: int = 0
    wrong: list[str] = field(default_factory=list)


class Sweep:
    """Every death of one program over one kind of store."""

    def __init__(self, store, program):
        self.store = store
        self.program = program
        self.tally = Tally()
        case = store.fresh()
        ended = KillPoints(url=OTHER_DATABASES).run(lambda: case.play(program), timeout=2 * PATIENCE)
        assert ended.error is None, ended.error
        assert ended.signal is None, ended.stack
        self.points = [(when, statement) for _, when, statement in ended.told]
        self.tally.points = len(self.points)
        settlement, desk = case.open()
        with settlement, closing(desk):
            self.ideal = Ideal.of(settlement, desk)
            self._told("nobody killed it", judged(settlement, desk))
        store.drop(case)

    @property
    def every(self):
        """Every point there is, before and after each statement."""
        return list(range(1, len(self.points) + 1))

    @property
    def each(self):
        """A point before each statement, and one after each commit.

        What a kill after a statement leaves is what one before the next leaves, unless it was a commit; and
        joining the store, beginning, and leaving the store are the same in every program.
        """
        begun, left = self._commits[1], self._commits[-2] + 1
        return [
            n for n in self.every if begun <= n <= left and (n in self._commits or self.points[n - 1][0] == "before")
        ]

    @property
    def some(self):
        """Of `each`, the points between two transactions of the store, and one inside each, now here, now there."""
        edges = sorted({*self._commits, *(n + 1 for n in self._commits)} & set(self.each))
        inside = [[n for n in self.each if before < n < after] for before, after in pairwise(edges)]
        return sorted([*edges, *(numbers[k % len(numbers)] for k, numbers in enumerate(filter(None, inside)))])

    @property
    def _commits(self):
        return [n for n in self.every if self.points[n - 1] == ("after", "COMMIT")]

    def run(self, numbers):
        """Die at each of these points, and return the tally."""
        for number in numbers:
            self.die_at(number)
        return self.tally

    def die_at(self, number):
        """Die there, and judge what the next process makes of it.

        Between two commits a ledger does not change. So both kinds of next process go on from behind a commit,
        before anything acts, and from before the next transaction; between those, one or the other does.
        """
        case = self.store.fresh()
        self._kill(number, lambda: case.play(self.program))
        when, statement = self.points[number - 1]
        where = f"killed {number}: {when} {statement[:60]}"
        recovers, comes_back = number % 4 < 2, number % 4 > 1
        if isinstance(self.store, Files) and (statement.startswith("BEGIN") or when == "after"):
            other = self.store.copy(case)
            self._comes_back(other, f"{where}; came back")
            self.store.drop(other)
            recovers, comes_back = True, False
        if recovers:
            self._recovers(case, f"{where}; recovered")
        if comes_back:
            self._comes_back(case, f"{where}; came back")
        self.store.drop(case)

    def die_again_after(self, number):
        """Die there, and then the next process before each statement of its recovery; judge what the third makes."""
        case = self.store.fresh()
        self._kill(number, lambda: case.play(self.program))
        again, killed = -1, True
        while killed:
            again += 2
            other = self.store.copy(case)
            killed = self._kill(again, other.recover)
            self._recovers(other, f"killed {number}, and its recovery at {again}; recovered", deaths=2)
            self.store.drop(other)
        self.store.drop(case)

    def _kill(self, number, play):
        """Play something in a process that dies at this point, and return whether it came so far."""

        def until_then(_tell):
            with KillPoints(number, url=OTHER_DATABASES):
                play()

        ended = in_child(until_then, timeout=2 * PATIENCE)
        assert ended.error is None, ended.error
        assert not ended.late, ended.stack
        self.tally.kills += ended.killed
        return ended.killed

    def _recovers(self, case, where, *, deaths=1):
        settlement, desk = case.open()
        with settlement, closing(desk):
            report = settlement.recover(keep_open=0)
            self._told(where, [f"stuck: {report.stuck}"] if report.stuck else [])
            self._told(where, judged(settlement, desk, deaths=deaths))
            # The number of an attempt that had only read, and so left no record, is given again.
            desk.forget(but={(r.row.name, r.row.attempt) for r in settlement.transactions()})
        self._comes_back(case, f"{where}, came back", deaths=deaths, keep_open=0)

    def _comes_back(self, case, where, *, deaths=1, **options):
        settlement, desk = case.open(**options)
        with settlement, closing(desk):
            if options and (again := settlement.recover()):
                self._told(where, [f"a second recovery found {again}"])
            for _ in range(COMES_BACK):
                try:
                    with tended(settlement, self.program):
                        Play(self.program, settlement, desk).run()
                except (InDoubt, PartialCommit):
                    if not any(may_be_in_doubt(tool, aborted=False) for tool in self.program.tools):
                        raise
                else:
                    break
            # A name that nobody came back to, since another one before it is done, is undone like any other.
            settlement.recover(keep_open=0)
            self._told(where, [*judged(settlement, desk, deaths=deaths), *self.ideal.missed(settlement, desk)])
            self.tally.in_doubt += bool(settlement.residue())

    def _told(self, where, wrong):
        self.tally.wrong += [f"{self.program.title}: {where}: {what}" for what in wrong]


def kill_at_each(stores, make, every, judged=lambda case: case.judged()):
    """Kill a case at each of its statements, or at one in so many, and judge what is left; return the kills.

    Args:
        stores: has a fresh store for each case.
        make: returns a case in a store; it has `case`, the store, and `live`, which is killed.
        every: at one statement in how many.
        judged: returns what is wrong with a case, a list.
    """
    kills, first = 0, make(stores.fresh())
    points = KillPoints.count(first.live, url=OTHER_DATABASES)
    assert judged(first) == []
    numbers = range(1, points + 1, every)
    for number in numbers:
        case = make(stores.fresh())
        ended = KillPoints(number, url=OTHER_DATABASES).run(case.live)
        kills += ended.signal is not None
        assert judged(case) == [], f"killed at {number} of {points}"
        stores.drop(case.case)
    assert kills >= 0.9 * len(numbers) > 0
    return kills


@contextmanager
def tended(settlement, program):
    """Have a thread look after what was left, as in every process, where a program needs that to come to its end."""
    maintenance = Maintenance(host_of(settlement).driver, every=0.005)
    if program.concurrent:
        maintenance.start()
    try:
        yield
    finally:
        maintenance.stop()


def judged(settlement, desk, *, deaths=1):
    """Return what is wrong with a world in which processes died, and no program of theirs is unfinished."""
    wrong = audit(desk, settlement)
    repeated = sum(verb.startswith("repeated") for verb, *_ in desk.log())
    if repeated > deaths:
        wrong.append(f"{deaths} death(s) repeated {repeated} acts: of each only the last may be in question")
    recorded = settlement.transactions()
    committed = {r.row.name: r for r in recorded if r.state is State.COMMITTED}
    answers = defaultdict(set)
    for verb, told, *_ in desk.log():
        if verb == "acknowledged":
            name, values = json.loads(told)
            answers[name].add(json.dumps(values))
    wrote = {r.row.name for r in recorded}
    wrong += [f"{name} was acknowledged and is lost" for name in answers if name in wrote and name not in committed]
    wrong += [f"{name} answered {told}" for name, told in answers.items() if len(told) > 1]
    wrong += undecided(settlement, recorded)
    for r in recorded:
        unknown = [e.row.position for e in r.effects if e.outcome == "unknown"]
        if len(unknown) > 1:
            wrong.append(f"{r.row.name} has {len(unknown)} in doubt: one crash leaves one")
        wrong += [
            f"{e.row.key} ({e.row.tool}, {e.outcome}) is named {e.tag}: {e.note}"
            for e in r.effects
            if e.tag not in (None, Tag.CLEAN) and not _may_be_named(r, e, unknown)
        ]
    return wrong


def undecided(settlement, recorded):
    """Return which decisions are lost, stand there twice, or without the effect that they were recorded with."""
    wrong = [str(fault) for run in {r.row.run for r in recorded} for fault in settlement.audit(run).faults]
    made = host_of(settlement).ledger.read(lambda book: book.entries.find(Which("decision")))
    under = [(e.row.under, r.row.name, r.row.attempt) for r in recorded for e in r.effects if e.row.under is not None]
    named = {(entry.id, entry.name, entry.attempt) for entry in made}
    wrong += [f"{each} is on record for no decision" for each in set(under) - named]
    wrong += [f"{each} is decided, and has no effect" for each in named - set(under)]
    titles = Counter((json.loads(entry.body)["title"], entry.name, entry.attempt) for entry in made)
    return wrong + [f"{each} is decided {count} times" for each, count in titles.items() if count > 1]


def _may_be_named(recorded, effect, unknown):
    """Whether it is right that something is named: what could be known must be."""
    aborted = recorded.state is State.ABORTED
    if effect.outcome == "unknown":
        return may_be_in_doubt(effect.row.tool, aborted=aborted)
    if effect.tag is Tag.PARTIAL_COMMIT:
        return any(position < effect.row.position for position in unknown)
    return aborted and leaves_a_trace(effect.row.tool)


class Ideal:
    """The world in which nobody was killed: what came back must end in it, but for what is named."""

    def __init__(self, decisions, ends, fenced):
        self._decisions = decisions
        self._ends = ends
        self._fenced = fenced

    @classmethod
    def of(cls, settlement, desk) -> Ideal:
        prefix = host_of(settlement).driver.kernel.prefix
        return cls(
            _by_decision(prefix, _stays(desk, without=named(settlement))),
            {r.row.name: r.state for r in settlement.transactions()},
            set(host_of(settlement).protocol.fenced),
        )

    def missed(self, settlement, desk):
        """Return in what this world differs."""
        prefix = host_of(settlement).driver.kernel.prefix
        without = named(settlement)
        found = _by_decision(prefix, _stays(desk, without=without))
        excused = {_decision(prefix, key) for key in without}
        wrong = [
            f"{decision} happened {found[decision]} times, and {self._decisions[decision]} times when nobody was killed"
            for decision in self._decisions.keys() | found.keys()
            if found[decision] != self._decisions[decision] and not (decision in excused and not found[decision])
        ]
        ends = {r.row.name: r.state for r in settlement.transactions()}
        wrong += [
            f"{name} is {ends.get(name)}, and not {end}" for name, end in self._ends.items() if ends.get(name) != end
        ]
        if self._fenced != host_of(settlement).protocol.fenced:
            wrong.append(f"fenced are {host_of(settlement).protocol.fenced}")
        return wrong


def _stays(desk, *, without):
    stays = Counter()
    for verb, _, key, *_ in desk.log():
        if key not in without:
            stays[key] += {"write": 1, "letter": 1, "plain letter": 1, "undo": -1}.get(verb, 0)
    return stays


def _by_decision(prefix, stays):
    found = Counter()
    for key, count in stays.items():
        if count:
            found[_decision(prefix, key)] += count
    return found


def _decision(prefix, key):
    """A key without its attempt: the same decision, made again."""
    return re.sub(r"#\d+/", "/", key.removeprefix(prefix))


__all__ = ["Case", "Files", "Namespaces", "Sweep", "Tally", "judged", "kill_at_each"]
