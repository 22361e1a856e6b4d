"""No text stands for another one in a header: an encoded word would be read, and written, as what it encodes."""

from __future__ import annotations

import email
import email.policy
import inspect

import pytest
from tests.rooms.adapters import one_address, one_line

from settlemark import ScopeError, Settlement
from settlemark.hosting import Notice
from settlemark.testing import Mailbox
from settlemark_adapters.channels import MailChannel
from settlemark_adapters.mail import Mail

WORDS = [
    "=?utf-8?q?Hi=0D=0ABcc:_eve@b.example=0D=0A=0D=0Aanother_text?=",
    "=?utf-8?q?=0AX?=",
    "=?us-ascii?b?CkJjYzogeEB5?=",
    "=?utf-8*en?q?=0Ax?=",
    "before =?utf-8?q?a_harmless_text?= and behind",
    "in=?UTF-8?Q?=0A?=side",
]
LETTER = {"to": "ada@b.example", "subject": "Booked", "body": "Room 7", "reply_to": "desk@hotel.example"}
ADDRESS = "=?utf-8?q?=0ABcc=3A_eve?=@b.example"
ARGUMENTS = {
    "subject": WORDS,
    "to": [ADDRESS],
    "cc": [ADDRESS],
    "bcc": [ADDRESS],
    "reply_to": [ADDRESS],
}
TRIED = [(argument, text) for argument, texts in ARGUMENTS.items() for text in texts]
IN_NO_HEADER = {"body", "html"}


@pytest.fixture(scope="module")
def box():
    with Mailbox() as opened:
        yield opened


def test_every_argument_of_a_mail_is_tried_here():
    taken = set(inspect.signature(Mail("localhost", sender="desk@hotel.example").send).parameters)
    assert taken - IN_NO_HEADER == set(ARGUMENTS)


@pytest.mark.parametrize(("argument", "text"), TRIED)
def test_a_header_takes_no_encoded_word_and_nothing_is_sent(box, argument, text):
    with Settlement("memory:") as settlement:
        mail = Mail(box.host, box.port, settlement, sender="desk@hotel.example", local_hostname="localhost")
        given = LETTER | {argument: text}
        with pytest.raises((ValueError, ScopeError), match="encoded word"), settlement.transaction("trip") as tx:
            tx.call(mail.send, **given)
        with pytest.raises(ValueError, match="encoded word"):
            mail.send(**given)
        assert (box.messages(), settlement.transactions()) == ([], [])


@pytest.mark.parametrize("text", WORDS)
def test_nor_does_who_it_is_from(text):
    with pytest.raises(ValueError, match="sender= has an encoded word"):
        Mail("localhost", sender=f"{text} <desk@hotel.example>")


def test_nor_an_address_alone():
    with pytest.raises(ValueError, match="is no mail address"):
        one_address(ADDRESS)


@pytest.mark.parametrize("text", ["2 =? 3", "why?=", "=?", "a ?= b =? c"])
def test_what_is_none_is_taken_as_it_is(text):
    assert one_line("subject", text) == text


@pytest.mark.parametrize("text", WORDS)
def test_what_a_person_is_asked_is_told_as_it_is_and_in_its_own_header(text):
    channel = MailChannel("localhost", 25, sender="desk@hotel.example", people={"ada": "ada@b.example"})
    notice = Notice("n1", "asked", ("ada",), text, "Room 7", {}, 0.0)
    came = email.message_from_bytes(channel._letter(notice, "ada").as_bytes(), policy=email.policy.default)
    assert (came["Subject"], came["To"], came["Bcc"]) == (text.replace("=?", "= ?"), "ada@b.example", None)
    assert came.get_content().strip() == "Room 7"
