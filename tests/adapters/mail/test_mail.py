"""A mail leaves when its step settles: to all of its recipients or to none, and never twice."""

from __future__ import annotations

import datetime as dt
import logging
import pickle
import socket
import ssl
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.mail.server import PASSWORD, USER, PostOffice
from tests.adapters.mail.subject import make
from tests.rooms.adapters import one_address, one_line, suppressed_among

from settlemark import UNKNOWN, Halted, InDoubt, PartialCommit, Refused, ScopeError, Settlement, current_call
from settlemark.testing import Mailbox, die, in_child
from settlemark_adapters.mail import Mail, MailLost, MailRefused, MailUnreachable, SuppressedRecipient

ADA, BOB, EVE = "ada@b.example", "bob@b.example", "eve@b.example"
LETTER = {"to": [ADA, BOB], "subject": "Booked", "body": "Room 7"}
NO = "550 5.1.1 no such user"
LATER = "450 4.7.1 greylisted"


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_box():
    with Mailbox() as box:
        yield box


@pytest.fixture
def box(shared_box):
    shared_box.reset()
    return shared_box


@pytest.fixture
def office(tmp_path):
    opened = PostOffice(tmp_path / "log.jsonl")
    yield opened
    opened.close()


def mail_to(server, settlement=None, **options):
    options = {"sender": "Desk <desk@hotel.example>", "local_hostname": "localhost"} | options
    return Mail(server.host, server.port, settlement, **options)


def finds(office):
    def find(message_id):
        return next((m["to"] for m in office.mails() if ["Message-ID", message_id] in m["headers"]), None)

    return find


def sent(box):
    return [(mail["to"], mail["subject"], mail["body"]) for mail in box.messages()]


# ---- gated


def test_it_leaves_when_its_step_settles_and_not_before(box, settlement):
    mail = mail_to(box, settlement)
    with settlement.transaction("trip") as tx:
        queued = tx.call(mail.send, **LETTER)
        assert (queued.outcome, sent(box)) == ("queued", [])
    assert sent(box) == [(f"{ADA}, {BOB}", "Booked", "Room 7")]
    assert queued.result() == {"message_id": mail.message_id("trip#1/0"), "accepted": [ADA, BOB], "refused": {}}
    assert settlement.residue() == []


def test_of_a_step_that_fails_nothing_leaves(box, settlement):
    mail = mail_to(box, settlement)
    with pytest.raises(RuntimeError), settlement.transaction("trip") as tx:
        tx.call(mail.send, **LETTER)
        raise RuntimeError
    assert (sent(box), settlement.residue()) == ([], [])


def test_it_acts_on_the_address_of_each_recipient(settlement, box):
    mail = mail_to(box, settlement)
    with settlement.transaction("trip") as tx:
        tx.call(mail.send, to="Ada@B.Example", cc=["ada@b.example"], bcc=["o'neil/x@b.example"], subject="", body="")
    (effect,) = settlement.transactions()[0].effects
    assert effect.row.scope == "mail:/Ada@b.example mail:/ada@b.example mail:/o'neil%2Fx@b.example"


@pytest.mark.parametrize("spelled", ["ada@b.example", "ADA@B.EXAMPLE", "aDa@b.Example"])
def test_one_mailbox_is_one_resource_in_whatever_case_it_is_written(box, settlement, spelled):
    settlement.halt("mail:/ada@b.example", by="eve", because="she asked for it")
    with pytest.raises(Halted), settlement.transaction("trip") as tx:
        tx.call(mail_to(box, settlement).send, **(LETTER | {"to": spelled}))
    assert sent(box) == []


def test_what_is_written_arrives_and_nobody_sees_who_got_a_blind_copy(office, settlement):
    mail = mail_to(office, settlement)
    with settlement.transaction("trip") as tx:
        tx.call(
            mail.send,
            to=ADA,
            cc=[BOB],
            bcc=[EVE, ADA],
            subject="Zimmer für zwei — 7",
            body="From here\n.\nto ß\n",
            html="<p>7</p>",
            reply_to="answers@hotel.example",
        )
    (got,) = office.mails()
    headers = dict(got.pop("headers"))
    assert headers.pop("Content-Type").startswith("multipart/alternative")
    assert headers == {
        "From": "Desk <desk@hotel.example>", "To": ADA, "Cc": BOB, "Reply-To": "answers@hotel.example",
        "Subject": "Zimmer für zwei — 7", "Message-ID": mail.message_id("trip#1/0"), "MIME-Version": "1.0",
    }  # fmt: skip # a table
    assert got == {
        "event": "mail",
        "to": [ADA, BOB, EVE],
        "from": "desk@hotel.example",
        "user": None,
        "tls": False,
        "parts": [["text/plain", "From here\n.\nto ß\n"], ["text/html", "<p>7</p>\n"]],
    }


# ---- the Message-ID is the decision's


def test_the_message_id_is_the_decisions_and_another_decisions_is_another():
    mail = Mail("localhost", sender="desk@hotel.example")
    ids = [mail.message_id(key) for key in ("trip#1/0", "trip#1/0", "trip#2/0", "trip#1/1")]
    assert len(set(ids)) == 3
    assert ids[0] == ids[1]
    assert all(found.startswith("<") and found.endswith("@hotel.example>") for found in ids)


def test_an_answer_that_is_lost_is_asked_for_by_its_message_id_and_nothing_leaves_twice(box, settlement):
    mail = make(settlement, box)
    box.fail("lost")
    with settlement.transaction("trip") as tx:
        queued = tx.call(mail.send, **LETTER)
    assert sent(box) == [(f"{ADA}, {BOB}", "Booked", "Room 7")]
    assert queued.result() == {"message_id": mail.message_id("trip#1/0"), "accepted": [ADA, BOB], "refused": {}}
    assert settlement.residue() == []


def test_so_is_one_that_does_not_come_in_time(office, settlement):
    mail = mail_to(office, settlement, find=finds(office), timeout=0.5)
    office.told(hang=True)
    with settlement.transaction("trip") as tx:
        tx.call(mail.send, **LETTER)
    assert ([m["to"] for m in office.mails()], settlement.residue()) == ([[ADA, BOB]], [])


def test_without_anybody_to_ask_it_stays_in_doubt_and_is_not_repeated(box, settlement):
    mail = mail_to(box, settlement)
    box.fail("lost")
    with pytest.raises(InDoubt, match="look there for <"), settlement.transaction("trip") as tx:
        tx.call(mail.send, **LETTER)
    assert sent(box) == [(f"{ADA}, {BOB}", "Booked", "Room 7")]
    assert [doubt.key for doubt in settlement.in_doubt()] == ["trip#1/0"]


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (True, {"message_id": "<1>", "accepted": [ADA, BOB], "refused": {}}),
        ([BOB.upper()], {"message_id": "<1>", "accepted": [BOB], "refused": {ADA: "it was not sent to them"}}),
        (None, None),
        (False, None),
        ([], None),
        (UNKNOWN, UNKNOWN),
    ],
)
def test_what_find_may_answer(found, answer):
    mail = Mail("localhost", sender=EVE, find=lambda _id: found)
    assert mail._found("<1>", [ADA, BOB]) == answer


@pytest.mark.parametrize("before", [True, False])
def test_a_process_that_dies_beside_the_sending_is_recovered_from_and_one_mail_is_there(tmp_path, box, before):
    url = f"sqlite:///{tmp_path}/ledger.db"

    def play(_tell):
        with Settlement(url) as settlement:
            mail = make(settlement, box)
            deliver = mail._delivered

            def and_die(*arguments):
                if not before:
                    deliver(*arguments)
                die()

            mail._delivered = and_die
            with settlement.transaction("trip") as tx:
                tx.call(mail.send, **LETTER)

    assert in_child(play).killed
    assert len(box.messages()) == (0 if before else 1)
    with Settlement(url) as settlement:
        mail = make(settlement, box)
        settlement.recover()
        assert [(m["to"], m["message_id"]) for m in box.messages()] == [(f"{ADA}, {BOB}", mail.message_id("trip#1/0"))]
        assert (settlement.residue(), settlement.in_doubt()) == ([], [])


# ---- header injection


@pytest.mark.parametrize(
    "wrong",
    [
        {"subject": "Hi\r\nBcc: eve@b.example"},
        {"subject": "Hi\nthere"},
        {"subject": "Hi\x00"},
        {"subject": "Hi\u2028there"},
        {"subject": "half \ud83d"},
        {"subject": 7},
        {"body": "half \ud83d"},
        {"body": None},
        {"html": 7},
        {"reply_to": "a@b.example\r\nBcc: eve@b.example"},
        {"reply_to": "nobody"},
        {"to": "a@b.example\nBcc: eve@b.example"},
        {"cc": ["a@b.example, eve@b.example"]},
        {"bcc": ["ada"]},
        {"to": []},
        {"to": "Ada <ada@b.example>"},
        {"to": ["ada@b.example", "@b.example"]},
        {"to": "a b@b.example"},
        {"to": "ada@b..example"},
        {"to": "ada@-b.example"},
        {"to": "ada@[127.0.0.1]"},
        {"to": f"{'a' * 65}@b.example"},
        {"to": [None]},
    ],
    ids=repr,
)
def test_what_is_malformed_is_refused_before_anything(box, settlement, wrong):
    mail = mail_to(box, settlement)
    with pytest.raises((ValueError, TypeError)), settlement.transaction("trip") as tx:
        tx.call(mail.send, **(LETTER | wrong))
    assert (sent(box), settlement.transactions()) == ([], [])


def test_so_is_what_no_record_can_hold(box, settlement):
    mail = mail_to(box, settlement)
    with pytest.raises(ValueError, match="give text"), settlement.transaction("trip") as tx:
        tx.call(mail.send, **(LETTER | {"to": [ADA, object()]}))
    assert (sent(box), settlement.transactions()) == ([], [])


def test_the_refusal_names_the_argument_and_what_is_wrong(box, settlement):
    mail = mail_to(box, settlement)
    with pytest.raises(ValueError, match="subject= has a line break"), settlement.transaction("trip") as tx:
        tx.call(mail.send, **(LETTER | {"subject": "Hi\r\nBcc: eve@b.example"}))
    with pytest.raises(ScopeError, match="send_mail: 'nobody' is no mail address"), settlement.transaction("t2") as tx:
        tx.call(mail.send, **(LETTER | {"to": [ADA, "nobody"]}))
    assert sent(box) == []


@given(st.text())
def test_no_text_of_a_header_makes_another(text):
    mail = Mail("localhost", sender="desk@hotel.example")
    try:
        written = mail._written("k", ADA, text, text, None, None)
    except ValueError:
        return
    head = written.content.partition(b"\r\n\r\n")[0]
    names = [line.partition(b":")[0] for line in head.split(b"\r\n") if not line[:1].isspace()]
    assert sorted(set(names) - {b"Content-Transfer-Encoding"}) == sorted(
        [b"From", b"To", b"Subject", b"Date", b"Message-ID", b"Content-Type", b"MIME-Version"]
    )
    assert not any(byte in head.replace(b"\r\n", b"") for byte in b"\r\n\0")


@given(st.text())
def test_an_address_that_is_taken_is_taken_as_it_is_written_then(text):
    try:
        address = one_address(text)
    except ValueError:
        return
    assert (one_address(address), one_line("to", address)) == (address, address)


# ---- several recipients


def test_when_the_server_refuses_one_of_several_nobody_gets_it_and_both_are_named(office, settlement):
    mail = mail_to(office, settlement, find=finds(office))
    office.told(refuse={BOB: NO})
    with pytest.raises(Refused, match=f"{BOB}: {NO}, and would have taken {ADA}") as refused:
        with settlement.transaction("trip") as tx:
            tx.call(mail.send, **LETTER)
    cause = refused.value.__cause__
    assert isinstance(cause, MailRefused)
    assert (cause.refused, cause.accepted, cause.temporary) == ({BOB: NO}, [ADA], False)
    assert (office.mails(), settlement.residue()) == ([], [])


def test_behind_another_that_has_left_the_residue_names_them(office, settlement):
    mail = mail_to(office, settlement, find=finds(office))
    office.told(refuse={BOB: NO})
    with pytest.raises(PartialCommit), settlement.transaction("trip") as tx:
        tx.call(mail.send, to=ADA, subject="First", body="")
        tx.call(mail.send, **LETTER)
    (left,) = settlement.residue()
    assert (left.tag, left.key) == ("partial_commit", "trip#1/1")
    assert f"{BOB}: {NO}, and would have taken {ADA}: nothing was sent to anyone" in left.note
    assert [mail["to"] for mail in office.mails()] == [[ADA]]


def test_told_to_send_it_partly_it_names_who_got_it_and_who_did_not_and_sends_it_once(office, settlement):
    mail = mail_to(office, settlement, partly=True)
    office.told(refuse={BOB: NO})
    with settlement.transaction("trip") as tx:
        queued = tx.call(mail.send, **LETTER)
    assert [got["to"] for got in office.mails()] == [[ADA]]
    assert queued.result() == {
        "message_id": mail.message_id("trip#1/0"),
        "accepted": [ADA],
        "refused": {BOB: NO},
    }
    (effect,) = settlement.transactions()[0].effects
    assert effect.result is not None
    assert BOB in effect.result


def test_told_so_it_is_still_refused_when_there_is_nobody_else(office, settlement):
    mail = mail_to(office, settlement, partly=True)
    office.told(refuse={BOB: NO, ADA: NO})
    with pytest.raises(Refused, match=f"{ADA}: {NO}; {BOB}: {NO}: nothing was sent"):
        with settlement.transaction("trip") as tx:
            tx.call(mail.send, **LETTER)
    assert (office.mails(), settlement.residue()) == ([], [])


def test_when_the_answer_is_lost_of_a_mail_that_was_sent_partly_the_probe_names_both(office, settlement):
    mail = mail_to(office, settlement, partly=True, find=finds(office))
    office.told(refuse={BOB: NO}, leave_at="BODY")
    with settlement.transaction("trip") as tx:
        queued = tx.call(mail.send, **LETTER)
    assert [got["to"] for got in office.mails()] == [[ADA]]
    assert (queued.result()["accepted"], list(queued.result()["refused"])) == ([ADA], [BOB])


# ---- what the server says


def test_a_temporary_no_is_tried_again_since_nobody_got_it(box, settlement):
    mail = make(settlement, box)
    box.fail("transient", times=2)
    with settlement.transaction("trip") as tx:
        tx.call(mail.send, **LETTER)
    assert (sent(box), settlement.residue()) == ([(f"{ADA}, {BOB}", "Booked", "Room 7")], [])


def test_one_that_stays_is_the_steps_failure(office, settlement):
    mail = mail_to(office, settlement)
    office.told(refuse={BOB: LATER})
    with pytest.raises(Refused, match="it may take it later") as refused, settlement.transaction("trip") as tx:
        tx.call(mail.send, **LETTER)
    assert refused.value.__cause__.temporary
    assert (office.mails(), settlement.residue()) == ([], [])


def test_a_no_to_the_message_itself_too(box, settlement):
    mail = make(settlement, box)
    box.fail("permanent", times=-1)
    with pytest.raises(Refused, match="554 5.7.1 this message will never"), settlement.transaction("trip") as tx:
        tx.call(mail.send, **LETTER)
    box.heal()
    assert (sent(box), settlement.residue()) == ([], [])


@pytest.mark.parametrize("step", ["MAIL", "RCPT"])
def test_a_server_that_leaves_before_it_has_the_message_has_sent_nothing(office, step):
    mail = mail_to(office)
    office.told(leave_at=step)
    with pytest.raises(MailUnreachable, match="went away before it had the message"):
        mail.send(**LETTER)
    assert office.mails() == []


def test_a_server_that_says_goodbye_takes_nobody(office):
    mail = mail_to(office, partly=True)
    office.told(refuse={BOB: "421 4.3.2 closing"})
    with pytest.raises(MailRefused) as refused:
        mail.send(to=[ADA, BOB, EVE], subject="", body="")
    assert list(refused.value.refused) == [BOB, EVE]
    assert office.mails() == []


def test_nobody_listening_is_a_definite_no(settlement, tmp_path):
    office = PostOffice(tmp_path / "log.jsonl")
    mail = mail_to(office, settlement)
    office.close()
    with pytest.raises(Refused, match="takes no mail from here .*: nothing was sent"):
        with settlement.transaction("trip") as tx:
            tx.call(mail.send, **LETTER)
    assert (settlement.residue(), settlement.in_doubt()) == ([], [])


def test_its_errors_survive_a_pickle():
    for error in (
        MailRefused("no", refused={ADA: LATER}, accepted=[BOB]),
        MailLost("lost", message_id="<1>"),
        SuppressedRecipient("no", addresses=[ADA]),
        MailUnreachable("gone"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


# ---- the suppression list


@pytest.mark.parametrize(
    "address", [ADA, "ADA@B.EXAMPLE", "anyone@spam.example", "Anyone@SPAM.example", "x@bücher.example"]
)
@pytest.mark.parametrize("argument", ["to", "cc", "bcc"])
def test_who_is_on_the_list_is_not_written_to_however_it_is_spelled(box, settlement, argument, address):
    mail = mail_to(box, settlement, suppressed=[" Ada@b.example", "@spam.example", "x@xn--bcher-kva.example"])
    letter = {"to": [EVE], "subject": "", "body": ""} | {argument: [address, BOB]}
    with pytest.raises(SuppressedRecipient, match="nothing was sent to anyone") as refused:
        with settlement.transaction("trip") as tx:
            tx.call(mail.send, **letter)
    assert refused.value.addresses == [one_address(address)]
    assert (sent(box), settlement.transactions()) == ([], [])


def test_who_comes_onto_the_list_while_the_mail_waits_is_refused_by_name_when_it_leaves(box, settlement):
    listed: list[str] = []
    mail = mail_to(box, settlement, suppressed=listed)
    with pytest.raises(Refused, match=f"{BOB} must not be written to"), settlement.transaction("trip") as tx:
        tx.call(mail.send, **LETTER)
        listed.append(BOB)
    assert (sent(box), settlement.residue()) == ([], [])


def test_called_bare_it_is_refused_too(box):
    mail = mail_to(box, suppressed=[BOB])
    with pytest.raises(SuppressedRecipient):
        mail.send(**LETTER)
    assert sent(box) == []


def test_a_function_of_the_users_own_cannot_pass_it_either(box, settlement):
    listed: list[str] = []
    mail = mail_to(box, settlement, suppressed=listed)
    ran = []

    def post(recipient: str, text: str) -> None:
        ran.append((recipient, mail.message_id(current_call().key)))

    mine = mail.declare("send_mail", post, to="recipient")
    with settlement.transaction("t1") as tx:
        tx.call(mine, recipient=ADA, text="hello")
    assert ran == [(ADA, mail.message_id("t1#1/0"))]
    with pytest.raises(Refused, match=f"{ADA} must not be written to"), settlement.transaction("t2") as tx:
        tx.call(mine, recipient=ADA, text="hello")
        listed.append(ADA)
    assert len(ran) == 1


def test_the_list_may_be_a_file_read_each_time(box, tmp_path):
    file = tmp_path / "suppressed.txt"
    file.write_text("# nobody yet\n")
    mail = mail_to(box, suppressed=file)
    mail.send(**LETTER)
    file.write_text(f"{BOB}  # asked us on Monday\n\n")
    with pytest.raises(SuppressedRecipient):
        mail.send(**LETTER)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        mail.send(**LETTER)
    assert len(box.messages()) == 1


def test_the_list_may_be_a_function_and_one_that_fails_lets_nobody_pass(box):
    asked = []

    def listed(address):
        asked.append(address)
        return {ADA: False}[address]

    mail = mail_to(box, suppressed=listed)
    mail.send(to="ADA@b.example", subject="", body="")
    with pytest.raises(KeyError):
        mail.send(to=BOB, subject="", body="")
    assert (asked, [to for to, _, _ in sent(box)]) == ([ADA, BOB], ["ADA@b.example"])


@given(st.sampled_from(["ada@b.example", "Bücher@bücher.example"]), st.data())
def test_no_case_passes_it(address, data):
    spelled = "".join(data.draw(st.sampled_from([c.lower(), c.upper()])) for c in "ada@b.example")
    assert suppressed_among(["ada@b.example"], [one_address(spelled)]) == [one_address(spelled)]
    assert suppressed_among([spelled], ["ada@b.example"]) == ["ada@b.example"]


@pytest.mark.parametrize(
    "entry",
    [
        "Ada <ada@b.example>",
        '"ada@b.example","2026-01-01"',
        "'ada@b.example'",
        "mailto:ada@b.example",
        "ada@b.example;",
        "eve@c.example, ada@b.example",
        "ada@b.example.",
        "anyone (@b.example)",
    ],
)
def test_whatever_stands_around_an_address_in_the_list_does_not_let_it_pass(entry):
    assert suppressed_among([entry], ["ada@b.example", "bob@d.example"]) == ["ada@b.example"]


def test_what_an_editor_puts_before_the_first_line_does_not_either(tmp_path):
    file = tmp_path / "suppressed.txt"
    file.write_text("ada@b.example\n", encoding="utf-8-sig")
    assert suppressed_among(file, [ADA, BOB]) == [ADA]


@given(st.from_regex(r"[a-z!#$%&'*+/=?^_`{|}~.-]{1,9}", fullmatch=True))
def test_who_can_be_written_to_can_be_listed(local):
    try:
        address = one_address(f"{local}@b.example")
    except ValueError:
        return
    assert suppressed_among([f" {address} "], [address, "bob@d.example"]) == [address]


class Speaker:
    """A server of a few lines that ends a message with a reply of one's own, and takes a recipient with another."""

    def __init__(self, final, recipient="250 ok", bye="221 bye"):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._replies = {"RCPT": recipient, "DATA": "354 go on", "QUIT": bye, ".": final}
        self._thread = threading.Thread(target=self._speak)
        self._thread.start()

    def _speak(self):
        connection, _ = self._socket.accept()
        with connection, connection.makefile("rwb", buffering=0) as lines:
            lines.write(b"220 here\r\n")
            told = False
            for line in lines:
                said = line.decode().strip().upper()
                if told and said != ".":
                    continue
                told = said == "DATA"
                if self._replies.get(said[:4], "250 ok") is None:
                    return  # it hangs up
                lines.write(self._replies.get(said[:4], "250 ok").encode() + b"\r\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._thread.join(10)
        self._socket.close()


@pytest.mark.parametrize("final", ["200 ok", "255 queued"])
def test_whatever_begins_with_a_two_is_a_yes(final):
    with Speaker(final, recipient="252 cannot verify, and takes it") as server:
        result = Mail("127.0.0.1", server.port, sender=EVE, local_hostname="here").send(to=ADA, subject="", body="")
    assert (result["accepted"], result["refused"]) == ([ADA], {})


@pytest.mark.parametrize("bye", [None, "421 busy", "nonsense", "500 no such command"])
def test_a_mail_that_was_accepted_is_sent_however_the_server_parts(bye):
    with Speaker("250 ok", bye=bye) as server:
        result = Mail("127.0.0.1", server.port, sender=EVE, local_hostname="here").send(to=ADA, subject="", body="")
    assert (result["accepted"], result["refused"]) == ([ADA], {})


@pytest.mark.parametrize("final", ["nonsense", "354 and then?", "199 so far"])
def test_an_answer_to_the_message_that_is_neither_yes_nor_no_leaves_it_unknown(final):
    with Speaker(final) as server, pytest.raises(MailLost, match="neither yes nor no") as lost:
        Mail("127.0.0.1", server.port, sender=EVE, local_hostname="here").send(to=ADA, subject="", body="")
    assert lost.value.message_id.endswith("@b.example>")


# ---- who one is, and who listens


def test_it_logs_in_and_nobody_is_told_the_password(office, caplog):
    caplog.set_level(logging.DEBUG)
    mail = mail_to(office, user=USER, password=PASSWORD)
    result = mail.send(**LETTER)
    assert office.mails()[0]["user"] == USER
    assert PASSWORD not in f"{mail!r} {result} {caplog.text}"


def test_a_wrong_password_sends_nothing_and_is_not_repeated(office):
    mail = mail_to(office, user=USER, password="another-secret")
    with pytest.raises(MailUnreachable, match="error 535") as refused:
        mail.send(**LETTER)
    assert "another-secret" not in repr(refused.value)
    assert (refused.value.__cause__, office.log()) == (None, [])


def test_a_password_is_not_sent_in_clear():
    with pytest.raises(ValueError, match="would be sent to smtp.hotel.example in clear") as refused:
        Mail("smtp.hotel.example", sender=EVE, user=USER, password=PASSWORD)
    assert PASSWORD not in str(refused.value)


def test_a_server_without_tls_gets_nothing_when_tls_is_wanted(box):
    mail = mail_to(box, tls="starttls")
    with pytest.raises(MailUnreachable, match="STARTTLS"):
        mail.send(**LETTER)
    assert sent(box) == []


def test_over_tls_it_trusts_whom_it_is_told_to(tmp_path):
    certificate(tmp_path / "certificate.pem")
    office = PostOffice(tmp_path / "log.jsonl")
    try:
        with pytest.raises(MailUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            mail_to(office, tls="starttls").send(**LETTER)
        assert office.log() == []
        trusted = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
        mail_to(office, tls="starttls", context=trusted, user=USER, password=PASSWORD).send(**LETTER)
        assert [(got["tls"], got["user"]) for got in office.mails()] == [(True, USER)]
    finally:
        office.close()


class Encrypted:
    """A server that speaks TLS from the first byte on, and notes what it was told."""

    def __init__(self, pem):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.heard = self._socket.getsockname()[1], []
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(pem)
        self._thread = threading.Thread(target=self._speak)
        self._thread.start()

    def _speak(self):
        connection, _ = self._socket.accept()
        try:
            with self._context.wrap_socket(connection, server_side=True) as spoken:
                spoken.sendall(b"220 here\r\n")
                while said := spoken.recv(65_536):
                    self.heard.append(said)
                    spoken.sendall(b"354 go on\r\n" if said == b"data\r\n" else b"250 ok\r\n")
        except OSError:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._thread.join(10)
        self._socket.close()


def test_so_it_does_where_tls_is_spoken_from_the_first_byte_on(tmp_path):
    certificate(tmp_path / "certificate.pem")
    with Encrypted(tmp_path / "certificate.pem") as server:
        with pytest.raises(MailUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            Mail("localhost", server.port, sender=EVE, tls="implicit").send(**LETTER)
    assert server.heard == []
    trusted = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
    with Encrypted(tmp_path / "certificate.pem") as server:
        sent = Mail("localhost", server.port, sender=EVE, tls="implicit", context=trusted).send(**LETTER)
    assert sent["accepted"] == [ADA, BOB]


def certificate(path):
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sender": "nobody"}, "no mail address"),
        ({"sender": "Desk\r\nBcc: eve@b.example <desk@hotel.example>"}, "line break"),
        ({"suppressed": "ada@b.example"}, "suppressed= is one text"),
    ],
)
def test_what_it_cannot_be_made_with(wrong, said):
    with pytest.raises((ValueError, TypeError), match=said):
        Mail("localhost", **({"sender": EVE} | wrong))
