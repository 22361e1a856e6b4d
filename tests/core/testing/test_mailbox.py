from __future__ import annotations

import importlib.util
import smtplib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import settlemark.testing
from settlemark.testing import Mailbox


@pytest.fixture(scope="module")
def running():
    pytest.importorskip("aiosmtpd")
    with Mailbox() as mailbox:
        yield mailbox


@pytest.fixture
def mailbox(running):
    running.reset()
    return running


def subjects(mailbox):
    return [message["subject"] for message in mailbox.messages()]


def test_an_accepted_message_is_logged_as_it_was_sent(mailbox):
    receipt = mailbox.send("ada@b.example", "Booked", "Room 7\nSee you", message_id="<trip-1@b.example>")

    assert receipt == {"to": "ada@b.example", "subject": "Booked", "message_id": "<trip-1@b.example>"}
    [message] = mailbox.messages()
    assert message == {
        "n": message["n"],
        "at": message["at"],
        "from": "agent@settlemark.example",
        "to": "ada@b.example",
        "subject": "Booked",
        "message_id": "<trip-1@b.example>",
        "body": "Room 7\nSee you",
    }


@pytest.mark.parametrize("text", ["Zürich ✈", "x" * 3000, "", ".", "a\n.\nb\n\n", "From me"])
def test_any_text_arrives_whole(mailbox, text):
    mailbox.send("ada@b.example", "s", text)

    assert [message["body"] for message in mailbox.messages()] == [text.removesuffix("\n")]


def test_any_subject_arrives_whole(mailbox):
    for subject in ["Zürich ✈", "word " * 60 + "end"]:
        mailbox.send("ada@b.example", subject, "b")

    assert subjects(mailbox) == ["Zürich ✈", "word " * 60 + "end"]


@pytest.mark.parametrize("message_id", ["<trip-1@b.example>", "trip-1/3", f"<{'x' * 200}@b.example>"])
def test_the_message_id_arrives_as_it_was_given(mailbox, message_id):
    receipt = mailbox.send("ada@b.example", "s", "b", message_id=message_id)

    assert receipt["message_id"] == mailbox.messages()[0]["message_id"] == message_id


def test_every_named_recipient_is_addressed(mailbox):
    mailbox.send("Ada <ada@b.example>, bob@b.example", "s", "b")

    assert [message["to"] for message in mailbox.messages()] == ["ada@b.example, bob@b.example"]


def test_without_a_message_id_each_message_gets_its_own(mailbox):
    receipts = [mailbox.send("ada@b.example", "s", "b") for _ in range(2)]

    ids = [message["message_id"] for message in mailbox.messages()]
    assert ids == [receipt["message_id"] for receipt in receipts]
    assert len(set(ids)) == 2


def test_a_header_cannot_be_smuggled_in_and_nothing_is_sent(mailbox):
    with pytest.raises(ValueError, match="linefeed"):
        mailbox.send("ada@b.example", "Booked\nBcc: eve@b.example", "b")

    assert mailbox.messages() == []


@pytest.mark.parametrize(("how", "code"), [("transient", 451), ("permanent", 554)])
def test_a_rejected_message_is_not_accepted(mailbox, how, code):
    mailbox.fail(how, times=2)
    for _ in range(2):
        with pytest.raises(smtplib.SMTPDataError) as refused:
            mailbox.send("ada@b.example", "no", "b")
        assert refused.value.smtp_code == code
    assert mailbox.messages() == []

    mailbox.send("ada@b.example", "yes", "b")
    assert subjects(mailbox) == ["yes"]


def test_a_lost_acknowledgement_leaves_the_message_accepted(mailbox):
    mailbox.fail("lost")

    with pytest.raises(ConnectionError, match="look for its message id"):
        mailbox.send("ada@b.example", "s", "b", message_id="<1@b.example>")

    assert [message["message_id"] for message in mailbox.messages()] == ["<1@b.example>"]


def test_smtp_has_no_memory_so_a_blind_retry_arrives_twice(mailbox):
    for _ in range(2):
        mailbox.send("ada@b.example", "s", "b", message_id="<1@b.example>")

    assert [message["message_id"] for message in mailbox.messages()] == ["<1@b.example>"] * 2


def test_faults_are_used_up_in_order_and_healed(mailbox):
    mailbox.fail("transient")
    mailbox.fail("permanent", times=-1)
    codes = []
    for _ in range(3):
        with pytest.raises(smtplib.SMTPDataError) as refused:
            mailbox.send("ada@b.example", "s", "b")
        codes.append(refused.value.smtp_code)
    mailbox.heal()
    mailbox.send("ada@b.example", "s", "b")

    assert codes == [451, 554, 554]
    assert subjects(mailbox) == ["s"]


def test_an_unknown_fault_is_refused_and_nothing_fails(mailbox):
    with pytest.raises(ValueError, match="transient, permanent, lost"):
        mailbox.fail("sometimes")

    mailbox.send("ada@b.example", "s", "b")
    assert subjects(mailbox) == ["s"]


def test_a_reset_clears_messages_and_faults_but_not_the_file(mailbox):
    mailbox.send("ada@b.example", "old", "b")
    mailbox.fail("permanent", times=-1)
    lines = Path(mailbox.log_path).read_text().splitlines()

    mailbox.reset()

    assert mailbox.messages() == []
    assert Path(mailbox.log_path).read_text().splitlines()[: len(lines)] == lines
    mailbox.send("ada@b.example", "new", "b")
    assert subjects(mailbox) == ["new"]


def test_many_threads_share_one_mailbox(mailbox):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: mailbox.send("ada@b.example", str(n), "b"), range(40)))

    assert sorted(subjects(mailbox), key=int) == [str(n) for n in range(40)]


def test_any_mailer_may_use_it(mailbox):
    with smtplib.SMTP(mailbox.host, mailbox.port, local_hostname="localhost", timeout=10) as server:
        server.sendmail("me@b.example", ["ada@b.example", "bob@b.example"], b"no headers at all")

    [message] = mailbox.messages()
    assert (message["from"], message["to"]) == ("me@b.example", "ada@b.example, bob@b.example")


def test_a_connected_mailbox_sends_and_reads_but_leaves_faults_to_its_starter(mailbox):
    with Mailbox.connect(**mailbox.address) as other:
        other.send("ada@b.example", "s", "b")
        with pytest.raises(RuntimeError, match="ask the process that started it"):
            other.fail("lost")

    assert other.messages() == mailbox.messages()
    assert subjects(mailbox) == ["s"]
    mailbox.send("ada@b.example", "still there", "b")


def test_a_missing_aiosmtpd_is_told_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ImportError, match=r'pip install "settlemark\[demo\]"') as missing:
        Mailbox()

    assert missing.value.name == "aiosmtpd"


def test_importing_the_testing_tools_does_not_import_aiosmtpd():
    program = "import sys, settlemark.testing; sys.exit('aiosmtpd' in sys.modules)"
    root = str(Path(settlemark.testing.__file__).parents[2])

    assert subprocess.run([sys.executable, "-c", program], check=False, env={"PYTHONPATH": root}).returncode == 0
