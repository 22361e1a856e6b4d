"""A ledger in memory and one in a file keep the same record: whatever is written, both say the same of it."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.core.test_ledger_contract import opening
from tests.rooms.ledger import (
    Age,
    Ask,
    Draft,
    LeaseRow,
    OwedChange,
    OwedPage,
    OwedRow,
    Page,
    Said,
    Standing,
    Told,
    Waited,
    Which,
    charge,
    follow,
    reserve,
)
from tests.rooms.model import Disposed
from tests.rooms.payloads import Redaction
from tests.rooms.protocol import FINISHED

from settlemark import EffectClass, LedgerError, Outcome, OverBudget, State, Tag
from settlemark.hosting import Disposition, Reason
from settlemark.ledger import EffectRow, Fence, OutcomeChange, StateChange, TransactionRow

__all__ = ["opening"]

NAMES, RUNS = ("trip", "tour", "zoo"), ("run", "other")
IDS, OWED, KINDS = ("d1", "d2", "d3"), ("o1", "o2", "o3", "o4"), ("decision", "promise")
KEYS = tuple(f"{name}#{attempt}/{position}" for name in NAMES for attempt in (1, 2) for position in (0, 1))
BUCKETS = (("usd", "run:a"), ("usd", "day:1"), ("usd", "day:2"), ("eur", "namespace"))
SECRET = '{"card":"4242-4242","why":["by 4242-4242",{"again":"4242-4242"},7]}'
LEASED = ("checkout:/repo", "checkout:/docs", "mail:/inbox")
BODIES = ('{"why":"cheap"}', SECRET, '["4242-4242"]')
OPEN = (State.SEALED, State.RELEASING)


class Writer:
    """Writes at random, under few names, so that much of it meets: each change is a function of a book."""

    def __init__(self, seed):
        self.dice, self.now, self.attempts = random.Random(seed), 0.0, dict.fromkeys(NAMES, 0)

    def change(self):
        self.now += 1.0
        of_effects = (self.opens, self.intends, self.intends, self.ends, self.says, self.moves_on)
        of_others = (self.owes, self.tells_of_owed, self.adds, self.changes, self.fences, self.leases)
        of_money = (self.reserves, self.charges, self.hands_over)
        chosen = self.dice.choice((*of_effects, self.sweeps, *of_others, *of_money))
        change = chosen()
        return fails_behind(change) if chosen != self.sweeps and self.tossed(0.15) else change

    def one(self, *values):
        return self.dice.choice(values)

    def maybe(self, *values):
        return self.dice.choice((None, *values))

    def tossed(self, chance=0.5):
        return self.dice.random() < chance

    # ---- transactions and effects

    def opens(self):
        name, run = self.one(*NAMES), self.one(*RUNS)
        attempt = self.attempts[name] = min(2, self.attempts[name] + 1)
        return writes(TransactionRow(name, attempt, run, State.OPEN, int(self.now), "", "worker", self.now))

    def intends(self):
        key = self.one(*KEYS)
        name, attempt, position = parts_of(key)
        kind = self.one(EffectClass.REVERSIBLE, EffectClass.IRREVERSIBLE)
        row = EffectRow(
            key, name, attempt, position, "pay", kind, '["room:/a"]', kind is EffectClass.IRREVERSIBLE, None, SECRET,
            self.maybe("since 4242-4242"), "{}", "1", Outcome.INTENDED, self.now, "f", self.maybe(3.0, 40.0),
        )  # fmt: skip # a table of values

        def intend(book):  # one that is refused has no secrets: which of them are known then is of no concern
            there = book.find(key) is None and state_of(book, name, attempt) is not None
            book.write([row if there else row._replace(arguments="{}")])

        return intend

    def ends(self):
        outcome, tag = self.one(*Outcome), self.maybe(*Tag)
        tag = Tag.UNRESOLVED if outcome is Outcome.UNKNOWN else tag
        decided = self.maybe(*Disposition), self.maybe("why"), self.maybe(*KEYS), self.maybe(2), self.tossed()
        told = outcome, self.maybe('{"id":"4242-4242"}'), self.maybe("no"), tag, Disposed(*decided)
        change = OutcomeChange.of(self.one(*KEYS), *told, self.now, "pay")
        change = change._replace(spent=self.one({}, {"usd": Decimal("1.5")}))
        return lambda book: None if book.find(change.key) is None else book.write([change])

    def says(self):
        key, dealt = self.one(*KEYS), self.tossed()
        said = Said(key, '"yes"', "ada", self.now, dealt, "pay")
        return lambda book: book.write([said if key in listed(book) else said._replace(dealt=False)])

    def moves_on(self):
        name, attempt, state = self.one(*NAMES), self.one(1, 2), self.one(*OPEN, *FINISHED, *FINISHED)
        change = StateChange(
            name, attempt, state, int(self.now), self.maybe(*Reason), self.now, self.maybe(self.now),
            self.maybe(self.now), self.one((), (Waited("tour", "room:/a", 1.0, 2.0),)), self.maybe("no rooms"),
            self.maybe("tour"), self.maybe("zoo"), self.maybe("room:/a"),
        )  # fmt: skip # a table of values

        def move(book):  # what is finished stays so
            now = state_of(book, name, attempt)
            book.write([change._replace(state=now) if now in FINISHED else change])

        return move

    def sweeps(self):
        before = self.now - self.one(0, 4, 12)
        age, limit = Age(self.now, before, self.one(0.0, 6.0, 50.0)), self.one(1, 9)
        return lambda book: (book.old(age), book.sweep(age, after=None, limit=limit))

    # ---- what a ledger has beside them

    def owes(self):
        payload = '{"text":"refund","matching":{"card":"4242-4242"}}'
        row = OwedRow(
            self.one(*OWED), self.one(*NAMES), self.one(1, 2), self.one(*RUNS), 1, "customer:/7",
            self.one("refund", "credit"), "customer:/7", payload, self.now, self.now + self.one(1, 5, 9),
        )  # fmt: skip # a table of values
        return writes(row)

    def tells_of_owed(self):
        news = self.one(
            {"fulfilled": self.one(*KEYS)}, {"told": self.one(*Told)}, {"waived_by": "ada", "note": self.maybe("no")}
        )
        return writes(OwedChange(self.one(*OWED), self.now, **news))

    def adds(self):
        name = self.maybe(*NAMES)
        draft = Draft(
            self.one(*KINDS), self.one(*IDS), self.one(*RUNS), "made", self.now, self.one(*BODIES), name, name and 1,
            self.maybe(*KEYS), self.maybe(self.now + 5), self.tossed(0.3),
        )  # fmt: skip # a table of values
        return lambda book: book.entries.add(draft)

    def changes(self):
        told = {
            "state": self.one("over", "made"), "at": self.now, "body": self.maybe(*BODIES), "key": self.maybe(*KEYS),
            "from_version": self.maybe(1, 2, 3), "from_state": self.maybe("made", "over"), "open": self.tossed(0.3),
            "due": self.maybe(self.now + 2),
        }  # fmt: skip # a table
        kind, number = self.one(*KINDS), self.one(*IDS)
        return lambda book: book.entries.change(kind, number, **told)

    def fences(self):
        if self.tossed(0.3):
            return lambda book: book.remove_fences(book.old_fences(self.now - 9, limit=1))
        return writes(Fence(self.one(*RUNS), self.now))

    def leases(self):
        scope, token, until = self.one(*LEASED), self.one(1, 2, 3), self.now + self.one(-9, 2, 9)
        row = LeaseRow(scope, token, self.one("ada", "bob"), self.now, until, 9.0, 3.0, self.maybe(self.now))
        verb = self.one("put", "put", "drop", "forget")
        what = self.now - self.one(0, 5) if verb == "forget" else row
        return lambda book: getattr(book.leases, verb)(what)

    # ---- money

    def asks(self):
        some = self.dice.sample(BUCKETS, self.one(1, 2))
        return [Ask(*bucket, Decimal(20), Decimal(self.one("0.1", "7", "13"))) for bucket in some]

    def reserves(self):
        asks, key, other = self.asks(), self.one(*KEYS), self.maybe(*KEYS)
        of = None if other == key else other
        take = lambda book: reserve(book.purse, key, asks, transaction="trip", instead_of=of)  # noqa: E731
        return lambda book: None if book.find(key) is None else take(book)

    def charges(self):
        asks, key, beyond = self.asks(), self.maybe("c1", "c2"), self.tossed(0.3)
        if self.tossed():
            return lambda book: charge(book.purse, asks, key=key, transaction="trip", beyond=beyond)
        of, outcome, tag = self.one(*KEYS), self.one(*Outcome), self.maybe(*Tag)
        return lambda book: follow(book.purse, of, outcome, tag, {})

    def hands_over(self):
        key, to = self.dice.sample(KEYS, 2)
        is_free = lambda book: book.find(to) is not None and not book.purse.spends(to)  # noqa: E731
        return lambda book: book.purse.move(key, to) if is_free(book) else None


def writes(*changes):
    return lambda book: book.write(list(changes))


def fails_behind(change):
    """Return a change of a step that fails behind it: nothing of it is to be left."""

    def fail(book):
        change(book)
        raise LedgerError("behind it")

    return fail


def parts_of(key):
    name, _, rest = key.partition("#")
    attempt, _, position = rest.partition("/")
    return name, int(attempt), int(position)


def state_of(book, name, attempt):
    return next((r.state for r in book.transactions() if (r.row.name, r.row.attempt) == (name, attempt)), None)


def listed(book):
    """Return the keys of effects that have left something."""
    return {key for dealt in (False, True) for recorded in book.left(Page(), dealt=dealt) for key in recorded.listed}


def tried(ledger, change):
    """Return what a step with a change says, or how it is refused."""
    try:
        said = ledger.now(lambda _protocol, book: change(book))
    except OverBudget as error:
        return type(error), error.bucket, error.charged, error.reserved, error.asked, error.holders
    except LedgerError as error:
        return type(error)
    return (said.won, said.entry.digest) if isinstance(said, Standing) else said


PAGES = [
    Page(),
    Page(last=2),
    Page(since=9.0),
    Page(run="run"),
    Page(state=State.COMMITTED),
    Page(1, 3.0, "other", State.ABORTED),
]
OWED_PAGES = [
    OwedPage(), OwedPage(id="o1"), OwedPage(tools=("refund",), unended=True),
    OwedPage(run="run"), OwedPage(unended=True, untold=True), OwedPage(to="customer:/8"), OwedPage(tools=("credit",)),
    OwedPage(due_before=20.0, unended=True, untold=True),
]  # fmt: skip # a list of names and values


def now(recorded):
    """Return attempts without what they began as: a file has what has become of them."""
    found = []
    for each in filter(None, recorded):
        effects = [replace(effect, row=effect.row._replace(outcome=effect.outcome)) for effect in each.effects]
        found.append(replace(each, row=each.row._replace(state=each.state, epoch=each.epoch), effects=effects))
    return found


def read(book):
    """Return all that can be asked of a record."""
    purse, entries = book.purse, book.entries
    return {
        "loaded": now(map(book.load, NAMES)),
        "found": now(map(book.find, KEYS)),
        "all": now(book.transactions()),
        "unfinished": now(book.unfinished()),
        "unfinished and unknown": now(book.unfinished(Outcome.UNKNOWN)),
        "unresolved": now(book.unresolved()),
        "recent": [now(book.recent(page)) for page in PAGES],
        "left": [now(book.left(page, dealt=dealt)) for page in PAGES[:4] for dealt in (False, True)],
        "of runs": [now(book.of_run(run)) for run in RUNS],
        "in doubt": [sorted(effect.row.key for effect in book.in_doubt(run)) for run in RUNS],
        "since": now(book.since(9)),
        "old fences": [book.old_fences(before, limit=1) for before in (9.0, 1e9)],
        "owed": [book.debts.find(page) for page in OWED_PAGES],
        "chains": [entries.chain(run) for run in RUNS],
        "entries": [entries.versions(kind, each) for kind in KINDS for each in IDS],
        "in a state": [entries.find(Which("decision", run, "made", 20.0)) for run in (None, *RUNS)],
        "of effects": [entries.find(Which("promise", key=key)) for key in KEYS],
        "of transactions": [entries.find(Which("decision", name=name)) for name in NAMES],
        "spent": [sorted(purse.spends(key)) for key in (*KEYS, "c1", "c2")],
        "buckets": purse.buckets(),
        "holders": [purse.holders(*bucket, 2) for bucket in BUCKETS],
        "leases": book.leases.every(),
    }


@pytest.mark.parametrize("seed", range(6))
def test_what_is_written_in_memory_and_in_a_file_is_the_same_record(seed, opening, tmp_path):
    redaction = Redaction(["card"])
    ledgers = [opening(url, redaction=redaction) for url in ("memory:", f"sqlite:///{tmp_path / 'ledger.db'}")]
    for ledger in ledgers:
        ledger.now(lambda protocol, _book: [protocol.owe(tool) for tool in ("refund", "credit")])
    writer = Writer(seed)
    for number in range(120):
        change = writer.change()
        in_memory, in_file = (tried(ledger, change) for ledger in ledgers)
        assert in_memory == in_file, change
        if number % 6 == 5:
            in_memory, in_file = (ledger.read(read) for ledger in ledgers)
            for what, there in in_file.items():
                assert in_memory[what] == there, what
