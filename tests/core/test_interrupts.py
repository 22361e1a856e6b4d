"""Ctrl-C, and other signals, at any moment: all of a transaction is undone or named, and its scope is free again."""

import asyncio
import gc
import signal
import sys
import threading
import time
from _thread import interrupt_main
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.rooms.edges import shield
from tests.rooms.protocol import FINISHED

import settlemark
from settlemark import State, effect
from settlemark.hosting import host_of, run_sync

GENEROUS = 60
HOME = str(Path(settlemark.__file__).parent)
pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals as POSIX has them")


class World:
    def __init__(self):
        self.log = []

        @effect("reversible", scope="room:/{s}", undo=lambda s: self.log.append(("undo", s)))
        def book(s):
            self.log.append(("do", s))

        @effect("irreversible", scope="mail:/{s}")
        def mail(s):
            self.log.append(("leave", s))

        self.book, self.mail = book, mail

    def count(self, what, s):
        return self.log.count((what, s))


@pytest.fixture
def world():
    return World()


@pytest.fixture
def on_signal():
    """Have something done at a signal, until the test's end."""
    before = {}

    def handle(number, what):
        before.setdefault(number, signal.signal(number, what))

    yield handle
    for number, handler in before.items():
        signal.signal(number, handler)


class Struck(BaseException):
    """What a signal's handler raises."""


def strike(*_):
    raise Struck


def act(settlement, world, name):
    with settlement.transaction(name) as tx:
        tx.call(world.book, s=name)
        tx.call(world.mail, s=name)


WITH = act.__code__.co_firstlineno + 1
"""The line of its `with`."""


def wrong_with(settlement, world, name):
    """Return what is not undone, not named, or still taken."""
    host = host_of(settlement)
    found = [f"{txn.name} is {txn.state}" for txn in host.protocol.live.values()] + host.driver.ages.stranded()
    recorded = [r for r in settlement.transactions() if r.row.name == name]
    found += [f"recorded as {r.state}" for r in recorded if r.state not in FINISHED]
    did, left = world.count("do", name) - world.count("undo", name), world.count("leave", name)
    named = any(residue.transaction == name for residue in settlement.residue())
    if not named and (did, left) not in ((0, 0), (1, 1)):
        found.append(f"done {did}, left {left}, and not named")
    try:
        settlement.run(f"after {name}", lambda tx: tx.call(world.book, s=name), wait=5)
    except Exception as error:
        found.append(f"another is told {error}")
    return found


@pytest.fixture(autouse=True)
def nobody_else_puts_signals_off(monkeypatch):
    """A transaction that a test before dropped half begun, and something still keeps, would put off what strikes."""
    assert shield._main not in shield.lock_holders
    monkeypatch.setattr(shield, "_depth", 0)
    monkeypatch.setattr(shield, "_abandoned", [])
    gc.collect()
    gc.freeze()  # what another test has dropped is not collected between two instructions that are struck
    yield
    gc.unfreeze()


def until_struck():
    """Wait until what was put off at the very end has struck: it is sent again soon."""
    deadline = time.monotonic() + GENEROUS
    while shield._deferred or shield._sent:
        assert time.monotonic() < deadline, f"deferred and never delivered: {shield._deferred}, {shield._sent}"
        time.sleep(0.01)


class AtEvent:
    """Raises a signal at the n-th instruction of the engine, or of the block."""

    def __init__(self, number, at):
        self.number, self.at, self.seen = number, at, 0

    def __enter__(self):
        sys.settrace(self._called)

    def __exit__(self, *_):
        sys.settrace(None)

    def _called(self, frame, _event, _argument):
        if not frame.f_code.co_filename.startswith(HOME) and frame.f_code is not act.__code__:
            return None
        frame.f_trace_opcodes = True
        return self._at

    def _at(self, frame, event, _argument):
        # Between the last call of a block and the call of its `__exit__` Python runs no handler: nor is one run here.
        if event == "opcode" and not (frame.f_code is act.__code__ and frame.f_lineno == WITH):
            self.seen += 1
            if self.seen == self.at:
                signal.raise_signal(self.number)
        return self._at


@pytest.mark.sampled(16)
@pytest.mark.parametrize("part", range(16))
def test_one_interrupt_at_any_instruction_leaves_nothing_behind(part, url, open_settlement, world, on_signal):
    settlement = open_settlement(url, keep_open=0)
    on_signal(signal.SIGINT, strike)
    act(settlement, world, "warm")
    counting = AtEvent(signal.SIGINT, 0)
    with counting:
        act(settlement, world, "whole")
    wrong, struck = [], 0
    for number, at in enumerate(range(1 + 17 * part, counting.seen, 17 * 16)):
        name = f"x{number}"
        try:
            with AtEvent(signal.SIGINT, at):
                act(settlement, world, name)
            until_struck()
        except Struck:
            struck += 1
        wrong += [f"at {at}: {found}" for found in wrong_with(settlement, world, name)]
    assert wrong == []
    assert struck


class AtEventOfTheShield(AtEvent):
    """Raises a signal at the n-th instruction of what meets signals itself."""

    def _called(self, frame, event, argument):
        if frame.f_code.co_filename != shield.__file__:
            return None
        return super()._called(frame, event, argument)


def test_an_interrupt_at_any_instruction_of_the_shield_strikes(settlement, on_signal, monkeypatch):
    on_signal(signal.SIGINT, strike)
    monkeypatch.setattr(shield, "_depth", 0)  # another test may have dropped a transaction in its block

    def enter():
        with settlement.transaction("trip"):
            pass

    enter()
    at, missed, sent = 0, [], True
    while sent:
        at += 1
        tracing = AtEventOfTheShield(signal.SIGINT, at)
        with suppress(Struck):
            with tracing:
                enter()
            until_struck()
            sent = tracing.seen >= at  # else it has fewer instructions than that
            missed += [at] if sent else []
        assert (shield._deferred, shield._depth, shield._main in shield.lock_holders) == ({}, 0, False), at
    assert at > 300
    assert missed == []


def test_a_handler_that_uses_the_settlement_may_be_struck_itself_at_any_instruction_of_the_shield(
    settlement, on_signal, monkeypatch
):
    """What the outer one has begun to give back, the inner one has wrapped anew: neither loses the real handler."""
    monkeypatch.setattr(shield, "_depth", 0)  # another test may have dropped a transaction in its block
    used = []

    def enter():
        with settlement.transaction("trip"):
            pass

    def uses(*_):
        used.append(sys.gettrace())
        sys.settrace(None)
        if len(used) == 1:
            nested = shield.raise_shield()
            assert nested
            signal.raise_signal(signal.SIGUSR1)
            shield.lower_shield()

    on_signal(signal.SIGUSR1, uses)
    enter()
    at, sent = 0, True
    while sent:
        at += 1
        used.clear()
        tracing = AtEventOfTheShield(signal.SIGUSR1, at)
        with tracing:
            enter()
        until_struck()
        sent = bool(used)
        assert len(used) == (2 if sent else 0), at
        enter()
        assert (signal.getsignal(signal.SIGUSR1), shield._deferred, shield._depth) == (uses, {}, 0), at
    assert at > 300


def test_a_signal_that_is_sent_again_while_the_shield_is_lowered_strikes_once(on_signal, monkeypatch):
    sending, lowered, sent, struck = threading.Event(), threading.Event(), threading.Event(), []
    on_signal(signal.SIGUSR1, lambda *_: struck.append("struck"))
    send = signal.pthread_kill

    def sent_late(thread, number):
        sending.set()
        assert lowered.wait(GENEROUS)
        send(thread, number)
        sent.set()

    @shield.closed
    def deferred():
        signal.raise_signal(signal.SIGUSR1)
        assert sending.wait(GENEROUS)

    assert shield.raise_shield()
    with monkeypatch.context() as patch:
        patch.setattr(signal, "pthread_kill", sent_late)
        deferred()
        shield.lower_shield()
        lowered.set()
        assert sent.wait(GENEROUS)
        until_struck()
    assert (struck, shield._deferred, shield._sent, shield._depth) == (["struck"], {}, {}, 0)


def test_one_class_alone_does_something_when_it_is_dropped():
    """Of what a signal's handler raises in a `__del__` nobody is told: what is left in time has none."""
    having = [path.name for path in Path(HOME).rglob("*.py") if "def __del__" in path.read_text()]
    assert having == ["on_drop.py"]


@pytest.mark.parametrize("when", ["within the block", "behind it"])
def test_who_sets_a_handler_in_a_block_and_takes_it_back_has_the_one_from_before(
    when, url, open_settlement, world, on_signal, monkeypatch
):
    """So do timeouts by an alarm, and what else borrows a signal for a while."""
    monkeypatch.setattr(shield, "_depth", 0)  # other tests keep transactions that they never leave
    settlement = open_settlement(url)
    struck = []
    on_signal(signal.SIGUSR1, lambda *_: struck.append("mine"))
    mine = signal.getsignal(signal.SIGUSR1)
    with settlement.transaction("trip") as tx:
        before = signal.signal(signal.SIGUSR1, lambda *_: struck.append("borrowed"))
        tx.call(world.book, s="trip")
        signal.raise_signal(signal.SIGUSR1)
        if when == "within the block":
            signal.signal(signal.SIGUSR1, before)
            signal.raise_signal(signal.SIGUSR1)
    if when == "behind it":
        signal.signal(signal.SIGUSR1, before)
    signal.raise_signal(signal.SIGUSR1)
    assert struck == ["borrowed", *["mine"] * (2 if when == "within the block" else 1)]
    act(settlement, world, "tour")
    assert signal.getsignal(signal.SIGUSR1) is mine


@pytest.mark.parametrize("patience", [shield.DEFER_SECONDS, 0.001])
def test_a_storm_of_interrupts_leaves_nothing_behind(patience, url, open_settlement, world, on_signal, monkeypatch):
    monkeypatch.setattr(shield, "DEFER_SECONDS", patience)
    settlement = open_settlement(url, keep_open=0)
    armed = [False]

    def struck(*_):
        if armed[0]:
            raise Struck

    on_signal(signal.SIGINT, struck)
    over = threading.Event()

    def storm():
        while not over.wait(0.0007):
            interrupt_main()

    def attempt(name):
        armed[0] = True
        try:
            act(settlement, world, name)
        finally:
            armed[0] = False

    thread = threading.Thread(target=storm)
    thread.start()
    wrong = []
    for number in range(30):
        name = f"x{number}"
        with suppress(Struck):
            attempt(name)
        while armed[0]:
            try:
                armed[0] = False
            except Struck:
                continue
        wrong += [f"{name}: {found}" for found in wrong_with(settlement, world, name)]
    over.set()
    thread.join()
    assert wrong == []


def in_a_hold(settlement, name):
    with settlement.hold(f"room:/{name}", name=name):
        pass


@pytest.mark.sampled(4)
@pytest.mark.parametrize("part", range(4))
def test_one_interrupt_at_any_instruction_leaves_no_hold_behind(part, url, open_settlement, world, on_signal):
    settlement = open_settlement(url, keep_open=0)
    on_signal(signal.SIGINT, strike)
    in_a_hold(settlement, "warm")
    counting = AtEvent(signal.SIGINT, 0)
    with counting:
        in_a_hold(settlement, "whole")
    wrong = []
    for number, at in enumerate(range(1 + 13 * part, counting.seen, 13 * 4)):
        with suppress(Struck):
            with AtEvent(signal.SIGINT, at):
                in_a_hold(settlement, f"x{number}")
            until_struck()
        wrong += [f"at {at}: {found}" for found in wrong_with(settlement, world, f"x{number}")]
    assert wrong == []


class AtEventOfTheBlock(AtEvent):
    """Raises a signal at the n-th instruction of what a block is entered and left by."""

    def _called(self, frame, event, argument):
        return super()._called(frame, event, argument) if frame.f_code.co_filename.startswith(f"{HOME}/_api") else None


@pytest.mark.parametrize("opening", ["a transaction", "a hold"])
def test_a_handler_that_the_block_has_set_leaves_nothing_behind_as_the_block_is_left(
    opening, url, open_settlement, world, on_signal
):
    """So do timeouts by an alarm that is armed in the block."""
    settlement = open_settlement(url, keep_open=0)
    before = signal.getsignal(signal.SIGALRM)
    at, wrong, struck, sent = 0, [], 0, True
    while sent:
        at += 1
        name = f"x{at}"
        tracing = AtEventOfTheBlock(signal.SIGALRM, at)
        block = settlement.transaction(name) if opening == "a transaction" else settlement.hold(f"room:/{name}")
        try:
            with block as face:
                if opening == "a transaction":
                    face.call(world.book, s=name)
                on_signal(signal.SIGALRM, strike)
                tracing.__enter__()
            tracing.__exit__()
            until_struck()
        except Struck:
            tracing.__exit__()
            struck += 1
        sent = tracing.seen >= at
        face = block = None
        signal.signal(signal.SIGALRM, before)
        deadline = time.monotonic() + GENEROUS
        while host_of(settlement).protocol.live and time.monotonic() < deadline:
            time.sleep(0.01)  # what was struck before it was left is undone as what is dropped
        wrong += [f"at {at}: {found}" for found in wrong_with_undone(settlement, world, name)]
    assert wrong == []
    assert struck > 20


def wrong_with_undone(settlement, world, name):
    """Return what is wrong, where what was done and is on record as committed is right without a mail."""
    done = world.count("do", name) - world.count("undo", name)
    kept = [r.state for r in settlement.transactions() if r.row.name == name] == [State.COMMITTED]
    if done == kept:
        world.log = [(what, s) for what, s in world.log if s != name]
    return wrong_with(settlement, world, name)


HANDLED = sorted(
    {each for each in signal.Signals if each.name not in {"SIGRTMIN", "SIGRTMAX"}}
    - {signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    - {signal.SIGTRAP, signal.SIGSYS}
)


@pytest.mark.parametrize("number", HANDLED, ids=lambda number: signal.Signals(number).name)
def test_each_signal_that_a_user_may_handle_is_put_off_while_the_engine_is_at_work(number, on_signal):
    struck = []
    on_signal(number, lambda *_: struck.append("struck"))

    @shield.closed
    def at_work():
        signal.raise_signal(number)
        return list(struck)

    assert shield.raise_shield()
    told = at_work()
    shield.lower_shield()
    until_struck()
    assert (told, struck) == ([], ["struck"])


def test_what_an_event_loop_does_at_a_signal_is_done_once(on_signal, monkeypatch):
    """The loop is told by a pipe each time that a signal is sent: nobody begins to send this one again."""
    on_signal(signal.SIGTERM, signal.SIG_DFL)
    told, senders = [], []
    monkeypatch.setattr(shield, "start_bare_thread", lambda *sender: senders.append(sender))

    @shield.closed
    def at_work():
        signal.raise_signal(signal.SIGTERM)

    async def main():
        heard = asyncio.Event()

        def hear():
            told.append("told")
            heard.set()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, hear)
        assert shield.raise_shield()
        at_work()
        shield.lower_shield()
        until_struck()
        await heard.wait()

    asyncio.run(main())
    assert (told, senders) == (["told"], [])


@pytest.mark.parametrize("use", ["residue", "run", "cancel"])
def test_a_signals_handler_may_use_the_settlement_itself(use, url, open_settlement, world, on_signal):
    settlement = open_settlement(url, keep_open=0)
    used = []

    def uses(*_):
        number = len(used)
        used.append(number)
        if use == "residue":
            settlement.residue()
        elif use == "run":
            settlement.run(f"handled {number}", lambda tx: tx.call(world.book, s=f"handled {number}"))
        else:
            settlement.cancel(f"other {number}")

    on_signal(signal.SIGUSR1, uses)
    act(settlement, world, "warm")
    counting = AtEvent(signal.SIGUSR1, 0)
    with counting:
        act(settlement, world, "whole")
    for number, at in enumerate(range(5, counting.seen * 9 // 10, counting.seen // 9)):
        with AtEvent(signal.SIGUSR1, at):
            act(settlement, world, f"x{number}")
        deadline = time.monotonic() + 30
        while len(used) <= number and time.monotonic() < deadline:
            time.sleep(0.01)  # one that was put off at the very end strikes as soon as it is sent again
        assert len(used) == number + 1
        assert wrong_with(settlement, world, f"x{number}") == []
        assert world.count("leave", f"x{number}") == 1


def test_what_a_signal_came_before_is_not_in_doubt(url, open_settlement, world, on_signal):
    """It was put off until the call, which then was not made."""
    settlement = open_settlement(url, keep_open=0)
    on_signal(signal.SIGINT, strike)
    intent = type(host_of(settlement).driver.kernel).still_ours

    def struck(driver, txn):
        signal.raise_signal(signal.SIGINT)
        return intent(driver, txn)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Struck):
        patch.setattr(type(host_of(settlement).driver.kernel), "still_ours", struck)
        act(settlement, world, "trip")
    assert world.log == []
    assert settlement.residue() == []
    assert [[e.outcome.value for e in r.effects] for r in settlement.transactions()] == [["failed"]]


def test_an_undo_is_not_cut_short_by_an_interrupt(url, open_settlement, on_signal):
    settlement = open_settlement(url, keep_open=0)
    on_signal(signal.SIGINT, strike)
    log = []

    def cancel(s):
        log.append("begins")
        signal.raise_signal(signal.SIGINT)
        log.append("ends")

    @effect("reversible", scope="room:/{s}", undo=cancel)
    def book(s):
        log.append("book")

    with pytest.raises(Struck), settlement.transaction("trip") as tx:
        tx.call(book, s="a")
        raise LookupError
    assert log == ["book", "begins", "ends"]
    assert settlement.residue() == []


def test_an_undo_that_hangs_is_stopped_by_an_interrupt_after_a_while_and_tried_again(
    url, open_settlement, on_signal, monkeypatch
):
    monkeypatch.setattr(shield, "DEFER_SECONDS", 0.05)
    settlement = open_settlement(url, keep_open=0)
    on_signal(signal.SIGINT, strike)
    log = []

    def cancel(s):
        log.append("begins")
        if len(log) == 1:
            signal.raise_signal(signal.SIGINT)
            threading.Event().wait(GENEROUS)
        log.append("ends")

    @effect("reversible", scope="room:/{s}", undo=cancel)
    def book(s):
        pass

    with pytest.raises(LookupError), settlement.transaction("trip") as tx:
        tx.call(book, s="a")
        raise LookupError
    assert log == ["begins", "begins", "ends"]  # the first was cut off: or its end would stand before the second
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_who_is_interrupted_while_another_thread_undoes_its_work_leaves_when_that_is_on_record(
    url, open_settlement, on_signal, monkeypatch
):
    settlement = open_settlement(url, keep_open=0)
    log, told, struck = [], threading.Event(), threading.Event()

    def strikes(*_):
        struck.set()
        raise Struck

    on_signal(signal.SIGINT, strikes)

    def cancel(s):
        while not (shield._deferred or struck.is_set()):
            # Again and again: one that comes just before a thread blocks is seen when that is over.
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.01)
        log.append(f"struck while it is undone: {struck.is_set()}")

    @effect("reversible", scope="room:/{s}", undo=cancel)
    def book(s):
        log.append("book")

    tidy = host_of(settlement).driver.undoing.tidy

    def left_to_another(beside=None):
        if threading.current_thread() is not threading.main_thread():
            return (yield from tidy(beside))
        told.set()

    def another():
        told.wait(30)
        run_sync(tidy())

    monkeypatch.setattr(host_of(settlement).driver.undoing, "tidy", left_to_another)
    thread = threading.Thread(target=another)
    thread.start()
    with pytest.raises(Struck), settlement.transaction("trip") as tx:
        tx.call(book, s="a")
        raise LookupError
    recorded = [(r.state, [e.outcome.value for e in r.effects]) for r in settlement.transactions()]
    thread.join()
    assert log == ["book", "struck while it is undone: False"]
    assert recorded == [("aborted", ["undone"])]
    assert settlement.residue() == []


def test_handlers_are_as_they_were_when_the_engine_is_not_at_work(url, open_settlement, world, on_signal, monkeypatch):
    monkeypatch.setattr(shield, "_depth", 0)  # other tests enter transactions that they never leave
    settlement = open_settlement(url)
    on_signal(signal.SIGINT, strike)
    act(settlement, world, "trip")
    assert signal.getsignal(signal.SIGINT) is strike
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    act(settlement, world, "tour")
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def kept_open(settlement, how):
    """Enter a transaction by hand, and return what keeps it."""
    if how == "its face":
        return settlement.transaction("open").__enter__()
    if how == "its opening":
        opening = settlement.transaction("open")
        opening.__enter__()
        return opening
    if how == "a stack":
        stack = ExitStack()
        stack.enter_context(settlement.transaction("open"))
        return stack

    def works():
        with settlement.transaction("open"):
            yield

    work = works()
    next(work)
    return work


def test_a_block_that_another_thread_leaves_is_counted_down_by_the_main_thread_alone(url, open_settlement, on_signal):
    """Two threads that count at once may both count from the same number."""
    settlement = open_settlement(url)
    on_signal(signal.SIGINT, strike)
    block = settlement.transaction("open")
    block.__enter__()
    thread = threading.Thread(target=block.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert shield._depth == 1
    settlement.run("tour", lambda tx: None)
    assert (signal.getsignal(signal.SIGINT), shield._depth) == (strike, 0)


def test_a_block_that_is_left_after_the_collector_has_dropped_its_guard_lowers_the_shield_once(
    url, open_settlement, on_signal, monkeypatch
):
    """In a circle the collector ends the guard first, then the generator whose block the guard is of."""
    monkeypatch.setattr(shield, "_depth", 0)
    settlement = open_settlement(url)
    on_signal(signal.SIGINT, strike)
    block = settlement.transaction("open")
    block.__enter__()

    block._shield.__del__()
    block.__exit__(None, None, None)

    settlement.run("tour", lambda tx: None)
    assert (signal.getsignal(signal.SIGINT), shield._depth) == (strike, 0)


@pytest.mark.parametrize("where", ["here", "in a thread", "in a tool", "in a circle"])
@pytest.mark.parametrize("how", ["its face", "its opening", "a stack", "a generator"])
def test_who_drops_a_transaction_leaves_the_handlers_as_they_were(
    how, where, url, open_settlement, world, on_signal, monkeypatch
):
    """A handler that stayed wrapped would come back in place of one that its user sets and takes back."""
    monkeypatch.setattr(shield, "_depth", 0)  # other tests keep transactions that they never leave
    settlement = open_settlement(url)
    on_signal(signal.SIGINT, strike)
    kept = [kept_open(settlement, how)]
    if how != "its face":  # which nobody can leave, as nobody has its opening
        assert signal.getsignal(signal.SIGINT) is not strike
    if where == "in a thread":
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join()
    elif where == "in a tool":

        @effect("opaque", name="drops")
        def drops():
            kept.clear()

        settlement.run("trip", lambda tx: tx.call(drops))
    elif where == "in a circle":
        kept.append(kept)
        del kept
        gc.collect()
    else:
        kept.clear()
    act(settlement, world, "tour")

    assert (signal.getsignal(signal.SIGINT), shield._depth) == (strike, 0)


def test_a_stack_with_no_room_begins_nothing(url, open_settlement, world):
    settlement = open_settlement(url, keep_open=0)
    ended = []

    def down(frames, name):
        if frames:
            return down(frames - 1, name)
        return act(settlement, world, name)

    def depth():
        frame, count = sys._getframe(1), 0
        while frame is not None:
            frame, count = frame.f_back, count + 1
        return count

    room = sys.getrecursionlimit() - depth()
    for number, left in enumerate(range(5, 400, 23)):
        name = f"x{number}"
        try:
            down(room - left, name)
            ended.append(name)
        except RecursionError:
            pass
        assert wrong_with(settlement, world, name) == []
    assert ended


class DeliveredMeanwhile(dict):
    """What was sent again: each is delivered in the moment between being noted here and being sent."""

    def __setitem__(self, number, since):
        super().__setitem__(number, since)
        shield._deferred.pop(number, None)


def test_a_signal_that_is_delivered_as_it_is_to_be_sent_again_is_sent_no_more(monkeypatch):
    number = signal.SIGUSR2
    before = signal.signal(number, shield._Deferring(lambda *_: None))
    monkeypatch.setattr(shield, "_sent", DeliveredMeanwhile())
    try:
        shield._deferred[number] = time.monotonic()
        sending = threading.Thread(target=shield._send_again, args=(number,), daemon=True)
        sending.start()
        sending.join(GENEROUS)
        assert (sending.is_alive(), shield._deferred, dict(shield._sent)) == (False, {}, {})
    finally:
        shield._deferred.pop(number, None)
        shield._sent.pop(number, None)
        signal.signal(number, before)
