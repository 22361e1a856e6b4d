"""What the conformance kit is told of the mail adapter."""

from __future__ import annotations

from settlemark.testing import Mailbox
from settlemark_adapters.mail import Mail
from settlemark_adapters.testing import Example, Subject


def make(settlement, place):
    def find(message_id):
        sent = [mail["to"].split(", ") for mail in place.messages() if mail["message_id"] == message_id]
        return sent[0] if sent else None

    return Mail(place.host, place.port, settlement, sender="desk@hotel.example", find=find, local_hostname="localhost")


def look(place):
    return sorted((mail["to"], mail["subject"], mail["body"]) for mail in place.messages())


SUBJECTS = {
    "mail": Subject(
        make=make,
        world=Mailbox,
        look=look,
        examples=[
            Example("send_mail", {"to": "ada@b.example", "subject": "Booked", "body": "Room 7"}),
            Example(
                "send_mail",
                {"to": ["ada@b.example", "bob@b.example"], "subject": "Both", "body": "…", "bcc": ["eve@b.example"]},
            ),
        ],
        lose=lambda place: place.fail("lost"),
    )
}
