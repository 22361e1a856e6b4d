"""Whatever a function of the user's raises, wherever it is called: its transaction ends, and nothing is swallowed."""

import itertools
import logging
import re
import threading
import time
from math import inf

import pytest
from tests.core.places import (
    OUR_FAULT,
    PLACES,
    RAISED,
    Base,
    Fails,
    Scene,
    Watching,
    World,
    public_parameters,
    raising,
    run,
    tools_of,
)
from tests.rooms.protocol import FINISHED

from settlemark import Injected, Payloads
from settlemark.history import HistoryFile
from settlemark.hosting import host_of


def unaccounted(settlement, world, name):
    """Return what is wrong with the state behind a scene, as a text; none when nothing is."""
    live = [f"{txn.name} is {txn.state}" for txn in host_of(settlement).protocol.live.values()]
    live += [f"nobody ends: {found}" for found in host_of(settlement).driver.ages.stranded()]
    recorded = [r for r in settlement.transactions() if r.row.name.partition("~")[0] == name]
    live += [f"{r.row.name} is recorded as {r.state}" for r in recorded if r.state not in FINISHED]
    committed = any(r.state == "committed" for r in recorded)
    if any(left.transaction.partition("~")[0] == name for left in settlement.residue()):
        return live  # it is named
    did, left = world.net(name)
    if did not in (0, 1) or (did and not committed):
        live.append(f"done {did} times more often than undone, and it is {'' if committed else 'not '}committed")
    if left and not committed:
        live.append("something has left")
    return live


@pytest.fixture
def sweep(open_settlement, monkeypatch, tmp_path):
    """Have everything raised in one place, and return what is wrong behind that."""

    def all_of(url, place, *, is_async):
        world = World(is_async=is_async)
        tools = tools_of(world)

        def redact(_tool, _path, value):
            world.here("redact")
            return value

        def key_of(_tenant):
            world.here("encrypt")

        options = {}
        if place == "redact":
            options = {"payloads": Payloads(redact=redact)}
        elif place == "encrypt" and url != "memory:":
            options = {"payloads": Payloads(encrypt=key_of)}
        elif place == "history":
            options = {"history": tmp_path / "h.jsonl"}
        write = HistoryFile.write
        monkeypatch.setattr(HistoryFile, "write", lambda *args: (world.here("history"), write(*args))[1])
        monkeypatch.setattr(logging.getLogger("settlemark"), "disabled", True)  # no handler of pytest's can print these
        settlement = open_settlement(
            url, observe=Watching(world), on_residue=lambda _: world.here("on_residue"), **options
        )
        host_of(settlement).driver.probing.on_doubt = None
        wrong = []
        for number, (what, throw) in enumerate(RAISED.items()):
            scene, name = Scene(world, settlement, tools), f"x{number}"
            world.arm(place, throw)
            error = run(scene.play(place, name), is_async=is_async)
            while apart := [thread for thread in threading.enumerate() if thread.name == "settlemark-apart"]:
                for thread in apart:  # a GeneratorExit may say that nothing can be awaited any more
                    if thread.ident is not None:  # else it is listed, and about to start
                        thread.join()
            world.arm(None, None)
            wrong += [f"{what}: {found}" for found in unaccounted(settlement, world, name)]
            if place.startswith(OUR_FAULT) and error not in (None, Fails):
                wrong.append(f"{what}: its caller is told {error}")
            after = run(scene.after(name), is_async=is_async)
            if after is not None:
                wrong.append(f"{what}: another one is told {after}")
        return wrong

    return all_of


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("place", PLACES)
def test_a_transaction_ends_whatever_is_raised_wherever_and_the_scope_is_free(place, is_async, sweep):
    assert sweep("memory:", place, is_async=is_async) == []


@pytest.mark.sampled(16)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("place", PLACES)
def test_it_ends_so_over_a_store_that_several_share(place, is_async, shared_url, sweep):
    assert sweep(shared_url, place, is_async=is_async) == []


@pytest.mark.every_store
def test_a_transaction_ends_whatever_a_clock_raises_while_its_commit_is_decided(url, open_settlement, monkeypatch):
    monkeypatch.setattr(logging.getLogger("settlemark"), "disabled", True)  # as above
    world = World(is_async=False)
    tools, raised, own = tools_of(world), [], threading.current_thread()

    def clock():
        if raised and threading.current_thread() is own:
            raised.pop()()
        return time.time()

    settlement = open_settlement(url, injected=Injected(clock=clock))
    wrong = []
    for number, (what, throw) in enumerate(RAISED.items()):
        name = f"x{number}"
        scene = Scene(world, settlement, tools)
        calls = (tools.book,), (tools.mail,)
        run(scene.block(name, *calls, then=lambda t=throw: raised.append(t)), is_async=False)
        raised.clear()
        wrong += [f"{what}: {found}" for found in unaccounted(settlement, world, name)]
        after = run(scene.after(name), is_async=False)
        if after is not None:
            wrong.append(f"{what}: another one is told {after}")
    assert wrong == []


@pytest.mark.every_store
def test_what_was_done_is_recorded_and_undone_from_whichever_question_on_a_clock_fails(url, open_settlement, caplog):
    world = World(is_async=False)
    tools, left, wrong = tools_of(world), [inf], []
    calls = (tools.narrow,), (tools.staged,), (tools.mail,)

    def clock():
        left[0] -= 1
        if left[0] < 0:
            raise Base
        return time.time()

    settlement = open_settlement(url, injected=Injected(clock=clock))
    for number in itertools.count():
        for name, then in ((f"x{number}", None), (f"y{number}", Fails)):
            left[0] = number
            end = None if then is None else raising(then)
            error = run(Scene(world, settlement, tools).block(name, *calls, then=end), is_async=False)
            wrong += unaccounted(settlement, world, name)
            if error is not then:
                wrong.append(f"{name}: its caller is told {error}")
        if left[0] >= 0:
            break  # so often it is not asked
    assert wrong == []
    assert sum("the clock that was given failed" in record.message for record in caplog.records) == 1
    assert number > len(calls)


TOOLS = {place for place in PLACES if place.endswith(" tool")} | {"read"}
OBSERVED = {place for place in PLACES if place.startswith("observer")}
ELSEWHERE = "no function that a transaction calls: it is injected, a shim's own, or named above"
TAKEN = {
    "AsyncTransaction.call(function)": TOOLS,
    "AsyncTransaction.read(fetch)": {"fetch"},
    "AsyncTransaction.read(live)": {"live of a read"},
    "Encryption.__init__(keys)": {"encrypt"},
    "Settlement.__init__(approver)": {"approver"},
    "Settlement.__init__(ask)": {"ask"},
    "Injected.__init__(clock)": ELSEWHERE,
    "Payloads.__init__(encrypt)": {"encrypt"},
    "Settlement.__init__(history)": {"history"},
    "Injected.__init__(ids)": ELSEWHERE,
    "Injected.__init__(monotonic)": ELSEWHERE,
    "Settlement.__init__(observe)": OBSERVED,
    "Settlement.__init__(on_residue)": {"on_residue"},
    "Payloads.__init__(redact)": {"redact"},
    "Injected.__init__(store_clock)": ELSEWHERE,
    "Toolbox.of(function)": ELSEWHERE,
    "Settlement.declared(function)": ELSEWHERE,
    "Toolbox.effect_of(run_tool)": ELSEWHERE,
    "Toolbox.know(function)": ELSEWHERE,
    "Settlement.run(approver)": {"approver"},
    "Settlement.run(ask)": {"ask"},
    "Settlement.run(before_commit)": {"hook"},
    "Settlement.run(function)": {"run", "body"},
    "Settlement.speculate(ask)": {"ask"},
    "Settlement.speculate(before_commit)": {"hook"},
    "Settlement.speculate(branches)": {"branch"},
    "Settlement.speculate(choose)": {"choose"},
    "Settlement.transaction(approver)": {"approver"},
    "Settlement.transaction(ask)": {"ask"},
    "Settlement.transaction(before_commit)": {"hook"},
    "Transaction.call(function)": TOOLS,
    "Transaction.read(fetch)": {"fetch"},
    "Transaction.read(live)": {"live of a read"},
    "TurnFace.call(function)": TOOLS,
    "TurnFace.plan(function)": TOOLS,
    "effect(approve)": {"approve"},
    "effect(check)": {"check"},
    "effect(live)": {"live"},
    "effect(probe)": {"probe"},
    "effect(refine)": {"refine"},
    "effect(release)": {"release"},
    "effect(scope)": {"scope"},
    "effect(undo)": {"undo"},
    "inverse(function)": {"inverse"},
    "Settlement.declare(approve)": {"approve"},
    "Settlement.declare(check)": {"check"},
    "Settlement.declare(live)": {"live"},
    "Settlement.declare(probe)": {"probe"},
    "Settlement.declare(refine)": {"refine"},
    "Settlement.declare(release)": {"release"},
    "Settlement.declare(scope)": {"scope"},
    "Settlement.declare(undo)": {"undo"},
    "Host.__init__(tools)": ELSEWHERE,
    "Toolbox.known(function)": ELSEWHERE,
    "Host.options(approver)": {"approver"},
    "Host.options(ask)": {"ask"},
    "Host.options(before_commit)": {"hook"},
    "AgentTurn.perform(ask)": ELSEWHERE,
    "AgentTurn.perform(pack)": ELSEWHERE,
    "AgentTurn.perform(remake)": ELSEWHERE,
    "AgentTurn.perform(run)": ELSEWHERE,
    "AgentTurn.perform(unpack)": ELSEWHERE,
    "Caller.run(work)": ELSEWHERE,
    "Declarations.learn(function)": ELSEWHERE,
    "Gathering.__init__(look)": ELSEWHERE,
    "Gathering.open(begin)": ELSEWHERE,
    "Gathering.turn_down(begin)": ELSEWHERE,
    "OpenTurn.look_with(look)": ELSEWHERE,
    "OpenTurn.perform(ask)": ELSEWHERE,
    "OpenTurn.perform(pack)": ELSEWHERE,
    "OpenTurn.perform(remake)": ELSEWHERE,
    "OpenTurn.perform(run)": ELSEWHERE,
    "OpenTurn.perform(unpack)": ELSEWHERE,
    "Shared.enter(begin)": ELSEWHERE,
    "Shared.enter(gone)": ELSEWHERE,
    "Shared.take_back(gone)": ELSEWHERE,
    "ReadNames.missing(load)": ELSEWHERE,
    "run_async(behind)": ELSEWHERE,
    "Approval.__init__(when)": {"approve"},
    "Budget.__init__(agent)": ELSEWHERE,
    "Policy.__init__(agent)": ELSEWHERE,
    "Settlement.steered(function)": ELSEWHERE,
    "SteeredRun.step(before_commit)": {"hook"},
    "Settlement.declare(expires)": ELSEWHERE,
    "Settlement.declare(then)": ELSEWHERE,
    "Settlement.declare(spends)": ELSEWHERE,
    "Settlement.declare(spent)": ELSEWHERE,
    "Settlement.on_due(handler)": ELSEWHERE,
    "effect(expires)": ELSEWHERE,
    "effect(then)": ELSEWHERE,
    "effect(spends)": ELSEWHERE,
    "effect(spent)": ELSEWHERE,
}
"""Every public parameter that takes a function, and the places above at which that is called."""
NOT_GIVEN = ("CurrentCall.", "Declaration.", "Effect.", "Hold.", "Learned.")  # handed out: nobody makes one
FUNCTIONS = re.compile(r"\b(Callable|Hook|Ask|Approver|Observer|Rule|KeySource|Remake|Gone)\b")


def public_functions():
    """Yield every parameter that takes a function, of all that is public."""
    for called, parameter in public_parameters():
        if FUNCTIONS.search(str(parameter.annotation)) or parameter.name == "history":
            yield f"{called}({parameter.name})"


def test_the_places_are_all_there_are():
    """A parameter that takes a function of the user's is one of the places that are played, or is told why not."""
    found = {taken for taken in public_functions() if not taken.startswith(NOT_GIVEN)}
    assert sorted(found) == sorted(TAKEN)
    assert set().union(*(places for places in TAKEN.values() if places != ELSEWHERE)) == set(PLACES)
