"""Budgets: what effects spend is reserved with their intent, and charged or given back with their outcome."""

from __future__ import annotations

from contextlib import closing, suppress
from decimal import Decimal

import pytest

from settlemark import (
    UNKNOWN,
    Budget,
    DeclarationError,
    InDoubt,
    Injected,
    OverBudget,
    Rejected,
    Settlement,
    UsageError,
    effect,
    inverse,
)


class Shop:
    """A counterparty that keeps what it was asked for, and may fail."""

    def __init__(self):
        self.bought, self.fails, self.lost = [], None, False

    def take(self, item, amount):
        if self.fails is not None:
            raise self.fails
        self.bought.append((item, amount))
        if self.lost:
            raise ConnectionError("no answer")
        return {"id": item, "fee": amount}


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_(request, tmp_path):
    """Open settlements on one store, with the budgets that are given."""
    url = "memory:"
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
    elif request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    opened = []

    def open_one(*budgets, **options):
        opened.append(Settlement(url, budgets=budgets, **options))
        return opened[-1]

    yield open_one
    for settlement in opened:
        settlement.close()


def buyer(shop, kind="reversible", **parts):
    """A tool that buys an item, and spends its amount."""
    if kind == "reversible":
        parts.setdefault("undo", inverse(lambda item: shop.bought.pop(), item="id"))

    def buy(item: str, amount: str) -> dict:
        return shop.take(item, amount)

    return effect(kind, scope="item:/{item}", **{"spends": {"usd": "{amount}"}, **parts})(buy)


def stand(settlement):
    """What is charged and reserved, by bucket."""
    return {b.bucket: (str(b.charged), str(b.reserved)) for b in settlement.budgets()}


def buy_all(settlement, buy, *amounts, name="trip"):
    with settlement.transaction(name) as tx:
        for number, amount in enumerate(amounts):
            tx.call(buy, item=f"{name}-{number}", amount=amount)


def test_what_a_confirmed_effect_spends_is_reserved_before_it_acts_and_charged_with_its_outcome(open_, shop):
    settlement, seen = open_(Budget("usd", 50)), []
    buy = buyer(shop)
    take = shop.take
    shop.take = lambda item, amount: (seen.append(stand(settlement)), take(item, amount))[1]
    buy_all(settlement, buy, "30", "0.10")
    assert seen == [{"run:trip": ("0", "30")}, {"run:trip": ("30", "0.1")}]
    assert stand(settlement) == {"run:trip": ("30.1", "0")}
    assert [str(bucket.left) for bucket in settlement.budgets("usd")] == ["19.9"]


def test_a_unit_of_which_there_is_no_budget_is_told_of_once_and_counted_nowhere(open_, shop, caplog):
    settlement = open_(Budget("usd", 50))
    buy = buyer(shop, spends={"usd": "{amount}", "udsc": "{amount}"})
    buy_all(settlement, buy, "30", "1")
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["buy spends udsc, and no budget of this settlement is of that unit, but of usd: nothing counts it"]
    assert stand(settlement) == {"run:trip": ("31", "0")}


def test_a_call_that_asks_for_more_than_is_left_is_refused_and_nothing_of_it_acts_or_is_recorded(open_, shop):
    settlement = open_(Budget("usd", 50))
    buy = buyer(shop)
    with settlement.transaction("trip/1") as tx:
        tx.call(buy, item="a", amount="30")
        with pytest.raises(OverBudget) as refused:
            tx.call(buy, item="b", amount="20.01")
        tx.call(buy, item="c", amount="20")
    error = refused.value
    assert (error.budget, error.bucket, error.limit) == ("usd", "run:trip", Decimal(50))
    assert (error.charged, error.reserved, error.asked) == (Decimal(30), Decimal(0), Decimal("20.01"))
    assert error.transaction == "trip/1"
    assert [item for item, _ in shop.bought] == ["a", "c"]
    assert [e.row.position for t in settlement.transactions() for e in t.effects] == [0, 2]
    assert stand(settlement) == {"run:trip": ("50", "0")}


def test_the_refusal_names_whose_effects_hold_what_is_reserved(open_, shop):
    settlement = open_(Budget("usd", 50))
    pay = buyer(shop, "irreversible")
    with settlement.transaction("trip") as tx:
        key = tx.call(pay, item="a", amount="40").key
        with pytest.raises(OverBudget) as refused:
            tx.call(pay, item="b", amount="11")
    assert (refused.value.holders, refused.value.reserved) == ([key], Decimal(40))
    assert key in str(refused.value)


@pytest.mark.parametrize("kind", ["staged", "irreversible"])
def test_a_held_effect_reserves_at_its_hold_so_that_its_release_never_finds_the_money_gone(kind, open_, shop):
    settlement = open_(Budget("usd", 50, per="namespace"))
    pay = buyer(shop, kind)
    with settlement.transaction("first") as first:
        first.call(pay, item="a", amount="50")
        with pytest.raises(OverBudget), settlement.transaction("second") as second:
            second.call(pay, item="b", amount="1")
        assert (shop.bought, stand(settlement)) == ([], {"namespace": ("0", "50")})
    assert (shop.bought, stand(settlement)) == ([("a", "50")], {"namespace": ("50", "0")})


@pytest.mark.parametrize("kind", ["reversible", "staged", "irreversible"])
def test_what_was_undone_cleanly_or_never_left_is_given_back(kind, open_, shop):
    settlement = open_(Budget("usd", 50))
    buy = buyer(shop, kind)
    with suppress(ZeroDivisionError), settlement.transaction("trip") as tx:
        tx.call(buy, item="a", amount="50")
        raise ZeroDivisionError
    assert (shop.bought, stand(settlement)) == ([], {"run:trip": ("0", "0")})


def test_an_undo_that_costs_something_gives_nothing_back(open_, shop):
    settlement = open_(Budget("usd", 50))
    buy = buyer(shop, cost="the fee")
    with suppress(ZeroDivisionError), settlement.transaction("trip") as tx:
        tx.call(buy, item="a", amount="50")
        raise ZeroDivisionError
    assert (shop.bought, stand(settlement)) == ([], {"run:trip": ("50", "0")})


def test_what_failed_is_given_back_and_reserved_again_when_it_is_tried_again(open_, shop):
    settlement = open_(Budget("usd", 50))
    buy = buyer(shop)
    shop.fails = ValueError("sold out")
    with settlement.transaction("trip") as tx:
        with pytest.raises(ValueError, match="sold out"):
            tx.call(buy, item="a", amount="50")
        assert stand(settlement) == {"run:trip": ("0", "0")}
        shop.fails = None
        tx.call(buy, item="a", amount="50")
    assert stand(settlement) == {"run:trip": ("50", "0")}


@pytest.mark.parametrize(("verdict", "left"), [("confirmed", ("50", "0")), ("absent", ("0", "0"))])
def test_what_nobody_knows_stays_reserved_until_an_operator_tells(verdict, left, open_, shop):
    settlement = open_(Budget("usd", 50), on_failure="continue")
    pay = buyer(shop, "opaque")
    shop.lost = True
    with settlement.transaction("trip") as tx, suppress(InDoubt, ConnectionError):
        tx.call(pay, item="a", amount="50")
    assert stand(settlement) == {"run:trip": ("0", "50")}
    (doubt,) = settlement.in_doubt()
    settlement.resolve(doubt, verdict, by="ada")
    assert stand(settlement) == {"run:trip": left}


def test_what_is_rewound_is_given_back(open_, shop):
    settlement = open_(Budget("usd", 50))
    buy_all(settlement, buyer(shop), "50")
    settlement.rewind("trip", by="ada", dry_run=False)
    assert (shop.bought, stand(settlement)) == ([], {"run:trip": ("0", "0")})


def test_a_committed_name_that_is_entered_again_spends_nothing_more(open_, shop):
    settlement = open_(Budget("usd", 50))
    buy = buyer(shop)
    for _ in range(2):
        buy_all(settlement, buy, "30")
    assert (len(shop.bought), stand(settlement)) == (1, {"run:trip": ("30", "0")})


def test_a_part_that_is_split_off_keeps_its_reservation_until_it_is_answered(open_, shop):
    settlement = open_(Budget("usd", 50))
    pay = buyer(shop, "irreversible")
    with settlement.transaction("trip") as tx:
        tx.call(pay, item="a", amount="50")
        tx.park("split")
    assert stand(settlement) == {"run:trip": ("0", "50")}
    settlement.answer("trip!0", approve=False)
    assert stand(settlement) == {"run:trip": ("0", "0")}


@pytest.mark.parametrize(("amount", "left"), [("50", ("50", "0")), ("20", ("20", "0"))])
def test_a_call_that_is_approved_with_other_arguments_reserves_in_the_place_of_the_first(amount, left, open_, shop):
    settlement = open_(Budget("usd", 50))
    pay = buyer(shop, "irreversible", approve=True)
    with settlement.transaction("trip") as tx:
        tx.call(pay, item="a", amount="40")
    settlement.approve("trip", by="ada", arguments={"item": "a", "amount": amount})
    assert (shop.bought, stand(settlement)) == ([("a", amount)], {"run:trip": left})


def test_a_call_that_a_person_rejects_is_given_back(open_, shop):
    settlement = open_(Budget("usd", 50), approver=lambda _gate: False)
    pay = buyer(shop, approve=True)
    with settlement.transaction("trip") as tx, suppress(Rejected):
        tx.call(pay, item="a", amount="40")
    assert (shop.bought, stand(settlement)) == ([], {"run:trip": ("0", "0")})


@pytest.mark.parametrize(("told", "charged"), [("7.25", "7.25"), ("60", "60"), ("NaN", "50"), (-1, "50")])
def test_the_result_may_tell_the_true_amount_an_overrun_too_and_nonsense_counts_as_reserved(told, charged, open_, shop):
    settlement = open_(Budget("usd", 55))
    buy = buyer(shop, spent={"usd": lambda result: told})
    buy_all(settlement, buy, "50")
    assert stand(settlement) == {"run:trip": (charged, "0")}


@pytest.mark.parametrize("stops", [ValueError, SystemExit, KeyboardInterrupt])
def test_whatever_a_function_of_the_true_amount_raises_the_outcome_is_on_record_and_what_was_reserved_is_charged(
    stops, open_, shop
):
    def spent(result):
        raise stops

    settlement = open_(Budget("usd", 55))
    buy_all(settlement, buyer(shop, spent={"usd": spent}), "50")
    (effect,) = [each for one in settlement.transactions() for each in one.effects]
    assert (effect.outcome, len(shop.bought), stand(settlement)) == ("confirmed", 1, {"run:trip": ("50", "0")})


def test_each_run_each_agent_and_each_day_has_a_bucket_of_its_own(open_, shop):
    now = [86_400.0 * 3]
    settlement = open_(
        Budget("usd", 5),
        Budget("usd", 8, per="agent", agent=lambda run: run.partition(".")[0]),
        Budget("usd", 12, per="day"),
        injected=Injected(store_clock=lambda: now[0]),
    )
    buy = buyer(shop)
    buy_all(settlement, buy, 5, name="ada.1")
    with pytest.raises(OverBudget) as of_agent:
        buy_all(settlement, buy, 4, name="ada.2")
    buy_all(settlement, buy, 5, name="bo.1")
    with pytest.raises(OverBudget) as of_day:
        buy_all(settlement, buy, 3, name="bo.2")
    assert (of_agent.value.bucket, of_day.value.bucket) == ("agent:ada", "day:1970-01-04")
    now[0] += 86_400
    buy_all(settlement, buy, 3, name="bo.2")
    assert stand(settlement) == {
        "agent:ada": ("5", "0"), "agent:bo": ("8", "0"), "day:1970-01-04": ("10", "0"), "day:1970-01-05": ("3", "0"),
        "run:ada.1": ("5", "0"), "run:bo.1": ("5", "0"), "run:bo.2": ("3", "0"),
    }  # fmt: skip # a table


WRONG = ["NaN", "-1", "sNaN", "Infinity", "ten", "", None, True, [1], {"a": 1}, 10**18, "1e18", "0." + "0" * 18 + "1"]


@pytest.mark.parametrize("amount", [*WRONG, float("1e300"), -0.5], ids=repr)
def test_an_amount_that_is_none_is_refused_before_anything_acts_and_nothing_is_recorded(amount, open_, shop):
    settlement = open_(Budget("usd", 50))
    with settlement.transaction("trip") as tx, pytest.raises(UsageError, match="what buy spends of usd is"):
        tx.call(buyer(shop), item="a", amount=amount)
    assert (shop.bought, settlement.transactions(), settlement.budgets()) == ([], [], [])


def test_amounts_never_drift(open_, shop):
    settlement = open_(Budget("usd", 1))
    buy = buyer(shop)
    buy_all(settlement, buy, *[0.1] * 10)
    with pytest.raises(OverBudget):
        buy_all(settlement, buy, "0.000000000000000001", name="trip/2")
    assert stand(settlement) == {"run:trip": ("1", "0")}


def test_a_charge_counts_once_under_its_key_and_is_refused_beyond_what_is_left(open_):
    settlement = open_(Budget("usd", 1))
    with settlement.transaction("trip") as tx:
        assert tx.charge("usd", 0.6, key="answer-1")
        assert not tx.charge("usd", 0.6, key="answer-1")
        with pytest.raises(OverBudget) as refused:
            tx.charge("usd", "0.5")
        assert (refused.value.asked, stand(settlement)) == (Decimal("0.5"), {"run:trip": ("0.6", "0")})
        assert tx.charge("usd", "0.5", beyond=True)
    assert not settlement.charge("usd", 1, run="trip", key="answer-1")
    assert stand(settlement) == {"run:trip": ("1.1", "0")}
    assert str(settlement.budgets()[0].left) == "-0.1"


def test_a_charge_stands_though_its_transaction_is_undone(open_):
    settlement = open_(Budget("usd", 1))
    with suppress(ZeroDivisionError), settlement.transaction("trip") as tx:
        tx.charge("usd", "0.25")
        raise ZeroDivisionError
    assert stand(settlement) == {"run:trip": ("0.25", "0")}


def test_a_charge_to_a_budget_that_nobody_gave_is_refused_and_nothing_is_charged(open_):
    settlement = open_(Budget("usd", 1))
    with pytest.raises(UsageError, match="there is no budget 'eur' here, nothing was charged: known is usd"):
        settlement.charge("eur", 1, run="trip")
    assert settlement.budgets() == []


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_process_without_budgets_settles_what_another_reserved(store, request, tmp_path, shop):
    url = f"sqlite:///{tmp_path / 'l.db'}" if store == "sqlite" else request.getfixturevalue("postgres_url")
    with closing(Settlement(url, budgets=[Budget("usd", 50)], on_failure="continue")) as first:
        with closing(Settlement(url)) as other:
            pay = buyer(shop, "opaque", probe=lambda item: UNKNOWN)
            shop.lost = True
            with first.transaction("trip") as tx, suppress(InDoubt, ConnectionError):
                tx.call(pay, item="a", amount="50")
            other.resolve(other.in_doubt()[0], "absent", by="ada")
            assert stand(other) == {"run:trip": ("0", "0")}
        assert stand(first) == {"run:trip": ("0", "0")}


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_two_processes_never_sell_the_same_money(store, request, tmp_path, shop):
    url = f"sqlite:///{tmp_path / 'l.db'}" if store == "sqlite" else request.getfixturevalue("postgres_url")
    budget = Budget("usd", 50, per="namespace")
    with closing(Settlement(url, budgets=[budget])) as first, closing(Settlement(url, budgets=[budget])) as second:
        pay = buyer(shop, "irreversible")
        with first.transaction("a") as one:
            one.call(pay, item="a", amount="30")
            with pytest.raises(OverBudget) as refused, second.transaction("b") as two:
                two.call(pay, item="b", amount="30")
        assert refused.value.reserved == Decimal(30)
        assert (shop.bought, stand(second)) == ([("a", "30")], {"namespace": ("30", "0")})


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"spends": {"usd": "{price}"}}, "does not take 'price'"),
        ({"spends": {"usd": "-1"}}, "is negative"),
        ({"spends": {"usd": True}}, "is no number"),
        ({"spent": {"eur": "{result}"}}, "spent= of buy tells of eur, which spends= does not"),
        ({"spends": {"usd": lambda price: price}}, "asks for 'price'"),
    ],
)
def test_a_declaration_that_cannot_say_what_it_spends_is_refused(parts, why, shop):
    with pytest.raises(DeclarationError, match=why):
        buyer(shop, **parts)


def test_a_read_spends_nothing_and_is_charged_instead():
    with pytest.raises(DeclarationError, match=r"charge what it costs with tx\.charge"):
        effect("read", scope="item:/{item}", spends={"usd": 1})(lambda item: item)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (("", 1), "name"),
        (("usd", "NaN"), "is not finite"),
        (("usd", -1), "is negative"),
        (("usd", 1, "week"), "choose one of run, agent, day, namespace"),
        (("usd", 1, "agent"), "go together"),
    ],
)
def test_a_budget_that_is_none_is_refused(parts, why):
    with pytest.raises(UsageError, match=why):
        Budget(*parts)
