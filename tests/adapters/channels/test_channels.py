"""Whoever may answer hears of it by a signed webhook, or by mail with a link that answers once in his name."""

from __future__ import annotations

import base64
import re

import httpx
import pytest
from tests.unattended import unattended

from settlemark import Approval, Settlement, UsageError, effect
from settlemark.hosting import Notice, host_of
from settlemark.testing import Mailbox, VirtualClock
from settlemark_adapters.channels import MailChannel, NotTold, WebhookChannel
from settlemark_adapters.webhook import WebhookRejected, verify

SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes, or more").decode()
PEOPLE = {"ada": "ada@b.example", "bo": "bo@b.example"}
NOTICE = Notice("n1", "asked", ("ada",), "pay waits for a yes", "pay 5 EUR", {"key": "k"}, 0.0)


@pytest.fixture(scope="module")
def server():
    with Mailbox() as box:
        yield box


@pytest.fixture
def mailed(server):
    """The mails since the test began: to whom, and the text."""
    before = len(server.messages())
    return lambda: [(mail["to"], mail["body"]) for mail in server.messages()[before:]]


@pytest.fixture
def mail(server):
    return MailChannel(
        server.host,
        server.port,
        sender="desk@b.example",
        people=PEOPLE,
        roles={"board": ["bo"]},
        anyone=["ada"],
        link="https://desk.example/answer/{token}",
        local_hostname="localhost",
    )


@pytest.fixture
def paid():
    return []


def opened(url, channel):
    return unattended(Settlement(url, channels=[channel], **VirtualClock().options()))


def asked(settlement, paid, **terms):
    @effect("irreversible", scope="account:/{account}", approve=Approval(**terms))
    def pay(account):
        paid.append(account)

    settlement.run("case-7", lambda tx: tx.call(pay, account="ada"))
    settlement.recover()
    return settlement.approvals()[0]


def tokens(mails):
    return {to: re.search(r"answer/(\S+)", text)[1] for to, text in mails}


# ---- webhook


def test_a_notice_is_sent_signed_under_its_id(paid):
    came = []
    sink = httpx.MockTransport(lambda request: came.append(request) or httpx.Response(204))
    with opened(
        "memory:", WebhookChannel("https://chat.example/in?who=me", secret=SECRET, transport=sink)
    ) as settlement:
        question = asked(settlement, paid, by="ada")
        (row,) = settlement.approvals()[0].notices
    (request,) = came
    event = verify(request.headers, request.content, SECRET)
    assert (str(request.url), event.id, event.topic) == (
        "https://chat.example/in?who=me",
        row.notice.id,
        "approval.asked",
    )
    assert (event.payload["to"], event.payload["data"]["key"]) == (["ada"], question.key)
    assert (row.state, list(row.told)) == ("told", ["webhook"])
    with pytest.raises(WebhookRejected):
        verify(request.headers, request.content + b" ", SECRET)


@pytest.mark.parametrize("answer", [500, 302, 400, None])
def test_what_is_not_taken_is_sent_again_under_the_same_id_and_no_error_tells_the_address(answer, caplog, paid):
    ids = []

    def take(request):
        ids.append(request.headers["webhook-id"])
        if len(ids) > 1:
            return httpx.Response(200)
        if answer is None:
            raise httpx.ConnectError("secret-path is not there")
        return httpx.Response(answer, headers={"location": "https://evil.example"})

    channel = WebhookChannel("https://chat.example/secret-path", secret=SECRET, transport=httpx.MockTransport(take))
    with opened("memory:", channel) as settlement:
        asked(settlement, paid)
        assert settlement.approvals()[0].notices[0].left == ("webhook",)
        settlement._host.settings.injected.clock.advance(31)
        settlement.recover()
        assert settlement.approvals()[0].notices[0].left == ()
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert "chat.example" in caplog.text
    assert "secret-path" not in caplog.text


@pytest.mark.parametrize(
    ("url", "secret"), [("ftp://chat.example", SECRET), ("chat", SECRET), ("https://a.example", "x")]
)
def test_a_webhook_that_cannot_be_is_refused_when_it_is_made(url, secret):
    with pytest.raises(ValueError, match="a webhook goes to|no webhook secret"):
        WebhookChannel(url, secret=secret)


# ---- mail


def test_each_recipient_gets_a_link_of_his_own_which_answers_once_in_his_name(mail, mailed, paid):
    with opened("memory:", mail) as settlement:
        asked(settlement, paid, by=("ada", "role:board"), quorum=2)
        links = tokens(mailed())
        assert sorted(links) == ["ada@b.example", "bo@b.example"]
        first = settlement.redeem(links["ada@b.example"], "approve")
        again = settlement.redeem(links["ada@b.example"], "approve")
        assert [(done.news, done.more) for done in (first, again)] == [(True, 1), (False, 1)]
        with pytest.raises(UsageError, match="this link was used already, to approve; nothing was recorded"):
            settlement.redeem(links["ada@b.example"], "reject")
        (question,) = settlement.approvals()
        assert [(vote.by, vote.decision) for vote in question.approval.votes] == [("ada", "approve")]
        assert settlement.redeem(links["bo@b.example"], "approve").settled
        assert paid == ["ada"]
        entries = host_of(settlement).ledger.read(lambda book: book.entries.chain("case-7")).entries
    written = "".join(f"{entry.id}{entry.body}" for entry in entries)
    assert not any(token in written for token in links.values())


def test_a_link_says_no_or_yes_with_other_arguments_too(mail, mailed, paid):
    with opened("memory:", mail) as settlement:
        asked(settlement, paid)
        token = tokens(mailed())["ada@b.example"]
        assert settlement.redeem(token, "edit", arguments={"account": "bo"}).settled
    assert paid == ["bo"]


def test_a_link_of_nobody_answers_nothing(mail, mailed, paid):
    with opened("memory:", mail) as settlement:
        asked(settlement, paid)
        with pytest.raises(UsageError, match="this link answers nothing"):
            settlement.redeem("made-up", "approve")
        for wrong, options in (("perhaps", {}), ("edit", {}), ("approve", {"arguments": {}})):
            with pytest.raises(UsageError, match="is no answer"):
                settlement.redeem(tokens(mailed())["ada@b.example"], wrong, **options)
        assert settlement.approvals()[0].approval.votes == ()
    assert paid == []


def test_a_mail_that_is_sent_again_has_the_same_id_and_nobody_without_an_address_is_written_to(server, mail, mailed):
    for _ in range(2):
        mail.tell(NOTICE)
    mail.tell(Notice("n2", "asked", ("eve", "role:nobody"), "s", "t", {}, 0.0))
    assert [to for to, _ in mailed()] == ["ada@b.example"] * 2
    assert len({each["message_id"] for each in server.messages()[-2:]}) == 1


def test_a_subject_with_a_line_break_forges_no_header(server, mail):
    mail.tell(Notice("n3", "asked", ("ada",), "pay\r\nBcc: eve@b.example", "t", {}, 0.0))
    assert server.messages()[-1]["subject"] == "pay  Bcc: eve@b.example"


def test_a_server_that_is_not_there_is_told_of_without_what_was_to_be_said():
    gone = MailChannel("127.0.0.1", 1, sender="desk@b.example", people=PEOPLE, timeout=1)
    with pytest.raises(NotTold, match="127.0.0.1 did not take the mail: ConnectionRefusedError"):
        gone.tell(NOTICE)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"people": {"ada": "ada"}}, "no mail address"),
        ({"roles": {"board": ["cy"]}}, "'cy' has no address in people="),
        ({"anyone": ["cy"]}, "'cy' has no address in people="),
        ({"link": "https://desk.example"}, "has no {token}"),
        ({"host": "mail.example", "user": "u", "password": "p"}, "in clear"),
    ],
)
def test_a_channel_for_mail_that_cannot_be_is_refused_when_it_is_made(options, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        MailChannel(**{"host": "localhost", "port": 25, "sender": "desk@b.example", "people": PEOPLE, **options})
