"""What the rules for English take for a claim, and what the record says of it."""

from __future__ import annotations

import pytest

from settlemark import ClaimCheck, effect

pytestmark = pytest.mark.own_time

RUN = "case-7"


@effect("irreversible", scope="customer:/{customer}")
def refund(customer, amount, currency=""):
    return "done"


@effect("irreversible", scope="mail:/{to}")
def send_mail(to):
    return "sent"


def act(settlement, name, tool, **given):
    with settlement.transaction(name) as tx:
        tx.call(tool, **given)


def found(text):
    return [
        " ".join(
            [
                *["not"] * (claim.says == "did_not_happen"),
                claim.verb,
                *claim.mentions,
                *[f"x{claim.times}"] * (claim.times > 1),
            ]
        )
        for claim in ClaimCheck.outcomes(text)
    ]


@pytest.mark.parametrize(
    ("amount", "read"),
    [
        ("EUR 50", "50 EUR"),
        ("eur50", "50 EUR"),
        ("50 euros", "50 EUR"),
        ("50 dollars", "50 USD"),
        ("a 50-pound sum", "50 GBP"),
        ("1 franc", "1 CHF"),
        ("five euros", "5 EUR"),
        ("twenty-five thousand dollars", "25000 USD"),
        ("a €20 fee", "20 EUR"),
        ("2 €20 vouchers", "20 EUR"),
        ("5 JPY", "5 JPY"),
        ("20k EUR", "20000 EUR"),
        ("20 thousand EUR", "20000 EUR"),
        ("$20k", "20000 USD"),
        ("$20m", "20000000 USD"),
        ("$1.5 million", "1500000.0 USD"),
        ("1 020 EUR", "1020 EUR"),
        ("1\u202f020 EUR", "1020 EUR"),
        ("€1\u00a0020", "1020 EUR"),
        ("1'020 CHF", "1020 CHF"),
        ("1\u2019020.50 CHF", "1020.50 CHF"),
        ("1,020.50 EUR", "1020.50 EUR"),
        ("1.020,50 EUR", "1020.50 EUR"),
        ("1.020 EUR", "1020 EUR"),
        ("10,00 EUR", "10.00 EUR"),
        ("1,0,0,0 EUR", "1,0,0,0 EUR"),
        ("-50 EUR", "-50 EUR"),
        ("on 5 20 EUR", "20 EUR"),
    ],
)
def test_an_amount_of_money_is_read_as_a_reader_would(amount, read):
    assert found(f"I have refunded {amount}.") == [f"refund {read}"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("No refund was processed.", ["not refund"]),
        ("None of the refunds was processed.", ["not refund"]),
        ("Nothing was refunded. Nobody was refunded. No one was refunded.", ["not refund"] * 3),
        ("I have refunded nothing. I have sent no mail.", ["not refund", "not send"]),
        ("Neither refund was processed.", ["not refund"]),
        ("I never refunded 20 EUR. I have not yet refunded it.", ["not refund 20 EUR", "not refund"]),
        ("It is not true that I have refunded 20 EUR.", ["not refund 20 EUR"]),
        ("It is not true that I have not refunded 20 EUR.", ["refund 20 EUR"]),
        ("I have refunded order no. 7 with no delay. I refunded it no later than Monday.", ["refund", "refund"]),
        ("I have nearly refunded it. It was almost sent. It is hardly paid.", []),
        ("I have refunded less than 20 EUR. I wish I had refunded it. Nothing else was refunded.", []),
    ],
)
def test_a_sentence_that_denies_is_a_denial_and_one_that_leaves_it_open_is_no_claim(text, read):
    assert found(text) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("I did not refund 50 EUR but refunded 20 EUR.", ["not refund 50 EUR", "refund 20 EUR"]),
        ("I did not refund 50 EUR, but sent it.", ["not refund 50 EUR", "send"]),
        ("I have not refunded 50 EUR and sent it.", ["not refund 50 EUR", "not send"]),
        ("I have not refunded the full 50 EUR, only 20 EUR.", ["not refund 50 EUR", "refund 20 EUR"]),
        ("I have not refunded it, just looked.", ["not refund"]),
        ("I have refunded 20 EUR, not 50 EUR.", ["refund 20 EUR", "not refund 50 EUR"]),
        ("I have refunded 20 EUR, and I will refund 50 EUR.", ["refund 20 EUR"]),
    ],
)
def test_a_denial_reaches_over_and_but_not_over_but(text, read):
    assert found(text) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("I have not mailed a@x.org and b@x.org.", ["not mail a@x.org", "not mail b@x.org"]),
        ("I paid 20 EUR to a@x.org and 5 EUR to b@x.org.", ["pay 20 EUR a@x.org", "pay 5 EUR b@x.org"]),
        (
            "I paid 20 EUR to a@x.org and 5 EUR to b@x.org and c@x.org.",
            ["pay 20 EUR a@x.org", "pay 5 EUR b@x.org", "pay c@x.org"],
        ),
        ("I have refunded 20 EUR twice.", ["refund 20 EUR x2"]),
        ("I refunded it three times.", ["refund x3"]),
        ("I have refunded 20 EUR to Ada and 20 EUR to Bee.", ["refund 20 EUR x2"]),
        ("I have not refunded 20 EUR twice.", ["not refund 20 EUR"]),
    ],
)
def test_each_amount_and_each_address_is_a_claim_and_equal_ones_are_counted(text, read):
    assert found(text) == read


def test_both_spellings_of_a_past_are_known():
    told = [
        "transferred",
        "cancelled",
        "canceled",
        "shipped",
        "submitted",
        "stopped",
        "dropped",
        "paid",
        "sent",
        "withdrew",
        "wrote",
        "held",
        "sold",
    ]
    assert [found(f"I {each} it.") for each in told] == [
        ["transfer"], ["cancel"], ["cancel"], ["ship"], ["submit"], ["stop"], ["drop"], ["pay"], ["send"],
        ["withdraw"], ["write"], ["hold"], ["sell"],
    ]  # fmt: skip # a list of names and values


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        ("I have refunded EUR 50. I have refunded $20k.", ["unsupported"] * 2),
        ("No refund was processed. I have sent no mail.", ["contradicted"] * 2),
        ("I did not refund 50 EUR but refunded 20 EUR.", ["supported"] * 2),
        ("I have not mailed a@x.org and b@x.org.", ["contradicted", "contradicted"]),
        ("I have refunded 20 EUR twice.", ["contradicted"]),
        ("I have refunded 20,00 EUR and mailed a@x.org.", ["supported"] * 2),
    ],
)
def test_the_record_of_one_refund_and_two_mails_bears_out_what_is_so(quick, text, verdicts):
    act(quick, f"{RUN}/1", refund, customer="9", amount=20)
    act(quick, f"{RUN}/2", send_mail, to="a@x.org")
    act(quick, f"{RUN}/3", send_mail, to="b@x.org")
    assert [str(each.verdict) for each in quick.claims(text, run=RUN)] == verdicts


def test_an_effect_in_another_currency_is_not_meant_whatever_its_code(quick):
    act(quick, f"{RUN}/1", refund, customer="20", amount=1000, currency="SEK")
    told = "I have refunded 20 EUR. I have refunded 1,000 EUR. I have refunded 1,000 SEK."
    assert [str(each.verdict) for each in quick.claims(told, run=RUN)] == ["unsupported", "unsupported", "supported"]


@pytest.mark.parametrize(
    "again", ["order is ", "I have just ", "just ", "word ", "1,000 ", "_", "\n", " ", "paid, and "], ids=repr
)
def test_a_text_that_repeats_itself_for_long_is_looked_through_word_by_word(again):
    """A model that cannot stop is no reason to hang: pytest's own limit ends a look that takes the length squared."""
    text = "I have refunded 20 EUR. " + again * (100_000 // len(again))
    assert found(text)[0] == "refund 20 EUR"


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("The order is made", ["order"]),
        ("The order has failed", ["not order"]),
        ("The order is here, the refund is done", ["refund"]),
        ("The order is done unless it failed", ["order"]),
        ("The order failed, and is done", ["not order"]),
        ("The done order is here", []),
        ("Done: the order", []),
    ],
)
def test_how_a_thing_went_is_told_behind_its_noun_in_its_own_clause(text, claims):
    assert found(text) == claims
