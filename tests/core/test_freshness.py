"""Live reads are compared again before anything settles on them, and reads that expire are not acted on late."""

from __future__ import annotations

import pytest

from settlemark import DeclarationError, Queued, Stale, State, UsageError, effect
from settlemark.hosting import host_of


class Boom(Exception):
    """A fault of the resource."""


class Shop:
    """A resource that changes past the settlement, and counts who asks for its tag."""

    def __init__(self):
        self.price = 10
        self.version = 1
        self.asked = []

    def reprice(self, price):
        self.price, self.version = price, self.version + 1

    def fetch(self):
        self.asked.append("price")
        return self.price

    def tag(self):
        self.asked.append("tag")
        return self.version


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture
def timed(url, clock, open_settlement):
    return open_settlement(url, injected=clock.options()["injected"])


def look(shop, tx, **options):
    return tx.read("price:/Ada", shop.fetch, live=shop.tag, **options)


# ---- at the decision


def test_a_live_read_that_still_holds_commits_and_was_fetched_once(settlement, tools, world, shop):
    with settlement.transaction("trip") as tx:
        assert look(shop, tx) == 10
        tx.call(tools.book, room="a")
        assert shop.asked == ["tag", "price"]
    assert shop.asked == ["tag", "price", "tag"]
    assert world.log == [("book", "a")]


@pytest.mark.every_store
def test_what_changed_from_outside_before_the_decision_undoes_everything(settlement, tools, world, shop):
    with pytest.raises(Stale) as stale, settlement.transaction("trip") as tx:
        look(shop, tx)
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="x")
        shop.reprice(12)
    assert str(stale.value) == (
        "trip was undone: price:/Ada changed, from outside, after it was read; read it again and plan again"
    )
    assert (stale.value.transaction, stale.value.scope.text) == ("trip", "price:/Ada")
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert settlement.residue() == []
    assert host_of(settlement).protocol.live == {}


def test_the_tag_is_taken_before_the_value_so_that_no_change_falls_between(settlement, tools, world, shop):
    def fetch_while_it_changes():
        value = shop.price
        shop.reprice(12)
        return value

    with pytest.raises(Stale), settlement.transaction("trip") as tx:
        tx.read("price:/Ada", fetch_while_it_changes, live=shop.tag)
        tx.call(tools.book, room="a")
    assert world.log == [("book", "a"), ("cancel", "a")]


def test_the_first_tag_counts_however_often_it_is_read(settlement, tools, world, shop):
    with pytest.raises(Stale), settlement.transaction("trip") as tx:
        look(shop, tx)
        shop.reprice(12)
        assert look(shop, tx) == 12
        tx.call(tools.book, room="a")
    with settlement.transaction("again") as tx:
        for _ in range(3):
            look(shop, tx)
        tx.call(tools.book, room="b")
        shop.asked.clear()
    assert shop.asked == ["tag"]
    assert world.rooms == {"b"}


def test_a_turn_that_only_read_is_told_too(settlement, shop):
    with pytest.raises(Stale), settlement.transaction("trip") as tx:
        look(shop, tx)
        shop.reprice(12)


def test_it_begins_again_on_fresh_state(settlement, tools, world, shop):
    seen = []

    def plan(tx):
        seen.append(look(shop, tx))
        tx.call(tools.book, room=f"for {seen[-1]}")
        if len(seen) == 1:
            shop.reprice(12)

    settlement.run("trip", plan)
    assert seen == [10, 12]
    assert world.rooms == {"for 12"}


def test_a_tag_that_cannot_be_fetched_when_it_counts_undoes_everything(settlement, tools, world, shop):
    tags = [1]
    with pytest.raises(IndexError), settlement.transaction("trip") as tx:
        tx.read("price:/Ada", live=lambda: tags.pop())
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="x")
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert tx.state is State.ABORTED


def test_a_read_that_failed_is_not_compared(settlement, tools, world, shop):
    def fails():
        raise Boom

    with settlement.transaction("trip") as tx:
        with pytest.raises(Boom):
            tx.read("price:/Ada", fails, live=shop.tag)
        shop.reprice(12)
        tx.call(tools.book, room="a")
    assert world.rooms == {"a"}


def test_a_hook_that_takes_its_time_is_asked_before_and_not_after(settlement, tools, world, shop):
    def ask(_footprint):
        shop.reprice(12)

    with pytest.raises(Stale), settlement.transaction("trip", before_commit=ask) as tx:
        look(shop, tx)
        tx.call(tools.send, to="x")
    assert world.log == []


async def test_it_is_the_same_awaited(settlement, tools, world, shop):
    async def tag():
        return shop.version

    async with settlement.transaction("trip") as tx:
        await tx.read("price:/Ada", shop.fetch, live=tag)
        await tx.call(tools.book, room="a")
    with pytest.raises(Stale):
        async with settlement.transaction("again") as tx:
            await tx.read("price:/Ada", shop.fetch, live=tag)
            shop.reprice(12)
    assert world.rooms == {"a"}


def test_an_async_tag_is_refused_where_it_cannot_be_awaited(quick):
    async def tag():
        raise AssertionError

    with quick.transaction("trip") as tx, pytest.raises(UsageError, match="tag is async: nothing was run"):
        tx.read("price:/Ada", live=tag)


# ---- what a transaction changes itself


def test_what_it_changed_itself_is_no_change_from_outside(settlement, world, shop):
    @effect("reversible", scope="price:/{item}", undo=lambda item: shop.reprice(10))
    def reprice(item):
        shop.reprice(12)

    with settlement.transaction("trip") as tx:
        look(shop, tx)
        tx.call(reprice, item="Ada")
    assert shop.price == 12


def test_what_it_changed_itself_is_no_change_from_outside_whatever_it_does_behind_that(settlement, tools, world, shop):
    @effect("reversible", scope="price:/Ada", undo=lambda: shop.reprice(10))
    def raise_price():
        shop.reprice(11)

    with settlement.transaction("trip") as tx:
        look(shop, tx)
        tx.call(raise_price)
        tx.call(tools.book, room="a")
    assert (tx.state, shop.price, world.rooms) == (State.COMMITTED, 11, {"a"})


def test_what_changed_before_it_was_written_is_found_before_it_is_written(settlement, world, shop):
    @effect("reversible", scope="price:/{item}", undo=lambda item: shop.reprice(10))
    def reprice(item):
        raise AssertionError

    with pytest.raises(Stale), settlement.transaction("trip") as tx:
        look(shop, tx)
        shop.reprice(11)
        tx.call(reprice, item="Ada")
    assert shop.price == 11
    assert host_of(settlement).protocol.live == {}


def test_a_write_that_did_not_happen_leaves_the_read_to_be_compared(settlement, tools, world, shop):
    @effect("reversible", scope="price:/{item}", undo=lambda item: None)
    def reprice(item):
        raise Boom

    with pytest.raises(Stale), settlement.transaction("trip") as tx:
        look(shop, tx)
        with pytest.raises(Boom):
            tx.call(reprice, item="Ada")
        shop.reprice(12)
        tx.call(tools.book, room="a")
    assert world.log == [("book", "a"), ("cancel", "a")]


# ---- before a release


@pytest.mark.every_store
@pytest.mark.parametrize("left", [False, True])
def test_it_is_compared_again_before_the_first_held_effect_leaves_and_not_behind_it(
    settlement, tools, world, shop, left
):
    @effect("irreversible", scope="post:/{to}")
    def post(to):
        world.act("post", to)
        if left:
            shop.reprice(12)

    def tag():
        shop.asked.append("tag")
        if len(shop.asked) == 2 and not left:  # at the decision: the change comes between that and the release
            shop.version += 1
            return 1
        return shop.version

    def work():
        with settlement.transaction("trip") as tx:
            tx.read("price:/Ada", live=tag)
            tx.call(tools.book, room="a")
            tx.call(post, to="x")
            tx.call(post, to="y")

    if left:
        work()
        assert world.log == [("book", "a"), ("post", "x"), ("post", "y")]
    else:
        with pytest.raises(Stale, match="price:/Ada changed, from outside"):
            work()
        assert world.log == [("book", "a"), ("cancel", "a")]
    assert settlement.residue() == []
    assert host_of(settlement).protocol.live == {}
    assert len(shop.asked) == 3


# ---- across turns


@pytest.mark.every_store
def test_what_an_earlier_turn_read_live_counts_for_the_next_that_writes(settlement, tools, world, shop):
    with settlement.transaction("trip/1") as tx:
        look(shop, tx)
    with settlement.transaction("trip/2") as tx:
        tx.read("other:/x")
    shop.reprice(12)
    with pytest.raises(Stale), settlement.transaction("trip/3") as tx:
        tx.call(tools.book, room="a")
    with settlement.transaction("trip/4") as tx:
        tx.call(tools.book, room="b")
    assert world.log == [("book", "a"), ("cancel", "a"), ("book", "b")]


def test_what_several_turns_read_live_counts_for_the_next_that_writes(settlement, tools, world, shop):
    with settlement.transaction("trip/1") as tx:
        look(shop, tx)
    with settlement.transaction("trip/2") as tx:
        tx.read("price:/Bee", live=lambda: 1)
    shop.reprice(12)
    with pytest.raises(Stale, match="price:/Ada changed, from outside"), settlement.transaction("trip/3") as tx:
        tx.call(tools.book, room="a")
    assert world.log == [("book", "a"), ("cancel", "a")]


def test_each_of_several_live_reads_by_one_tool_is_compared(settlement, tools, world):
    prices = {"Ada": 10, "Bee": 20}

    @effect("read", scope="price:/{item}", live=lambda item: prices[item])
    def price(item):
        return prices[item]

    with pytest.raises(Stale, match="price:/Bee changed, from outside"), settlement.transaction("trip") as tx:
        for item in prices:
            tx.call(price, item=item)
        tx.call(tools.send, to="x")
        prices["Bee"] = 21
    assert world.log == []


def test_what_an_earlier_turn_read_live_does_not_count_for_one_that_only_reads(settlement, shop):
    with settlement.transaction("trip/1") as tx:
        look(shop, tx)
    shop.reprice(12)
    with settlement.transaction("trip/2") as tx:
        tx.read("other:/x")
    assert tx.state is State.COMMITTED


def test_of_so_many_runs_that_only_read_the_oldest_is_forgotten(quick, shop, monkeypatch):
    monkeypatch.setattr("settlemark._engine.freshness.PLANS", 2)
    for run in "abc":
        with quick.transaction(f"{run}/1") as tx:
            look(shop, tx)
    assert [*host_of(quick).driver.freshness.live_plans] == ["b", "c"]


def test_what_was_read_anew_or_by_another_run_does_not_count(settlement, tools, world, shop):
    with settlement.transaction("trip/1") as tx:
        look(shop, tx)
    shop.reprice(12)
    with settlement.transaction("other/1") as tx:
        tx.call(tools.book, room="a")
    with settlement.transaction("trip/2") as tx:
        look(shop, tx)
        tx.call(tools.book, room="b")
    shop.reprice(14)
    with settlement.transaction("trip/3") as tx:
        tx.call(tools.book, room="c")
    assert world.rooms == {"a", "b", "c"}


def test_what_reads_several_places_is_read_anew_when_all_of_them_are(settlement, tools, world, shop):
    @effect("read", may_touch=("price:/Ada", "price:/Bee"), live=lambda: shop.version)
    def compare():
        return shop.price

    with settlement.transaction("trip/1") as tx:
        tx.call(compare)
    shop.reprice(12)
    with pytest.raises(Stale, match="price:/Ada changed, from outside"), settlement.transaction("trip/2") as tx:
        tx.read("price:/Ada")
        tx.call(tools.book, room="a")
    assert world.log == [("book", "a"), ("cancel", "a")]
    with settlement.transaction("trip/3") as tx:
        tx.call(compare)
    shop.reprice(14)
    with settlement.transaction("trip/4") as tx:
        tx.read("price:/Ada")
        tx.read("price:/Bee")
        tx.call(tools.book, room="b")
    assert world.rooms == {"b"}


# ---- expiry


@pytest.mark.every_store
def test_a_read_holds_for_as_long_as_it_says_and_no_longer(timed, clock, tools, world):
    def trip(name, seconds):
        with timed.transaction(name) as tx:
            tx.read("price:/Ada", lambda: 10, valid_for=5)
            tx.call(tools.book, room=name)
            clock.advance(seconds)

    trip("a", 4.9)
    with pytest.raises(Stale, match=r"price:/Ada was read more than 5 s ago; read it again"):
        trip("b", 5)
    assert world.log == [("book", "a"), ("book", "b"), ("cancel", "b")]


def test_the_earliest_of_several_reads_expires_first(timed, clock):
    with pytest.raises(Stale), timed.transaction("trip") as tx:
        tx.read("price:/Ada", valid_for=5)
        clock.advance(3)
        tx.read("price:/Ada", valid_for=5)
        clock.advance(3)


def test_it_expires_across_turns_too(timed, clock, tools, world):
    with timed.transaction("trip/1") as tx:
        tx.read("price:/Ada", valid_for=5)
    clock.advance(6)
    with pytest.raises(Stale), timed.transaction("trip/2") as tx:
        tx.call(tools.book, room="a")
    assert world.rooms == set()


# ---- declared


def test_a_declared_read_is_live_with_the_arguments_it_asks_for(settlement, tools, world, shop):
    asked = []

    def etag(item):
        asked.append(item)
        return shop.version

    @effect("read", scope="price:/{item}", live=etag, valid_for=60)
    def price(item, currency="EUR"):
        return shop.price

    with pytest.raises(Stale), settlement.transaction("trip") as tx:
        assert tx.call(price, item="Ada") == 10
        tx.call(tools.send, to="x")
        shop.reprice(12)
    assert asked == ["Ada", "Ada"]
    assert world.log == []


@pytest.mark.parametrize(
    ("kind", "parts", "told"),
    [
        ("opaque", {"live": lambda: 1}, "live= and valid_for= say how long a read holds"),
        ("staged", {"valid_for": 5, "scope": "cell:/b"}, "live= and valid_for= say how long a read holds"),
        ("read", {"live": lambda: 1}, "names no scope"),
        ("read", {"scope": "cell:/b", "valid_for": 0}, "give the seconds for which its answer may be acted on"),
        ("read", {"scope": "cell:/b", "valid_for": True}, "give the seconds"),
        ("read", {"scope": "cell:/b", "live": 7}, "live= of price is 7: pass a function"),
        ("read", {"scope": "cell:/b", "live": lambda other: 1}, "asks for 'other', which price does not take"),
    ],
)
def test_what_contradicts_itself_is_refused(kind, parts, told):
    with pytest.raises(DeclarationError, match=told):

        @effect(kind, **parts)
        def price(item):
            raise AssertionError


@pytest.mark.parametrize("seconds", [0, -1, True, "5"])
def test_a_read_for_no_time_is_refused_and_nothing_is_read(quick, shop, seconds):
    with quick.transaction("trip") as tx, pytest.raises(DeclarationError, match="give the seconds"):
        look(shop, tx, valid_for=seconds)
    assert shop.asked == []


# ---- durability


def test_a_live_read_writes_nothing_and_a_sealed_one_is_not_settled_by_others(tmp_path, open_settlement, tools, shop):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    settlement = open_settlement(url)
    with settlement.transaction("only reads") as tx:
        look(shop, tx)
    assert settlement.transactions() == []
    found = []

    def tag():
        found.append([txn.hooked for txn in host_of(settlement).protocol.live.values() if txn.state is State.SEALED])
        return 1

    with settlement.transaction("trip") as tx:
        tx.read("price:/Ada", live=tag)
        assert isinstance(tx.call(tools.send, to="x"), Queued)
    assert found == [[], [True], []]


def test_it_costs_nothing_where_nothing_is_live(quick, tools):
    with quick.transaction("trip") as tx:
        tx.read("price:/Ada")
        tx.call(tools.book, room="a")
        assert tx._attempt.live_reads == {}
    assert host_of(quick).driver.freshness.live_plans == {}
