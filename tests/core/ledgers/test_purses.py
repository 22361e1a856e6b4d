"""What is taken of budgets, row by row: what an outcome makes of it, and that a bucket is the sum of what is taken."""

from __future__ import annotations

import random
from contextlib import suppress
from decimal import Decimal

import pytest
from tests.core.test_ledger_contract import opening
from tests.rooms.ledger import Ask, Bucket, MemoryPurse, Spend, became, charge, follow, reserve

from settlemark import Outcome, OverBudget, Tag

__all__ = ["opening"]


@pytest.fixture
def purse():
    return MemoryPurse(lambda _undo: None, retain=100)


def ask(amount, bucket="run:trip", *, budget="usd", limit=50):
    return Ask(budget, bucket, Decimal(limit), Decimal(amount))


def hold(purse, key, *asks, **more):
    reserve(purse, key, asks, transaction="trip", **more)


def stand(purse):
    return {f"{b.budget} {b.bucket}": (str(b.limit), str(b.charged), str(b.reserved)) for b in purse.buckets()}


def taken(purse, key):
    return [(s.budget, s.bucket, str(s.asked), str(s.amount), s.stands) for s in purse.spends(key)]


def test_money_is_kept_while_nobody_knows_charged_for_what_happened_and_given_back_for_what_did_not():
    assert {(outcome, tag): became(outcome, tag) for outcome in Outcome for tag in (None, *Tag)} == {
        **{(outcome, tag): "reserved" for outcome in Outcome for tag in (None, *Tag)},
        **{(Outcome.CONFIRMED, tag): "charged" for tag in (None, *Tag)},
        **{(outcome, tag): "returned" for outcome in (Outcome.FAILED, Outcome.DROPPED) for tag in (None, *Tag)},
        **{(Outcome.UNDONE, tag): "charged" for tag in (None, *Tag)},
        (Outcome.UNDONE, Tag.CLEAN): "returned",
    }


def test_what_is_asked_of_several_buckets_is_taken_of_all_of_them_or_of_none(purse):
    hold(purse, "k1", ask(40), ask(40, "day:1", limit=45))
    before = stand(purse), taken(purse, "k2")
    for take in (
        lambda: hold(purse, "k2", ask(10), ask(6, "day:1", limit=45)),
        lambda: charge(purse, [ask(10), ask(6, "day:1", limit=45)], key="k2"),
        lambda: charge(purse, [ask(10), ask(6, "day:1", limit=45)]),
        lambda: hold(purse, "k2", ask(60), ask(20, "day:1", limit=45), instead_of="k1"),
    ):
        with pytest.raises(OverBudget, match="nothing was run"):
            take()
        assert (stand(purse), taken(purse, "k2")) == before


def test_all_that_is_left_may_be_taken_and_nothing_more(purse):
    hold(purse, "k1", ask("49.99"))
    with pytest.raises(OverBudget):
        hold(purse, "k2", ask("0.011"))
    hold(purse, "k2", ask("0.01"))
    assert stand(purse) == {"usd run:trip": ("50", "0", "50")}
    assert purse.buckets()[0].left == 0


def test_a_refusal_says_how_the_bucket_stands_and_which_five_keys_hold_of_it(purse):
    for number in (7, 3, 5, 1, 2, 4, 6):
        hold(purse, f"k{number}", ask(6))
    follow(purse, "k1", Outcome.CONFIRMED, None, {})
    hold(purse, "other", ask(1, "run:other"))
    with pytest.raises(OverBudget) as refused:
        hold(purse, "k8", ask("8.5"))
    error = refused.value
    assert (error.transaction, error.budget, error.bucket) == ("trip", "usd", "run:trip")
    assert (error.limit, error.charged, error.reserved, error.asked) == tuple(map(Decimal, (50, 6, 36, "8.5")))
    assert error.holders == ["k2", "k3", "k4", "k5", "k6"]
    assert "has 8 left and 8.5 is asked: of 50, 6 is charged and 36 reserved (for k2, k3, k4, k5, k6)" in str(error)
    with pytest.raises(OverBudget) as refused:
        charge(purse, [ask(60, "run:new")], transaction="tour")
    assert (refused.value.transaction, refused.value.holders) == ("tour", [])
    assert "is charged and 0 reserved; nothing was run" in str(refused.value)


def test_what_is_reserved_or_charged_under_its_key_is_not_asked_for_again_and_what_was_given_back_is(purse):
    hold(purse, "k1", ask(30))
    hold(purse, "k1", ask(30))
    assert stand(purse) == {"usd run:trip": ("50", "0", "30")}
    follow(purse, "k1", Outcome.CONFIRMED, None, {})
    hold(purse, "k1", ask(30))
    assert stand(purse) == {"usd run:trip": ("50", "30", "0")}
    follow(purse, "k1", Outcome.UNDONE, Tag.CLEAN, {})
    hold(purse, "k1", ask(20))
    assert (stand(purse), taken(purse, "k1")) == (
        {"usd run:trip": ("50", "0", "20")},
        [("usd", "run:trip", "20", "20", "reserved")],
    )


def test_what_is_tried_again_on_another_day_counts_on_the_day_on_which_it_was_first_asked_for(purse):
    hold(purse, "k1", ask(30, "day:1"), ask(3, "run:trip", budget="eur"))
    hold(purse, "k1", ask(30, "day:2"), ask(3, "run:other", budget="eur"))
    assert stand(purse) == {
        "eur run:other": ("50", "0", "3"),
        "eur run:trip": ("50", "0", "3"),
        "usd day:1": ("50", "0", "30"),
    }
    hold(purse, "k2", ask(30, "day:2"))
    follow(purse, "k1", Outcome.FAILED, None, {})
    hold(purse, "k1", ask(20, "day:2"), ask(1, "day:2", budget="eur"))
    assert stand(purse)["usd day:1"] == ("50", "0", "0")
    assert (stand(purse)["usd day:2"], stand(purse)["eur day:2"]) == (("50", "0", "50"), ("50", "0", "1"))


def test_what_takes_the_place_of_another_has_what_that_one_had_reserved(purse):
    hold(purse, "k1", ask(40), ask(7, "run:trip", budget="eur"))
    hold(purse, "k2", ask(50), instead_of="k1")
    assert stand(purse) == {"eur run:trip": ("50", "0", "0"), "usd run:trip": ("50", "0", "50")}
    assert [s.stands for s in purse.spends("k1")] == ["returned", "returned"]


def test_what_takes_the_place_of_another_has_nothing_of_what_was_charged_for_that_one(purse):
    hold(purse, "k1", ask(40))
    follow(purse, "k1", Outcome.CONFIRMED, None, {})
    with pytest.raises(OverBudget):
        hold(purse, "k2", ask(11), instead_of="k1")
    hold(purse, "k2", ask(10), instead_of="k1")
    assert stand(purse) == {"usd run:trip": ("50", "40", "10")}


def test_the_limit_of_a_bucket_is_the_one_that_was_last_asked_under(purse):
    hold(purse, "k1", ask(40, limit=50))
    with pytest.raises(OverBudget):
        hold(purse, "k2", ask(1, limit=40))
    hold(purse, "k2", ask(1, limit=60))
    charge(purse, [ask(1, limit=70)])
    assert stand(purse) == {"usd run:trip": ("70", "1", "41")}


def test_the_true_amount_counts_as_long_as_it_is_charged_and_a_later_outcome_does_not_bring_back_the_reserved_one(
    purse,
):
    hold(purse, "k1", ask(30))
    follow(purse, "k1", Outcome.CONFIRMED, None, {"usd": Decimal("7.25"), "eur": Decimal(1)})
    follow(purse, "k1", Outcome.CONFIRMED, None, {})
    assert stand(purse) == {"usd run:trip": ("50", "7.25", "0")}
    follow(purse, "k1", Outcome.UNKNOWN, None, {"usd": Decimal(9)})
    assert (stand(purse), taken(purse, "k1")) == (
        {"usd run:trip": ("50", "0", "30")},
        [("usd", "run:trip", "30", "30", "reserved")],
    )


def test_a_charge_under_a_key_counts_once_in_each_bucket_and_one_without_a_key_each_time(purse):
    assert charge(purse, [ask(1), ask(1, "day:1")], key="c1")
    assert not charge(purse, [ask(2), ask(2, "day:1")], key="c1")
    assert [charge(purse, [ask(4)]) for _ in range(2)] == [True, True]
    assert stand(purse) == {"usd day:1": ("50", "1", "0"), "usd run:trip": ("50", "9", "0")}
    assert taken(purse, "c1") == [("usd", "run:trip", "1", "1", "charged"), ("usd", "day:1", "1", "1", "charged")]


def test_what_is_charged_beyond_the_limit_is_charged_and_nothing_more_is_reserved(purse):
    hold(purse, "k1", ask(40))
    assert charge(purse, [ask(11, limit=45)], key="c1", beyond=True)
    assert stand(purse) == {"usd run:trip": ("45", "11", "40")}
    assert purse.buckets()[0].left == -6
    assert purse.buckets()[0].values() == {
        "budget": "usd", "per": "run", "bucket": "run:trip", "limit": "45", "charged": "11", "reserved": "40",
        "left": "-6",
    }  # fmt: skip # a table


def test_whatever_becomes_of_effects_a_bucket_is_the_sum_of_what_they_take():
    dice, keys = random.Random(7), ("k1", "k2", "k3", "c1")
    purse = MemoryPurse(lambda _undo: None, retain=100)
    for _ in range(400):
        key, some = dice.choice(keys), [ask(dice.choice((1, "0.1", 13)), bucket) for bucket in ("run:a", "day:1")]
        with suppress(OverBudget):
            match dice.choice(("hold", "charge", "follow", "follow")):
                case "hold":
                    hold(purse, key, *some, instead_of=dice.choice((None, *{*keys} - {key})))
                case "charge":
                    charge(purse, some, key=key, beyond=dice.random() < 0.1)
                case _:
                    told = dice.choice(({}, {"usd": Decimal("2.5")}))
                    follow(purse, key, dice.choice(tuple(Outcome)), dice.choice((None, *Tag)), told)
        for bucket in purse.buckets():
            spends = [s for key in keys for s in purse.spends(key) if s.bucket == bucket.bucket]
            for stands, counted in (("charged", bucket.charged), ("reserved", bucket.reserved)):
                assert sum(s.amount for s in spends if s.stands == stands) == counted


# ---- in memory


def test_memory_keeps_the_buckets_that_were_written_last_and_those_of_which_something_is_reserved():
    purse = MemoryPurse(lambda _undo: None, retain=2)
    charge(purse, [ask(1, "run:a"), ask(1, "run:b")])
    assert list(stand(purse)) == ["usd run:a", "usd run:b"]
    hold(purse, "k1", ask(1, "run:0"))
    charge(purse, [ask(1, "namespace")])
    for number in range(1, 5):
        charge(purse, [ask(1, f"run:{number}")])
        assert f"usd run:{number}" in stand(purse)
    assert list(stand(purse)) == ["usd namespace", "usd run:0", "usd run:4"]


def test_memory_that_keeps_nothing_keeps_the_bucket_that_is_being_written():
    purse = MemoryPurse(lambda _undo: None, retain=0)
    assert [charge(purse, [ask(1)]) for _ in range(2)] == [True, True]
    assert stand(purse) == {"usd run:trip": ("50", "2", "0")}


def test_what_a_step_took_in_memory_goes_with_the_step():
    undone = []
    purse = MemoryPurse(undone.append, retain=2)
    charge(purse, [ask(1, "run:a"), ask(1, "run:b")], key="c1")
    hold(purse, "k1", ask(2, "run:b"))
    undone.clear()
    before = purse.buckets(), taken(purse, "c1"), taken(purse, "k1"), taken(purse, "k2")
    charge(purse, [ask(1, "run:c")], key="c2")
    assert [bucket.bucket for bucket in purse.buckets()] == ["run:b", "run:c"]
    follow(purse, "k1", Outcome.CONFIRMED, None, {})
    purse.move("k1", "k2")
    assert (taken(purse, "k1"), len(taken(purse, "k2"))) == ([], 1)
    purse.move("nobody", "k3")
    while undone:
        undone.pop()()
    assert (purse.buckets(), taken(purse, "c1"), taken(purse, "k1"), taken(purse, "k2")) == before
    assert (taken(purse, "c2"), taken(purse, "k3")) == ([], [])


def test_of_a_key_that_is_forgotten_the_buckets_keep_the_sum():
    purse = MemoryPurse(lambda _undo: None, retain=2)
    assert not purse
    charge(purse, [ask(1)], key="c1")
    assert purse
    purse.forget("c1")
    assert (taken(purse, "c1"), stand(purse)) == ([], {"usd run:trip": ("50", "1", "0")})
    purse.put(Spend("k", "usd", "run:trip", Decimal(2), Decimal(1), "charged"), Bucket("usd", "run:trip", Decimal(9)))
    purse.put(Spend("k", "usd", "run:b", Decimal(2), Decimal(1), "charged"), Bucket("usd", "run:b", Decimal(9)))
    purse.put(Spend("k", "eur", "run:b", Decimal(2), Decimal(1), "charged"), Bucket("eur", "run:b", Decimal(9)))
    assert [s[:2] for s in taken(purse, "k")] == [("usd", "run:trip"), ("usd", "run:b"), ("eur", "run:b")]
