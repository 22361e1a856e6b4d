"""Who enters a name within itself would wait for its own end: it is refused at once, and nothing has changed."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import threading
from contextlib import suppress

import pytest
from tests.core.places import PLACES as WHERE
from tests.core.places import Scene, Watching, World, maybe, run, tools_of
from tests.rooms.api import transaction as _transaction
from tests.rooms.runtime import aio, sync

from settlemark import Entangled, PartialCommit, Refused, StateError, UsageError, WaitTimeout, effect
from settlemark.hosting import host_of

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
    with pytest.raises(Entangled, match="entered again within itself.*give the inner one another name"):
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
    waits, finally_ = [], sync._wait_finally

    def spy(request):
        waits.append(request.seconds)
        return finally_(request)

    monkeypatch.setattr(sync, "_wait_finally", spy)
    job = Ending(settlement, place, VERBS[verb])
    with suppress(Refused, LookupError, PartialCommit):
        job.play()
    assert (job.ended, [seconds for seconds in waits if seconds > 0]) == ([place], [])
    assert host_of(settlement).protocol.live == {}


# ---- wherever a function of the user's is called


class Within:
    """A job that does something to itself where one of its functions is called, once."""

    def __init__(self, open_settlement, place, verb, *, is_async, waits):
        self.world, self.place, self.waits = World(is_async=is_async), place, waits
        self.tools = tools_of(self.world)
        self.settlement = open_settlement(
            "memory:", observe=Watching(self.world), on_residue=lambda _: self.world.here("on_residue")
        )
        host_of(self.settlement).driver.probing.on_doubt = None
        self.verb = verb
        self.asked, self.told, self.waited, self.faces = 0, None, [], []

    def played(self, name="trip"):
        """Play the scene, and return the class of what its caller is told."""
        return run(Scene(self.world, self.settlement, self.tools).play(self.place, name), is_async=self.world.is_async)

    def at_once(self):
        if self.asked:
            return None
        self.asked, before = 1, len(self.waits)

        async def does():
            try:
                await self.verb(self.settlement, self.faces)
            except Exception as error:
                self.told = type(error)
            self.waited = self.waits[before:]

        if self.world.is_async:
            return does()
        with suppress(StopIteration):
            does().send(None)
        return None


async def cancel(settlement, _faces):
    settlement.cancel("trip")


async def abort(_settlement, faces):
    if faces:  # else it is told of before anybody has it
        await maybe(faces[-1].abort())


async def commit(_settlement, faces):
    if faces:
        await maybe(faces[-1].commit())


async def rewind(settlement, _faces):
    settlement.rewind("trip", by="ada", dry_run=False)


async def recover(settlement, _faces):
    settlement.recover()


async def enter_again(settlement, faces):
    if faces.is_async:
        async with settlement.transaction("trip"):
            pass
    else:
        with settlement.transaction("trip"):
            pass


async def run_again(settlement, faces):
    async def nothing(_tx):
        pass

    await maybe(settlement.run("trip", nothing if faces.is_async else lambda _tx: None))


async def choose_again(settlement, faces):
    async def nothing(_tx):
        return 1

    await maybe(settlement.speculate([nothing if faces.is_async else lambda _tx: 1], lambda _: 0, name="trip"))


async def look_at_the_same(settlement, faces):
    """Write what the job has written, in a transaction of its own."""
    lamp = effect("reversible", scope="xx:/trip", undo=lambda: None, name="lamp")(lambda: None)
    if faces.is_async:
        async with settlement.transaction("other", independent=True) as tx:
            await tx.call(lamp)
    else:
        with settlement.transaction("other", independent=True) as tx:
            tx.call(lamp)


ENDS_IT = {verb.__name__: verb for verb in (cancel, abort, rewind, recover)}
MOVES_NOTHING = {verb.__name__: verb for verb in (enter_again, run_again, choose_again, commit, look_at_the_same)}
BODIES = ("body", "run", "branch")
"""There is no call there: what waits for the transaction is its own code, which may end it first."""
NOT_OURS = ("encrypt", "history", "redact")
WITHIN = [place for place in WHERE if place not in NOT_OURS]
AWAITED = [place for place in WITHIN if not place.startswith(("observer", "scope", "refine", "on_residue", "choose"))]
AWAITED = [place for place in AWAITED if place not in BODIES]


class Faces(list):
    is_async = False


@pytest.fixture
def within(open_settlement, monkeypatch):
    """Play a job that does something to itself in a place; no wait for it lasts, and all of them are noted."""
    waits, finally_, awaited = [], sync._wait_finally, aio._wait_async
    faces = Faces()

    def short(request):
        if request.seconds > 0 and not request.ticket.fired:
            waits.append(request.holder)
        return dataclasses.replace(request, seconds=min(request.seconds, 0.01))

    enters = _transaction._Face.__init__

    def enter(face, *given):
        enters(face, *given)
        if face.name in ("trip", "trip~0"):
            faces.append(face)

    monkeypatch.setattr(sync, "_wait_finally", lambda request: finally_(short(request)))
    monkeypatch.setattr(aio, "_wait_async", lambda request: awaited(short(request)))
    monkeypatch.setattr(_transaction._Face, "__init__", enter)

    def play(place, verb, *, is_async):
        faces.clear()
        faces.is_async = is_async
        job = Within(open_settlement, place, verb, is_async=is_async, waits=waits)
        job.faces = faces
        undisturbed = job.played("undisturbed")
        job.world.arm(place, job.at_once)
        ended = job.played()
        job.world.arm(None, None)
        assert job.asked == 1
        assert host_of(job.settlement).protocol.live == {}
        return job, undisturbed, ended

    return play


@pytest.mark.sampled(3)
@pytest.mark.parametrize("verb", ENDS_IT)
@pytest.mark.parametrize(
    ("place", "is_async"), [*((place, False) for place in WITHIN), *((place, True) for place in AWAITED)]
)
def test_whoever_ends_his_own_transaction_waits_for_nothing_wherever_he_is_called(within, place, verb, is_async):
    job, _, _ = within(place, ENDS_IT[verb], is_async=is_async)

    assert job.waited == []
    assert job.told in (None, StateError, WaitTimeout)  # it has ended, or not yet, and ends when he has returned


@pytest.mark.sampled(3)
@pytest.mark.parametrize("verb", MOVES_NOTHING)
@pytest.mark.parametrize(
    ("place", "is_async"), [*((place, False) for place in WITHIN), *((place, True) for place in AWAITED)]
)
def test_what_would_wait_for_its_own_end_is_refused_at_once_and_moves_nothing(within, place, verb, is_async):
    if place in (*BODIES, "scope") and verb in ("commit", "look_at_the_same"):
        return  # a body may commit; and what it begins beside itself waits as for any other
    job, undisturbed, ended = within(place, MOVES_NOTHING[verb], is_async=is_async)

    assert job.waited == []
    assert ended == undisturbed
    assert job.told is None or issubclass(job.told, (Refused, StateError, UsageError))


def test_a_call_without_an_argument_names_its_tool(settlement, reserve, rooms):
    with pytest.raises(TypeError, match=r"reserve\(\) missing a required argument: 'hotel'"):
        settlement.run("trip", lambda tx: tx.call(reserve))

    assert rooms == []
