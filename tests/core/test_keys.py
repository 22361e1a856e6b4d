"""A key names one decision of one ledger: no other decision has it, of whatever name, namespace, call or ledger."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.model import beside_key, identity, key_of, path_in, step_of

from settlemark import Settlement, current_call, effect
from settlemark.hosting import host_of, step_in

pytestmark = pytest.mark.usefixtures("whole_keys")

prefix_of = identity.prefix_of.whole
IDS = ["0" * 16, "f" * 16]
TEXTS = st.text(st.sampled_from(list(":#/%.~a1 é\n")), min_size=1, max_size=8)
NAMES = TEXTS | TEXTS.map(lambda text: text * 40)
PATHS = st.lists(st.integers(0, 12), min_size=1, max_size=5).map(tuple) | st.just((0, 1) * 40)
DECISIONS = st.tuples(
    st.sampled_from(IDS), st.just("default") | NAMES, NAMES, st.integers(1, 12), PATHS, st.none() | NAMES
)


def spelled(decision):
    ledger, namespace, name, attempt, path, call_id = decision
    return key_of(prefix_of(ledger, namespace), name, attempt, path, call_id)


@given(DECISIONS, DECISIONS)
def test_two_decisions_never_have_one_key(one, other):
    assert (spelled(one) == spelled(other)) is (one == other)


@given(DECISIONS)
def test_a_key_is_short_enough_for_any_provider_and_tells_its_decision(decision):
    ledger, namespace, name, attempt, path, _ = decision
    key = spelled(decision)
    assert len(key) <= 210
    assert step_in(key) == step_of(prefix_of(ledger, namespace), name, attempt)
    if beside_key(path) is None:
        assert path_in(key, name, attempt) == path


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a:b", "c", 1, (0,), None), ("a", "b:c", 1, (0,), None)),
        (("acme", "order-1", 1, (0,), None), ("default", "acme:order-1", 1, (0,), None)),
        (("default", "x", 1, (0,), "y#1/0"), ("default", "x#1/0:y", 1, (0,), None)),
        (("default", "x#1/0", 1, (0,), None), ("default", "x", 1, (0,), "#1/0")),
        (("a%3Ab", "c", 1, (0,), None), ("a:b", "c", 1, (0,), None)),
        (("default", "x", 1, (0,), "a%23"), ("default", "x", 1, (0,), "a#")),
        (("default", "x" * 400, 1, (0,), None), ("default", "x" * 401, 1, (0,), None)),
        (("default", "x", 1, (0, 1) * 30, None), ("default", "x", 1, (0, 1) * 31, None)),
        (("default", "x", 1, (0,), "c" * 300), ("default", "x", 1, (0,), "c" * 301)),
    ],
)
def test_what_looks_alike_is_told_apart(one, other):
    assert spelled((IDS[0], *one)) != spelled((IDS[0], *other))


@pytest.mark.parametrize(
    ("name", "path", "call_id", "key"),
    [
        ("trip", (0, 2), "call-7", "{id}.trip#1/0.2:call-7"),
        ("n" * 83, (0,), None, "{id}." + "n" * 83 + "#1/0"),
        ("n" * 84, (0,), None, "{id}~f427b11010dd6fc001b7ad0b6a05ae6e15205998." + "n" * 32 + "#1/0"),
        ("trip", (1,) * 23 + (12,), None, "{id}.trip#1/" + "1." * 23 + "12"),
        ("trip", (1,) * 25, None, "{id}.trip#1/~e56f37408062405f0ebad0a4dd6772a1"),
        ("trip", (0,), "c" * 48, "{id}.trip#1/0:" + "c" * 48),
        ("trip", (0,), "c" * 49, "{id}.trip#1/0~89ae78f6acdd1d542a28634100afd701"),
    ],
)
def test_a_decision_has_the_same_key_in_each_version_of_settlemark_or_it_would_be_made_twice(name, path, call_id, key):
    assert key_of(prefix_of("0" * 16, "default"), name, 1, path, call_id) == key.format(id="0" * 16)


@effect("idempotent", scope="pay:/{who}", name="pay")
def pay(who):
    return current_call().key


@pytest.mark.parametrize("name", ["trip", "trip" * 100, "trip#1/0:x"])
@pytest.mark.every_store
def test_a_namespace_has_keys_of_its_own_and_they_stay_when_the_ledger_is_opened_again(url, open_settlement, name):
    def paid(namespace):
        return open_settlement(url, namespace=namespace).run(name, lambda tx: tx.call(pay, who="ada"))

    namespaces = ["default", "acme", "a:b", "a"]
    first = [paid(namespace) for namespace in namespaces]
    assert len(set(first)) == len(namespaces)
    if url != "memory:":
        assert [paid(namespace) for namespace in namespaces] == first


def test_a_ledger_that_was_thrown_away_and_made_anew_has_other_keys(tmp_path):
    keys = []
    for _ in range(2):
        with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
            keys.append(settlement.run("trip", lambda tx: tx.call(pay, who="ada")))
        for path in tmp_path.iterdir():
            path.unlink()
    assert keys[0] != keys[1]


def test_every_ledger_in_memory_has_other_keys():
    with Settlement("memory:") as one, Settlement("memory:") as other:
        assert one.run("trip", lambda tx: tx.call(pay, who="ada")) != other.run(
            "trip", lambda tx: tx.call(pay, who="ada")
        )


def test_another_process_of_the_same_ledger_makes_the_same_key(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    code = (
        "from settlemark import Settlement, current_call, effect\n"
        "@effect('idempotent', scope='pay:/{who}')\n"
        "def pay(who): return current_call().key\n"
        f"print(Settlement({url!r}).run('trip', lambda tx: tx.call(pay, who='ada')))\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    with Settlement(url) as settlement:
        assert host_of(settlement).driver.kernel.prefix == prefix_of(host_of(settlement).ledger.id, "default")
        assert told.strip() == key_of(host_of(settlement).driver.kernel.prefix, "trip", 1, (0,), None)


@pytest.mark.every_store
def test_what_is_derived_of_a_decision_carries_the_ledgers_id_too(url, open_settlement):
    """Parts, splinters, branches, mends and rewinds: every inlet of a key."""
    settlement, keys = open_settlement(url), []

    def note(**_):
        keys.append(current_call().key)

    @effect("reversible", scope="room:/{room}", undo=note)
    def book(room):
        note()
        if room == "outer":
            with settlement.transaction() as part:
                part.call(book, room="inner")

    @effect("irreversible", scope="mail:/{to}")
    def mail(to):
        note()

    settlement.run("nested", lambda tx: tx.call(book, room="outer"))
    with settlement.transaction("split") as tx:
        tx.call(mail, to="ada")
        tx.park("split")
    settlement.answer("split!0", approve=True)
    settlement.speculate(
        [lambda tx: tx.call(book, room="x"), lambda tx: tx.call(book, room="y")], lambda _: 0, name="bet"
    )
    settlement.rewind(["nested"], by="ada", dry_run=False)
    recorded = [effect_.row.key for one in settlement.transactions() for effect_ in one.effects]
    assert len(recorded) == len(set(recorded)) >= 7
    for key in itertools.chain(keys, recorded):
        assert key.startswith(host_of(settlement).ledger.id)


@pytest.mark.every_store
def test_a_call_nested_too_deeply_for_its_key_is_recalled_all_the_same(url, open_settlement):
    settlement, acted = open_settlement(url), []

    @effect("idempotent", scope="level:/{n}")
    async def dig(n):
        acted.append(n)
        if n:
            async with settlement.transaction() as part:
                await part.call(dig, n=n - 1)
        return current_call().key

    async def deep():
        async with settlement.transaction("mine") as tx:
            return await tx.call(dig, n=14)

    first = asyncio.run(deep())
    assert (asyncio.run(deep()), acted) == (first, list(range(14, -1, -1)))
    rows = [effect_.row for one in settlement.transactions() for effect_ in one.effects]
    assert [row.decision for row in rows] == [(0,) * (2 * n + 1) for n in range(15)]
    assert len({row.key for row in rows}) == 15
