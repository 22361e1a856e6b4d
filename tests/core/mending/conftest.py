"""A hotel whose own desk is closed, so that a room stays stuck, and who is paged about it."""

from __future__ import annotations

import pytest

from settlemark import effect


class Hotel:
    """Lets rooms; its own desk cancels only when it is `open`, and `void` does, in another way."""

    def __init__(self):
        self.log, self.taken, self.works, self.open = [], set(), True, False

        def cancel(room):
            if not self.open:
                raise LookupError("the desk is closed")
            self.log.append(("cancel", room))
            self.taken.discard(room)

        def find(room):
            return {"room": room} if room in self.taken else None

        @effect("reversible", scope="room:/{room}", undo=cancel, probe=find)
        def book(room):
            self.log.append(("book", room))
            self.taken.add(room)
            return {"room": room}

        def take_again(room):
            self.log.append(("take again", room))
            self.taken.add(room)

        @effect("reversible", scope="room:/{room}", undo=take_again)
        def void(room):
            self.log.append(("void", room))
            if self.works:
                self.taken.discard(room)

        @effect("irreversible", scope="room:/{room}")
        def evict(room):
            self.log.append(("evict", room))
            self.taken.discard(room)

        @effect("opaque", scope="bell:/{room}")
        def ring(room): ...

        self.book, self.void, self.evict, self.ring = book, void, evict, ring


class Pager:
    name = "pager"

    def __init__(self):
        self.notices, self.broken = [], False

    def tell(self, notice):
        if self.broken:
            raise ConnectionError("no line")
        if notice.occasion == "stuck":  # else a call waits for a yes
            self.notices.append(notice)

    def told(self):
        return [(notice.data["transaction"], notice.data["tried"]["state"]) for notice in self.notices]


@pytest.fixture
def hotel():
    return Hotel()


@pytest.fixture
def pager():
    return Pager()


@pytest.fixture
def proposed():
    """What is proposed, and for what it was asked."""

    class Proposed(list):
        plan = None

        def __call__(self, stuck):
            self.append(stuck)
            if isinstance(self.plan, BaseException):
                raise self.plan
            return self.plan

    return Proposed()


@pytest.fixture
def settlement(url, open_here, proposed, pager):
    return open_here(url, on_stuck=proposed, channels=[pager])
