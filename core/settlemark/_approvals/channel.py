"""How a person hears of something: a notice, and the channel that brings it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, runtime_checkable
from typing import Protocol as Port

Occasion = Literal["asked", "reminded", "escalated", "stuck"]


@dataclass(frozen=True, slots=True)
class Notice:
    """What a person is told.

    Attributes:
        id: names it: told once more, after a crash or a failure, it has the same id, by which a receiver knows it.
        occasion: why now: a question was asked, is still unanswered, is now for others too, or something is stuck.
        to: whom it is for: names, and roles as `role:finance`; empty: anyone.
        subject: what it is about, in a line.
        text: what there is to know, in words.
        data: the same for programs, as JSON values.
        at: in seconds since 1970, on the store's clock.
        tokens: for a channel with `recipients`: by recipient, what answers the question once in that name, see
            `Settlement.redeem`. They are secret, and nowhere on record.
    """

    id: str
    occasion: Occasion
    to: tuple[str, ...]
    subject: str
    text: str
    data: Mapping[str, Any]
    at: float
    tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, without its tokens.

        >>> Notice("n1", "asked", ("ada",), "pay", "pay would act", {"key": "k"}, 0.0).to_json()["to"]
        ['ada']
        """
        return {
            "id": self.id,
            "occasion": self.occasion,
            "to": list(self.to),
            "subject": self.subject,
            "text": self.text,
            "data": dict(self.data),
            "at": self.at,
        }


class Channel(Port):
    """Brings notices to people: a webhook, mail, a chat.

    >>> class Board:
    ...     name = "board"
    ...     def tell(self, notice): print(notice.subject)
    >>> channel: Channel = Board()
    >>> channel.tell(Notice("n1", "asked", (), "pay waits for a yes", "", {}, 0.0))
    pay waits for a yes
    """

    @property
    def name(self) -> str:
        """What it is called in the record: no other channel of the settlement is."""
        ...

    def tell(self, notice: Notice) -> object:
        """Bring a notice to whom it is for; may be async.

        It is told again, under the same id, when this raises, or when its process died meanwhile.
        """
        ...


@runtime_checkable
class LinkChannel(Channel, Port):
    """A channel that brings each recipient a token of his own, with which he answers."""

    def recipients(self, notice: Notice) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Return to whom it brings a notice: names, and as what each is told, such as `("finance",)`."""
        ...


__all__ = ["Channel", "LinkChannel", "Notice", "Occasion"]
