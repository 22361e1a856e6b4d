"""Rows of approvals in a store: two at once count once, retention leaves what waits, and none has a secret."""

from __future__ import annotations

import json
import threading

import pytest
from tests.rooms.ledger import digest_of

from settlemark import Approval, Payloads, UsageError, effect
from settlemark.hosting import host_of
from settlemark.ledger import Book

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

HOUR, DAY = 3_600.0, 86_400.0


def payment(paid, **terms):
    @effect("irreversible", scope="account:/{account}", approve=Approval(**terms))
    def pay(account, card=""):
        paid.append(account)

    return pay


def put_aside(settlement, tool, name="case-7", **given):
    settlement.run(name, lambda tx: tx.call(tool, **{"account": "ada", **given}))
    return next(one for one in settlement.approvals() if one.transaction == name)


def entries(settlement, kind="approval"):
    """The versions of the questions on record."""

    def find(book: Book):
        return [entry for entry in book.entries.chain("case-7").entries if entry.kind == kind]

    return host_of(settlement).ledger.read(find)


def test_of_many_who_answer_at_once_each_counts_once_and_the_call_happens_once(url, open_here):
    paid, told = [], []
    pay = payment(paid, quorum=3)
    first = open_here(url)
    desks = [first] if url == "memory:" else [first, open_here(url)]
    asked = put_aside(first, pay)
    go = threading.Barrier(6)

    def answer(number):
        go.wait()
        desk, who = desks[number % len(desks)], f"person {number % 3}"
        told.extend(desk.approve(asked, by=who).news for _ in range(2))

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (paid, sorted(told)) == (["ada"], [False] * 9 + [True] * 3)
    last = json.loads(entries(first)[-1].body)["answers"]
    assert sorted(vote["by"] for vote in last) == ["person 0", "person 1", "person 2"]
    assert first.audit("case-7").intact


def test_of_a_yes_and_a_no_at_once_one_counts_and_the_other_is_told_so(url, open_here):
    paid, told = [], []
    first = open_here(url)
    other = first if url == "memory:" else open_here(url)
    asked = put_aside(first, payment(paid))
    go = threading.Barrier(2)

    def say(answer):
        go.wait()
        try:
            told.append(answer().decision)
        except UsageError as refused:
            told.append("refused" if "was answered already" in str(refused) else str(refused))

    answers = (
        lambda: first.approve(asked, by="ada"),
        lambda: other.reject(asked, by="bo", because="too dear"),
    )
    threads = [threading.Thread(target=say, args=(answer,)) for answer in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) in (["approve", "refused"], ["refused", "reject"])
    assert paid == (["ada"] if "approve" in told else [])


def test_retention_leaves_a_question_that_waits_and_takes_it_when_it_is_over(url, open_here, clock):
    settlement = open_here(url)
    asked = put_aside(settlement, payment([], by="ada"))
    clock.advance(400 * DAY)
    settlement.prune(30, keys=60)
    with pytest.raises(UsageError, match="eve is none of those who may answer: ada"):
        settlement.approve(asked, by="eve")
    settlement.approve(asked, by="ada")
    clock.advance(31 * DAY)
    settlement.prune(30, keys=60)
    assert "ada" not in "".join(entry.body for entry in entries(settlement))
    clock.advance(60 * DAY)
    settlement.prune(30, keys=60)
    assert entries(settlement) == []


def test_what_is_redacted_is_in_no_row_and_the_digest_is_of_what_is_shown(url, open_here):
    settlement = open_here(url, payloads=Payloads(redact=["card"]))
    asked = put_aside(settlement, payment([]), card="4111-1111")
    assert asked.arguments["card"] != "4111-1111"
    assert settlement.approve(asked, by="ada", seen=asked.approval.digest).news
    assert "4111" not in "".join(entry.body for entry in entries(settlement))


def people_who_give(*given):
    """An approver whose people answer one after the other, each with a card and an account of their own."""
    people = iter(given)

    def ask(_gate):
        by, card = next(people)
        return {"decision": "edit", "arguments": {"account": "ada", "card": card}, "by": by}

    return ask


def test_no_digest_on_record_is_one_of_arguments_that_are_redacted(url, open_here):
    paid, given = [], {"account": "ada", "card": "5500-0000"}
    settlement = open_here(url, payloads=Payloads(redact=["card"]))
    pay = payment(paid, by=("ada", "bo"), quorum=2)
    settlement.run(
        "case-7",
        lambda tx: tx.call(pay, account="ada", card="4111-1111"),
        approver=people_who_give(("ada", "5500-0000"), ("bo", "5500-0000")),
    )
    on_record = "".join(entry.body for entry in entries(settlement))
    assert (digest_of(given) in on_record, "5500" in on_record, paid) == (False, False, ["ada"])


def test_yeses_to_different_redacted_arguments_are_not_added_up(url, open_here):
    cards = []

    @effect("irreversible", scope="account:/{account}", approve=Approval(quorum=2))
    def pay(account, card):
        cards.append(card)

    settlement = open_here(url, payloads=Payloads(redact=["card"]))
    settlement.run(
        "case-7",
        lambda tx: tx.call(pay, account="ada", card="4111"),
        approver=people_who_give(("ada", "5500"), ("bo", "6011"), ("cy", "6011")),
    )
    assert cards == ["6011"]


def test_what_a_person_writes_is_without_the_secrets_of_the_call(url, open_here):
    settlement = open_here(url, payloads=Payloads(redact=["card"]))
    asked = put_aside(settlement, payment([]), card="4111-1111")
    settlement.reject(asked, by="ada", because="4111-1111 is blocked")
    assert "4111" not in "".join(entry.body for entry in entries(settlement))


def test_a_notice_is_kept_as_long_as_what_it_tells_of(url, open_here, clock):
    class Board:
        name = "board"

        def tell(self, notice):
            raise ConnectionError

    settlement = open_here(url, channels=[Board()])
    asked = put_aside(settlement, payment([]))
    settlement.recover()
    settlement.approve(asked, by="ada")
    clock.advance(HOUR)
    settlement.recover()
    assert entries(settlement, "notice")[-1].state == "dropped"
    clock.advance(31 * DAY)
    settlement.prune(30)
    assert "account" not in "".join(entry.body for entry in entries(settlement, "notice"))
