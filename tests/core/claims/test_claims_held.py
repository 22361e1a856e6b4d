"""What an agent says has come about is held against its effects: their keys, arguments and outcomes."""

from __future__ import annotations

import asyncio

import pytest

from settlemark import Claim, ClaimCheck, InDoubt, Payloads, ScopeError, Unfounded, UsageError, effect

pytestmark = pytest.mark.own_time

RUN = "case-7"


@effect("irreversible", scope="customer:/{customer}")
def refund(customer, amount, currency="EUR"):
    if amount < 0:
        raise ValueError("no such amount")
    return {"id": f"r-{amount}"}


@effect("reversible", scope="room:/{room}", undo=lambda room: None)
def book_room(room):
    return {"room": room}


@effect("opaque", scope="bank:/{account}")
def wire(account, amount):
    raise TimeoutError


@effect("opaque", scope="desk:/{customer}")
def pay(customer, amount):
    if amount < 0:
        raise ValueError("no such amount")
    return "paid"


def act(settlement, name, tool, **given):
    with settlement.transaction(name) as tx:
        tx.call(tool, **given)


def held(settlement, said, **options):
    options.setdefault("run", RUN)
    return [(str(each.verdict), str(each.ground), len(each.keys)) for each in settlement.claims(said, **options)]


@pytest.mark.every_store
def test_a_claim_is_supported_by_an_effect_that_has_happened(settlement):
    act(settlement, f"{RUN}/1", refund, customer="7", amount=20)
    (found,) = settlement.claims("I have refunded 20 EUR.", run=RUN)
    assert (found.stands, found.keys) == (True, (settlement.transactions()[0].effects[0].row.key,))
    assert held(settlement, "Your refund of €20.00 was processed.") == [("supported", "on_record", 1)]


@pytest.mark.every_store
def test_a_claim_of_other_arguments_or_of_what_was_never_called_is_unsupported(settlement):
    act(settlement, f"{RUN}/1", refund, customer="7", amount=20)
    assert held(settlement, "I refunded 50 EUR.") == [("unsupported", "other_arguments", 1)]
    assert held(settlement, "I refunded 20 USD.") == [("unsupported", "other_arguments", 1)]
    assert held(settlement, "I have cancelled the room.") == [("unsupported", "not_on_record", 0)]


def test_a_tool_that_takes_back_what_its_name_says_bears_out_no_claim_that_it_was_done(quick):
    @effect("opaque", scope="refund:/{customer}")
    def reject_refund(customer, amount):
        return "rejected"

    act(quick, f"{RUN}/1", reject_refund, customer="7", amount=20)
    assert held(quick, "I have refunded 20 EUR.") == [("unsupported", "not_on_record", 0)]
    assert held(quick, "I rejected the refund.") == [("supported", "on_record", 1)]


def test_the_effects_of_another_run_do_not_count_unless_all_do(quick):
    act(quick, "case-8/1", refund, customer="8", amount=20)
    assert held(quick, "I have refunded 20 EUR.") == [("unsupported", "not_on_record", 0)]
    assert held(quick, "I have refunded 20 EUR.", run=None) == [("supported", "on_record", 1)]


@pytest.mark.every_store
def test_what_is_in_doubt_is_not_known_either_way(settlement):
    with settlement.transaction(f"{RUN}/1") as tx, pytest.raises(InDoubt):
        tx.call(wire, account="ops", amount=20)
    told = "I have wired 20 EUR. I did not wire 20 EUR."
    assert held(settlement, told) == [("unsupported", "in_doubt", 1)] * 2


@pytest.mark.every_store
def test_what_has_not_left_yet_has_not_happened(settlement):
    with settlement.transaction(f"{RUN}/1") as tx:
        tx.call(refund, customer="7", amount=20)
        assert held(settlement, "I have refunded 20 EUR.") == [("unsupported", "not_yet", 1)]
    assert held(settlement, "I have refunded 20 EUR.") == [("supported", "on_record", 1)]


@pytest.mark.every_store
def test_what_was_undone_contradicts_and_what_happened_contradicts_that_it_did_not(settlement):
    with pytest.raises(LookupError), settlement.transaction(f"{RUN}/1") as tx:
        tx.call(book_room, room="Ada")
        raise LookupError
    act(settlement, f"{RUN}/2", refund, customer="7", amount=20)
    assert held(settlement, "The room is booked.") == [("contradicted", "did_not_happen", 1)]
    assert held(settlement, "I could not book the room.") == [("supported", "did_not_happen", 1)]
    assert held(settlement, "The refund failed.") == [("contradicted", "happened", 1)]


def test_one_that_is_retried_until_it_happened_is_supported(quick):
    for fails in (True, False):
        try:
            with quick.transaction(f"{RUN}/1") as tx:
                tx.call(book_room, room="Ada")
                if fails:
                    raise LookupError
        except LookupError:
            pass
    assert held(quick, "I booked it.") == [("supported", "on_record", 1)]


def test_what_a_person_has_mended_by_hand_bears_nothing_out(quick):
    @effect("opaque", scope="desk:/{what}")
    def order(what):
        return what

    with pytest.raises(LookupError), quick.transaction(f"{RUN}/1") as tx:
        tx.call(order, what="tea")
        raise LookupError
    assert held(quick, "I ordered it. It was not ordered.") == [
        ("supported", "on_record", 1),
        ("contradicted", "happened", 1),
    ]
    quick.resolve(quick.residue()[0], "dealt_with", by="ada", note="sent it back")
    assert held(quick, "I ordered it. It was not ordered.") == [("unsupported", "by_hand", 1)] * 2


def test_claims_are_given_as_data_and_each_part_has_to_fit(quick):
    act(quick, f"{RUN}/1", refund, customer="7", amount=20)
    act(quick, f"{RUN}/2", refund, customer="8", amount=20)
    key = quick.transactions()[0].effects[0].row.key
    rows = [
        (Claim("a", tool="refund", matching={"customer": "7", "amount": "20"}), ("supported", "on_record", 1)),
        (Claim("b", tool="refund", matching={"id": "r-20"}), ("supported", "on_record", 2)),
        (Claim("c", tool="refund", matching={"customer": "9"}), ("unsupported", "other_arguments", 2)),
        (Claim("d", key=key, matching={"customer": "9"}), ("contradicted", "other_arguments", 1)),
        (Claim("e", key="nobody#1/0"), ("unsupported", "not_on_record", 0)),
        (Claim("f", scope="customer:/8"), ("supported", "on_record", 1)),
        (Claim("g", tool="refund", times=2), ("supported", "on_record", 2)),
        (Claim("h", tool="refund", times=3), ("contradicted", "too_few", 2)),
        (
            Claim("i", tool="refund", says="did_not_happen", matching={"customer": "9"}),
            ("supported", "not_on_record", 0),
        ),
        ("The sky is blue.", ("unsupported", "names_nothing", 0)),
    ]
    assert held(quick, [claim for claim, _ in rows]) == [found for _, found in rows]


# ---- what the record hides


OBSCURED = ("unsupported", "obscured", 1)


@pytest.mark.every_store
def test_what_is_redacted_bears_out_neither_that_it_happened_nor_that_it_did_not(open_here, url):
    settlement = open_here(url, payloads=Payloads(redact=["amount"]))
    act(settlement, f"{RUN}/1", pay, customer="7", amount=20)
    assert held(settlement, "I have paid 20 EUR. I have not paid 20 EUR.") == [OBSCURED] * 2
    assert held(settlement, "I have paid it. I have not paid it.") == [
        ("supported", "on_record", 1),
        ("contradicted", "happened", 1),
    ]


@pytest.mark.every_store
def test_what_is_pruned_bears_out_neither_that_it_happened_nor_that_it_did_not_nor_where(settlement, clock):
    act(settlement, f"{RUN}/1", pay, customer="7", amount=20)
    clock.advance(60)
    settlement.prune(0)
    assert held(settlement, "I have paid 20 EUR. I have not paid 20 EUR.") == [OBSCURED] * 2
    for says in ("happened", "did_not_happen"):
        assert held(settlement, [Claim("there", tool="pay", scope="desk:/7", says=says)]) == [OBSCURED]


def test_what_can_be_read_tells_it_from_another_effect_whatever_else_is_redacted(open_here):
    settlement = open_here(payloads=Payloads(redact=["amount"]))
    act(settlement, f"{RUN}/1", pay, customer="7", amount=20)
    claims = [
        Claim("another customer", tool="pay", matching={"customer": "8"}, says="did_not_happen"),
        Claim("the same one", tool="pay", matching={"customer": "7", "amount": 50}, says="did_not_happen"),
        Claim("elsewhere", tool="pay", scope="desk:/8", mentions=("20",), says="did_not_happen"),
        Claim("another tool", tool="refund", mentions=("20",), says="did_not_happen"),
    ]
    borne_out = ("supported", "not_on_record", 0)
    assert held(settlement, claims) == [borne_out, OBSCURED, borne_out, borne_out]


def test_a_claim_is_not_contradicted_while_what_is_redacted_may_bear_it_out(open_here):
    settlement = open_here(payloads=Payloads(redact=lambda tool, path, value: None if value == 50 else value))
    with pytest.raises(ValueError, match="no such"):
        act(settlement, f"{RUN}/1", pay, customer="7", amount=-20)
    assert held(settlement, "I have paid -20 EUR.") == [("contradicted", "did_not_happen", 1)]
    act(settlement, f"{RUN}/2", pay, customer="7", amount=50)
    assert held(settlement, "I have paid -20 EUR. I have paid it twice.") == [OBSCURED, ("contradicted", "too_few", 1)]


# ---- before it is said


def test_before_say_stops_what_is_not_borne_out_and_names_it(quick):
    act(quick, f"{RUN}/1", refund, customer="7", amount=20)
    asked = []

    def before_say(wrong):
        asked.append([each.claim.text for each in wrong])
        return "say it otherwise"

    assert quick.claims("I have refunded 20 EUR.", run=RUN, before_say=before_say)[0].stands
    with pytest.raises(Unfounded, match="say it otherwise") as refused:
        quick.claims("I have refunded 20 EUR. I have refunded 30 EUR.", run=RUN, before_say=before_say)
    assert [str(each.ground) for each in refused.value.claims] == ["other_arguments"]
    assert (refused.value.run, asked) == (RUN, [["I have refunded 30 EUR."]])


@pytest.mark.parametrize("answer", [None, True])
def test_before_say_may_let_it_be_said(quick, answer):
    assert held(quick, "I have refunded 20 EUR.", before_say=lambda wrong: answer) == [
        ("unsupported", "not_on_record", 0)
    ]


@pytest.mark.every_store
def test_a_tool_that_says_something_says_nothing_that_the_record_does_not_bear_out(settlement):
    sent = []
    claims = ClaimCheck(settlement)

    @effect("irreversible", scope="mail:/{to}", check=claims.guard("body"))
    def write(to, body):
        sent.append(body)

    text = "I have refunded 20 EUR."
    with settlement.transaction(f"{RUN}/1") as tx:
        with pytest.raises(Unfounded, match="nothing was sent"):
            tx.call(write, to="ada", body=text)
        tx.call(refund, customer="7", amount=20)
        with pytest.raises(Unfounded) as refused:  # it is held, and may fail
            tx.call(write, to="ada", body=text)
        assert [str(each.ground) for each in refused.value.claims] == ["not_yet"]
    act(settlement, f"{RUN}/2", write, to="ada", body=text)
    assert sent == [text]
    assert [effect.row.tool for each in settlement.transactions() for effect in each.effects] == ["refund", "write"]


async def test_a_callers_extractor_and_before_say_may_be_async(quick):
    async def extract(text):
        await asyncio.sleep(0)
        return [Claim(text, tool="refund"), "in words alone"]

    async def before_say(wrong):
        await asyncio.sleep(0)
        return len(wrong) < 2

    with pytest.raises(Unfounded):
        await quick.aclaims("done", run=RUN, extract=extract, before_say=before_say)
    async with quick.transaction(f"{RUN}/1") as tx:
        await tx.call(refund, customer="7", amount=20)
    found = await quick.aclaims("done", run=RUN, extract=extract, before_say=before_say)
    assert [each.stands for each in found] == [True, False]
    with pytest.raises(Unfounded):
        await ClaimCheck(quick, extract).ahold("done", run=RUN)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"said": 7}, UsageError),
        ({"said": Claim("alone")}, UsageError),
        ({"said": [7]}, UsageError),
        ({"said": [Claim(" ")]}, UsageError),
        ({"said": [Claim("a", says="maybe")]}, UsageError),
        ({"said": [Claim("a", times=0)]}, UsageError),
        ({"said": [Claim("a", matching=["amount"])]}, UsageError),
        ({"said": [Claim("a", mentions="20")]}, UsageError),
        ({"said": [Claim("a", scope="no scope")]}, ScopeError),
        ({"said": [Claim("a", tool="x" * 300)]}, UsageError),
        ({"said": "a", "run": ""}, UsageError),
        ({"said": "a", "extract": 7}, UsageError),
        ({"said": "a", "extract": lambda text: text}, UsageError),
        ({"said": "a", "extract": lambda text: None}, UsageError),
        ({"said": "a", "before_say": True}, UsageError),
    ],
)
def test_what_is_no_claim_is_refused_and_nothing_is_recorded(quick, given, error):
    with pytest.raises(error):
        quick.claims(**given)
    assert quick.transactions() == []


def test_a_check_that_is_given_no_function_or_no_text_is_refused(quick):
    for wrong in ({"extract": 7}, {"before_say": 7}):
        with pytest.raises(UsageError):
            ClaimCheck(quick, **wrong)
    with pytest.raises(UsageError):
        ClaimCheck(quick).hold(7)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I've refunded 20 EUR and sent the mail to ada@x.example.", [("refund", "20 EUR"), ("send", "ada@x.example")]),
        ("We refunded 20 EUR and 5 USD.", [("refund", "20 EUR"), ("refund", "5 USD")]),
        ("The booking was confirmed, but your payment failed.", [("book", ""), ("not pay", "")]),
        ("I did not cancel it; it hasn't been paid.", [("not cancel", ""), ("not pay", "")]),
        ("I will refund it. I have to cancel. Have I booked it?", []),
        ("If it was paid, tell me. Once it is booked, I'll write. You booked it.", []),
    ],
)
def test_what_the_rules_for_english_take_for_a_statement_of_an_outcome(text, found):
    told = [
        (f"{'not ' * (claim.says == 'did_not_happen')}{claim.verb}", " ".join(claim.mentions))
        for claim in ClaimCheck.outcomes(text)
    ]
    assert told == found
