"""What a function answers is what came of its work: work that is yet to be done is awaited, or refused, everywhere."""

from __future__ import annotations

import asyncio
import functools
import io
import multiprocessing
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager

import pytest
from tests.rooms.edges import Unfinished

from settlemark import DeclarationError, InDoubt, Retries, Tag, UsageError, effect
from settlemark.hosting import host_of


def a_generator(did):
    def work():
        did.append("lazily")
        yield "done"

    return work()


def an_async_generator(did):
    async def work():
        did.append("lazily")
        yield "done"

    return work()


def an_iterator(did):
    return map(did.append, ["lazily"])


@contextmanager
def entered(did):
    did.append("lazily")
    yield "done"


@asynccontextmanager
async def entered_async(did):
    did.append("lazily")
    yield "done"


async def coroutine(did):
    await asyncio.sleep(0)
    did.append("work")
    return "done"


class Awaitable:
    def __init__(self, did):
        self.did = did

    def __await__(self):
        return coroutine(self.did).__await__()


def a_future(did):
    with ThreadPoolExecutor() as pool:
        return pool.submit(lambda: did.append("work") or "done")


async def a_coroutine_of_a_coroutine(did):
    return coroutine(did)


async def a_task(did):
    return asyncio.ensure_future(coroutine(did))


def another_loops_future(_did):
    loop = asyncio.new_event_loop()
    try:
        return loop.create_future()
    finally:
        loop.close()


class ListOfIts(list):
    def __iter__(self):
        return iter(())


def a_process(_did):
    return multiprocessing.get_context("spawn").Process(target=print)


def a_program_that_runs(_did):
    return running_program


class RunningProgram(subprocess.Popen):
    """A program that has not ended, without the program."""

    def __init__(self):
        self.returncode = None

    def poll(self):
        return self.returncode

    def __del__(self): ...


running_program = RunningProgram()


def within(hold):
    return lambda did: hold(Awaitable(did))


def completed(answer):
    future = Future()
    future.set_result(answer)
    return future


REFUSED = {
    "a list of an awaitable": within(lambda work: [work]),
    "a mapping of an awaitable": within(lambda work: {"later": ["now", {"work": work}]}),
    "a tuple of an awaitable": within(lambda work: ("now", work)),
    "a list with methods of its own": within(lambda work: ListOfIts([work])),
    "a list of a generator": lambda did: [a_generator(did)],
    "a list of an iterator": lambda did: [an_iterator(did)],
    "a set of a future that nobody has completed": lambda _did: {Future()},
    "a generator": a_generator,
    "an async generator": an_async_generator,
    "an iterator": an_iterator,
    "a context manager": entered,
    "an async context manager": entered_async,
    "another loop's future": another_loops_future,
    "a function": lambda did: lambda: did.append("lazily"),
    "a part of a function": lambda did: functools.partial(did.append, "lazily"),
    "a method": lambda did: did.append,
    "a list of a function": lambda did: [functools.partial(did.append, "lazily")],
    "a thread that nobody has started": lambda did: threading.Thread(target=did.append, args=("lazily",)),
    "a timer": lambda did: threading.Timer(60, did.append, ("lazily",)),
    "a process that nobody has started": a_process,
    "a program that runs": a_program_that_runs,
    "a mapping of a thread": lambda did: {"later": threading.Thread(target=did.append, args=("lazily",))},
}
AWAITED = {
    "a future of a future": lambda did: completed(a_future(did)),
    "a future of a coroutine": lambda did: completed(coroutine(did)),
    "a coroutine": coroutine,
    "an awaitable object": Awaitable,
    "a future of a thread": a_future,
    "a coroutine of a coroutine": a_coroutine_of_a_coroutine,
    "a coroutine of a task": a_task,
}


class Callable:
    def __init__(self, function):
        self.function = function
        self.__name__ = "called"

    async def __call__(self):
        return await self.function([])


async def played(settlement, is_async, function, **options):
    """Call a tool in a transaction, by either face, and return what it answered."""
    if is_async:
        async with settlement.transaction("job", **options) as tx:
            return await tx.call(function)
    with settlement.transaction("job", **options) as tx:
        return tx.call(function)


def play(settlement, is_async, function, **options):
    if is_async:
        return asyncio.run(played(settlement, True, function, **options))
    with settlement.transaction("job", **options) as tx:
        return tx.call(function)


both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
refused = pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED)
awaited = pytest.mark.parametrize("answer", AWAITED.values(), ids=AWAITED)


@pytest.fixture
def settlement(open_settlement):
    return open_settlement(retries=Retries(first=0, most=0))


@both
@refused
@pytest.mark.parametrize("kind", ["reversible", "idempotent", "opaque", "irreversible", "staged"])
def test_a_tool_that_answers_with_work_yet_to_be_done_is_in_doubt_and_named_never_confirmed(
    settlement, is_async, answer, kind
):
    did = []

    @effect(kind, scope="thing:/a", **({"undo": lambda: did.append("undo")} if kind == "reversible" else {}))
    def act():
        return answer(did)

    with pytest.raises(InDoubt, match="work that has not been done yet"):
        play(settlement, is_async, act)
    assert "lazily" not in did
    assert [(r.tool, r.tag) for r in settlement.residue()] == [("act", Tag.UNRESOLVED)]
    assert host_of(settlement).protocol.live == {}


@both
@awaited
@pytest.mark.parametrize("kind", ["reversible", "irreversible", "read"])
def test_a_tool_that_answers_with_something_to_await_has_it_awaited(settlement, is_async, answer, kind):
    did = []

    @effect(kind, scope="thing:/a", **({"undo": lambda: did.append("undo")} if kind == "reversible" else {}))
    def act():
        return answer(did)

    found = play(settlement, is_async, act)
    assert (found if kind != "irreversible" else found.result()) == "done"
    assert (did, settlement.residue()) == (["work"], [])


@both
@refused
@pytest.mark.parametrize("place", ["undo", "probe", "release", "check", "hook", "approve", "approver", "ask", "live"])
def test_a_handler_that_answers_with_work_yet_to_be_done_has_not_done_it(open_settlement, is_async, answer, place):
    """Nothing is confirmed, undone or approved by it: the transaction ends, and says so."""
    did = []

    def lazy(*_, **__):
        return answer(did)

    parts = {place: lambda: lazy()} if place in ("undo", "probe", "release", "check", "approve") else {}
    kind = "irreversible" if place == "release" else "reversible"
    parts |= {"undo": lambda: None} if kind == "reversible" and place != "undo" else {}
    if place == "approver":
        parts["approve"] = True

    @effect(kind, scope="thing:/a", **parts)
    def act():
        if place == "ask":
            raise ValueError
        if place == "probe":
            raise TimeoutError

    settlement = open_settlement(retries=Retries(first=0, most=0), approver=lazy, ask=lazy, on_failure="ask")
    options = {"before_commit": {"hook": lazy, "undo": lambda _: False}.get(place, lambda _: None)}

    async def with_live():
        async with settlement.transaction("job") as tx:
            await tx.read("thing:/b", lambda: 1, live=lazy)

    with pytest.raises(Exception):  # noqa: B017, PT011 - each place has its own words
        asyncio.run(with_live()) if place == "live" else play(settlement, is_async, act, **options)
    assert did == []
    left = [(r.tool, r.tag) for r in settlement.residue()]
    assert left == ([("act", Tag.UNRESOLVED)] if place in ("undo", "probe", "release") else [])
    assert host_of(settlement).protocol.live == {}


@awaited
@pytest.mark.parametrize("place", ["undo", "hook"])
@both
def test_a_handler_that_answers_with_something_to_await_has_it_awaited(settlement, is_async, answer, place):
    did = []

    @effect("reversible", scope="thing:/a", undo=lambda: answer(did) if place == "undo" else None)
    def act(): ...

    hook = {"undo": lambda _: "no", "hook": lambda _: answer(did)}[place]
    with pytest.raises(Exception, match=r"said no"):
        play(settlement, is_async, act, before_commit=hook)
    assert (did, settlement.residue()) == (["work"], [])


def generator():
    yield 1


async def async_generator():
    yield 1


class CallableGenerator:
    def __call__(self):
        yield 1


LAZY = {
    "a generator": generator,
    "an async generator": async_generator,
    "a part of one": functools.partial(generator),
    "a callable one": CallableGenerator(),
}


@pytest.mark.parametrize("function", LAZY.values(), ids=LAZY)
def test_a_generator_is_refused_as_a_tool_and_as_a_handler_before_anything_runs(settlement, function):
    with (
        pytest.raises(UsageError, match="so calling it does nothing: nothing was run"),
        settlement.transaction("job") as tx,
    ):
        tx.call(function)
    for role in ("undo", "probe", "release", "check", "approve"):
        kind = "irreversible" if role == "release" else "reversible"
        parts = {"undo": print} if kind == "reversible" else {}
        with pytest.raises(DeclarationError, match="is a generator, so calling it does nothing"):
            settlement.declare("act", kind, scope="thing:/a", **{**parts, role: function})
    with pytest.raises(DeclarationError, match="act is a generator"):
        settlement.declare("act", "irreversible", scope="thing:/a", function=function)
    assert (settlement.transactions(), host_of(settlement).protocol.live) == ([], {})


def test_an_async_object_that_is_called_is_awaited(settlement):
    with settlement.transaction("job") as tx:
        assert tx.call(Callable(coroutine)) == "done"


@both
def test_a_body_that_is_a_generator_has_done_nothing_and_is_refused(settlement, is_async):
    def body(tx):
        yield tx

    with pytest.raises(Unfinished, match="returned a generator, which is work that has not been done yet"):
        settlement.run("job", body)
    assert host_of(settlement).protocol.live == {}


def test_an_answer_that_holds_itself_and_what_is_completed_is_an_answer(settlement):
    answer = {"completed": [completed("done")]}
    answer["itself"] = answer

    @effect("read", scope="file:/a")
    def look():
        return answer

    with settlement.transaction("job") as tx:
        assert tx.call(look) is answer


def test_an_open_file_is_an_answer(settlement):
    file = io.StringIO("text")

    @effect("read", scope="file:/a")
    def look():
        return file

    with settlement.transaction("job") as tx:
        assert tx.call(look) is file


@pytest.mark.parametrize("kind", ["thread", "process", "program"])
def test_a_thread_or_process_that_is_over_is_an_answer(settlement, kind):
    @effect("reversible", scope="thing:/a", undo=lambda: None)
    def act():
        if kind == "program":
            done = subprocess.Popen([sys.executable, "-c", ""])
            done.wait()
            return done
        done = threading.Thread(target=int) if kind == "thread" else multiprocessing.get_context("spawn").Process()
        done.start()
        done.join()
        return done

    with settlement.transaction("job") as tx:
        assert tx.call(act) is not None
    assert settlement.residue() == []


def test_a_future_that_failed_is_a_call_that_failed(settlement):
    @effect("reversible", scope="thing:/a", undo=lambda: None)
    def act():
        future = Future()
        future.set_exception(ValueError("no"))
        return future

    with pytest.raises(ValueError, match="no"), settlement.transaction("job") as tx:
        tx.call(act)
    assert settlement.residue() == []
