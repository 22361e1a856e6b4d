"""Who enters a name within itself would wait for its own end: it is refused at once, and nothing has changed."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress

import pytest

from settlemark import Entangled, PartialCommit, Refused, StateError, WaitTimeout, _runners, effect

pytestmark = pytest.mark.every_store


@pytest.fixture
def rooms():
    return []


@pytest.fixture
def reserve(rooms):
    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: rooms.remove(hotel))
    def reserve(hotel):
        rooms.append(hotel)

    return reserve


def enter(settlement, name="trip"):
    with pytest.raises(Entangled, match="entered again within itself.*give the inner one a name of its own"):
        settlement.transaction(name).__enter__()


def test_its_own_name_within_a_with_block_is_refused_at_once_and_the_outer_one_commits(settlement, reserve, rooms):
    with settlement.transaction("trip") as tx:
        tx.call(reserve, hotel="Ada")
        enter(settlement)
        with pytest.raises(Entangled):
            settlement.run("trip", lambda inner: inner.call(reserve, hotel="Bee"))
        with settlement.transaction("other") as other:
            other.call(reserve, hotel="Cy")
            enter(settlement)

    assert rooms == ["Ada", "Cy"]
    assert [t.state.value for t in settlement.transactions()] == ["committed", "committed"]


def test_its_own_name_within_a_run_is_refused_at_once(settlement, reserve, rooms):
    def body(tx):
        enter(settlement)
        tx.call(reserve, hotel="Ada")

    settlement.run("trip", body)

    assert rooms == ["Ada"]


def test_its_own_name_in_a_thread_that_was_begun_there_is_refused_at_once(settlement, reserve, rooms):
    with settlement.transaction("trip") as tx:
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: context.run(enter, settlement))
        thread.start()
        thread.join(60)
        tx.call(reserve, hotel="Ada")

    assert not thread.is_alive()
    assert rooms == ["Ada"]


async def test_its_own_name_in_a_task_that_was_begun_there_is_refused_at_once(settlement, reserve, rooms):
    async def inner():
        with pytest.raises(Entangled, match="entered again within itself"):
            async with settlement.transaction("trip"):
                pass

    async def body(tx):
        with pytest.raises(Entangled):
            async with settlement.transaction("trip-2"):
                pass
        await tx.call(reserve, hotel="Ada")

    async with settlement.transaction("trip") as tx:
        await inner()
        await asyncio.gather(inner(), asyncio.create_task(inner()))
        await tx.call(reserve, hotel="Bee")
    await settlement.run("trip-2", body)

    assert rooms == ["Bee", "Ada"]


def test_when_it_is_over_its_name_is_entered_as_ever(settlement, reserve, rooms):
    with settlement.transaction("trip") as tx:
        tx.call(reserve, hotel="Ada")
    with settlement.transaction("trip") as tx:
        tx.call(reserve, hotel="Ada")
    with pytest.raises(KeyError), settlement.transaction("trip-2") as tx:
        raise KeyError
    settlement.run("trip-2", lambda tx: tx.call(reserve, hotel="Bee"))

    assert rooms == ["Ada", "Bee"]


# ---- ending oneself


VERBS = {
    "cancel": lambda settlement, _tx: settlement.cancel("trip"),
    "abort": lambda _settlement, tx: tx.abort(),
    "rewind": lambda settlement, _tx: settlement.rewind("trip", by="ada", dry_run=False),
    "recover": lambda settlement, _tx: settlement.recover(),
}
PLACES = ("a tool", "a tool within", "an undo", "a probe", "a staged release", "a release")


class Ending:
    """A job that ends itself in one of the functions that it has called, once."""

    def __init__(self, settlement, place, verb):
        self.settlement, self.place, self.verb = settlement, place, verb
        self.tx, self.ended = None, []

    def at(self, place):
        if self.place == place and not self.ended:
            self.ended.append(place)
            with suppress(WaitTimeout, StateError):  # it has not ended yet, and says so
                self.verb(self.settlement, self.tx)

    def calls(self, place, name):
        def work():
            self.at(place)

        work.__name__ = name
        return work

    def within(self):
        with self.settlement.transaction("within", independent=True) as tx:
            tx.call(effect("idempotent", scope="in:/x")(self.calls("a tool within", "inner")))

    def play(self):
        undo, probe = self.calls("an undo", "undo"), self.calls("a probe", "probe")
        tools = [
            effect("irreversible", scope="last:/x")(self.calls("a release", "last")),
            effect("staged", scope="put:/x")(self.calls("a staged release", "put")),
            effect("reversible", scope="room:/x", undo=undo)(self.calls("a tool", "book")),
            effect("reversible", scope="outer:/x", undo=undo, name="outer")(lambda: self.within()),
            effect("idempotent", scope="told:/x", probe=probe, keyed=False)(self.calls("no place", "told")),
        ]
        with self.settlement.transaction("trip") as self.tx:
            for tool in tools:
                self.tx.call(tool)
            if self.place in ("an undo", "a probe"):
                raise LookupError


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", PLACES)
def test_whoever_ends_the_transaction_in_whose_call_he_runs_does_not_wait_for_himself(
    settlement, place, verb, monkeypatch
):
    waits, finally_ = [], _runners._wait_finally

    def spy(request):
        waits.append(request.seconds)
        return finally_(request)

    monkeypatch.setattr(_runners, "_wait_finally", spy)
    job = Ending(settlement, place, VERBS[verb])
    with suppress(Refused, LookupError, PartialCommit):
        job.play()
    assert (job.ended, [seconds for seconds in waits if seconds > 0]) == ([place], [])
    assert settlement.protocol.live == {}


def test_a_call_without_an_argument_names_its_tool(settlement, reserve, rooms):
    with pytest.raises(TypeError, match=r"reserve\(\) missing a required argument: 'hotel'"):
        settlement.run("trip", lambda tx: tx.call(reserve))

    assert rooms == []
