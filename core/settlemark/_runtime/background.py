"""Background threads: they conclude aborts made by others, and take up what ended processes left.

Another process may abort a transaction while the transaction's caller is away thinking; a worker may end and leave
transactions to be taken up. A thread handles both. Where the application runs an event loop, handlers run in that loop:
an async client belongs to the loop it was made in.

A few threads end the transactions that were taken up, one transaction each: a handler that hangs delays only its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from settlemark._acts.perform import Program
from settlemark._edges.wording import kind_of
from settlemark._lifecycle.resolution import LONGEST_PAUSE
from settlemark._observe.logs import about, quote_of
from settlemark._runtime.aio import run_async
from settlemark._runtime.call_context import running_loop
from settlemark._runtime.sync import run_sync

if TYPE_CHECKING:
    from settlemark._runtime.driver import Driver

_log = logging.getLogger("settlemark")

_GRACE_SECONDS = 0.05
_REST_TIMES = 9
"""How many times as long as a look has kept the processor busy the next one waits."""
_SLICE_SECONDS = 1.0
_MOST_THREADS = 8


class _ThreadPool:
    """Runs programs concurrently, in a few threads that exist while there is something to run."""

    def __init__(self, run: Callable[[Program[None]], None]) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Program[None], Callable[[], None]]] = deque()
        self._threads: set[threading.Thread] = set()
        self._stopped = False

    def take(self, program: Program[Any], dropped: Callable[[], None]) -> None:
        """Run a program as soon as a thread is free; after `stop` the program is not begun, and `dropped` is called."""
        with self._lock:
            taken = not self._stopped
            if taken:
                self._waiting.append((program, dropped))
            if taken and len(self._threads) < _MOST_THREADS:
                thread = threading.Thread(target=self._work, name="settlemark-ender", daemon=True)
                self._threads.add(thread)
                thread.start()
        if not taken:
            dropped()

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._stopped or not self._waiting:
                    self._threads.discard(threading.current_thread())
                    return
                program, _ = self._waiting.popleft()
            self._run(program)
            del program

    def stop(self) -> None:
        """Return when the programs under way have ended."""
        with self._lock:
            self._stopped = True
            waiting, self._waiting = list(self._waiting), deque()
            threads = self._threads - {threading.current_thread()}
        for _, dropped in waiting:
            dropped()
        for thread in threads:
            thread.join()


class Maintenance:
    """Maintains a driver in a background thread, until it is stopped or the driver is collected.

    Args:
        driver: the driver whose transactions are maintained.
        every: seconds between two looks for workers that are gone.
    """

    name = "settlemark-maintenance"

    def __init__(self, driver: Driver, *, every: float) -> None:
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._driver = weakref.ref(driver)
        self._every = every
        self.loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self._running: set[Future[None]] = set()  # running in that loop
        self._left_alone = False
        self._pool = _ThreadPool(self._try)
        self._thread = threading.Thread(target=self._maintain, name=self.name, daemon=True)

    def start(self) -> None:
        """Start the thread; it first takes up what is there."""
        self._thread.start()

    def tell(self) -> None:
        """Report that there is work."""
        self._wake.set()

    def stop(self) -> None:
        """Stop when the work under way is done.

        From within the event loop that does this work, waiting for it is impossible: the work is left as by a process
        that ends, and the next process takes it up.
        """
        self._stopped.set()
        self._wake.set()
        if self.loop is not None and running_loop() is self.loop():
            self._left_alone = True
            for running in list(self._running):
                running.cancel()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        self._pool.stop()

    def _maintain(self) -> None:
        while not self._stopped.is_set():
            driver = self._driver()
            if driver is None:
                return
            began = time.thread_time()
            self._try(self._work(driver))
            spent = time.thread_time() - began
            pause = self._pause(driver)
            del driver
            if self._wake.wait(pause):
                # The step's own caller concludes it, if there is one; and a look at thousands leaves them time.
                self._stopped.wait(max(_GRACE_SECONDS, _REST_TIMES * spent))
            self._wake.clear()

    def _work(self, driver: Driver) -> Program[None]:
        return driver.maintain(self._pool.take)

    def _pause(self, driver: Driver) -> float:
        del driver
        return self._every

    def _try(self, program: Program[Any]) -> None:
        try:
            self._run(program)
        except BaseException as error:  # a handler may raise anything; the next look tries again
            if not (self._stopped.is_set() or getattr(error, "closed", False)):
                _log.warning(
                    "unfinished work could not be concluded: %s",
                    quote_of(error),
                    extra=about(error=kind_of(error)),
                )

    def _run(self, program: Program[Any]) -> None:
        loop = None if self.loop is None else self.loop()
        if loop is None or loop.is_closed() or not loop.is_running():
            run_sync(program)
            return None
        begun = self._in_loop(program)
        try:
            running = asyncio.run_coroutine_threadsafe(begun, loop)
        except RuntimeError:  # the loop was closed meanwhile: nobody runs the program
            begun.close()
            return None
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        if self._left_alone:
            running.cancel()
        while True:
            try:
                return running.result(_SLICE_SECONDS)
            except TimeoutError:
                if running.done():
                    raise
                if loop.is_closed() or (self._stopped.is_set() and not loop.is_running()):
                    self._left_alone = True  # nobody runs the program any more: the next process takes it up
                    running.cancel()
                    if loop.is_closed():
                        begun.close()  # where it has not begun, nobody will
                    return None

    async def _in_loop(self, program: Program[Any]) -> None:
        try:
            await run_async(program)
        except Exception:
            if not self._left_alone:  # else nobody would hear of the error, and the ledger is closed
                raise


class Prober(Maintenance):
    """Probes effects in doubt, in a background thread: a counterparty that hangs delays nobody's undo.

    Starts at the first doubt.
    """

    name = "settlemark-prober"

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver, every=LONGEST_PAUSE)
        self._begun = threading.Lock()

    def tell(self) -> None:
        """Report that an effect is in doubt."""
        if self._begun.acquire(blocking=False):
            self.start()
        self.wake()

    def stop(self) -> None:
        """Stop when the probe under way is answered; never start again."""
        self._begun.acquire(blocking=False)
        super().stop()

    def wake(self) -> None:
        """Wake the thread to look for work."""
        self._wake.set()

    def _work(self, driver: Driver) -> Program[None]:
        return driver.resolution.ask_again()

    def _pause(self, driver: Driver) -> float:
        due = self._until_due(driver)
        return self._every if due is None else min(self._every, due)

    def _until_due(self, driver: Driver) -> float | None:
        """Return for how many seconds there is nothing to do; None: nothing is known of."""
        return driver.resolution.until_due()


class Watch(Prober):
    """Watches how long transactions with a `max_age` have been open, in a background thread.

    Starts at the first such transaction.
    """

    name = "settlemark-watch"

    def _work(self, driver: Driver) -> Program[None]:
        return driver.ages.look_at_ages(self._pool.take)

    def _until_due(self, driver: Driver) -> float | None:
        return driver.ages.until_aged()


class DueWatch(Prober):
    """Has due obligations handled, in a background thread: a handler that hangs delays no transaction.

    Starts when something is owed.
    """

    name = "settlemark-due"

    def _work(self, driver: Driver) -> Program[None]:
        return driver.obligations.settle_due()

    def _until_due(self, driver: Driver) -> float | None:
        return driver.obligations.until_due()


class QuestionWatch(Prober):
    """Has what is due about questions done, in a background thread.

    Starts when a question with a deadline is put.
    """

    name = "settlemark-questions"

    def _work(self, driver: Driver) -> Program[None]:
        return driver.questions.settle_due()

    def _until_due(self, driver: Driver) -> float | None:
        return driver.questions.until_due()


class LeaseKeeper(Prober):
    """Renews the leases that are kept, in a background thread.

    Starts at the first one.
    """

    name = "settlemark-leases"

    def _work(self, driver: Driver) -> Program[None]:
        return driver.leases.renew_due()

    def _until_due(self, driver: Driver) -> float | None:
        return driver.leases.until_due()


class MendWatch(Prober):
    """Has what is stuck mended, or a person paged, in background threads: a model that hangs delays nobody's page.

    Starts when something may be stuck, in a settlement that mends.
    """

    name = "settlemark-mends"

    def _work(self, driver: Driver) -> Program[None]:
        return driver.mends.mend(self._pool.take)

    def _until_due(self, driver: Driver) -> float | None:
        return driver.mends.until_due()


__all__ = ["DueWatch", "LeaseKeeper", "Maintenance", "MendWatch", "Prober", "QuestionWatch", "Watch"]
