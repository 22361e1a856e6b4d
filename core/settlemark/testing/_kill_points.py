"""Kill points: every moment at which a process can die around a statement of its ledger.

Recovery is for a crash between two statements; so a sweep kills once before and once after each statement and each
commit, and examines what the next process makes of it.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from settlemark._edges.errors import UsageError
from settlemark.testing._child import Exit, Tell, die, in_child

if TYPE_CHECKING:
    import sqlalchemy as sa

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class KillPoint:
    """A moment before or after a statement (or a commit) reaches the database; numbered from 1.

    >>> print(KillPoint(4, "after", "COMMIT"))
    4: after COMMIT
    """

    number: int
    when: Literal["before", "after"]
    statement: str

    def __str__(self) -> str:
        return f"{self.number}: {self.when} {self.statement}"


class KillPoints:
    """Counts the statements that ledgers send while it is entered, and kills the process at the chosen one.

    Other statements of SQLAlchemy count as well: an agent's tools may have a database of their own.

    Args:
        at: the number of the point to die at, by SIGKILL; None only counts.
        url: the one database to watch beside the ledgers' own connection; by default all of SQLAlchemy's.
        tell: called with each point before anything is done there.

    Laws: every statement and every commit is two points, one before and one after it. All threads of the process die
    with it.

    >>> import tempfile; from settlemark import Settlement
    >>> with KillPoints() as points, Settlement(f"sqlite:///{tempfile.mkdtemp()}/ledger.db"):
    ...     pass
    >>> [str(point).split()[:2] for point in points.seen[:2]]
    [['1:', 'before'], ['2:', 'after']]
    """

    def __init__(
        self, at: int | None = None, *, url: str | None = None, tell: Callable[[KillPoint], object] | None = None
    ) -> None:
        if at is not None and at < 1:
            raise UsageError(f"there is no kill point {at}: they are numbered from 1")
        self.at = at
        self.seen: list[KillPoint] = []
        self._url = url
        self._tell = tell
        self._lock = threading.Lock()
        self._inside = False

    def __enter__(self) -> Self:
        from sqlalchemy import Engine, event

        from settlemark.ledger._sql.wire import watchers

        for name, listener in self._listeners().items():
            event.listen(Engine, name, listener)
        watchers.append(self._on_wire)
        self._inside = True
        return self

    def __exit__(self, *_: object) -> None:
        from sqlalchemy import Engine, event

        from settlemark.ledger._sql.wire import watchers

        self._inside = False
        watchers.remove(self._on_wire)
        for name, listener in self._listeners().items():
            event.remove(Engine, name, listener)

    @classmethod
    def count(cls, play: Callable[[], object], *, url: str | None = None, timeout: float = 60.0) -> int:
        """Count the points in `play`, which is called once in a child process.

        Raises:
            RuntimeError: it failed there; the message carries its traceback.
        """
        ended = cls(url=url).run(play, timeout=timeout)
        _check(ended)
        return len(ended.told)

    def run(self, play: Callable[[], object], *, timeout: float = 60.0) -> Exit:
        """Call `play` in a child process under these points, and return how it ended; `told` are the points.

        Nothing is counted here: `play` opens its settlement itself, and this process holds none open.
        """
        _load_store()

        def watched(tell: Tell) -> None:
            def told(point: KillPoint) -> None:
                tell([point.number, point.when, point.statement])

            with type(self)(self.at, url=self._url, tell=told):
                play()

        return in_child(watched, timeout=timeout)

    def _listeners(self) -> dict[str, Callable[..., None]]:
        return {"before_cursor_execute": self._before, "after_cursor_execute": self._after, "commit": self._commit}

    def _on_wire(self, when: str, statement: str) -> None:
        # A ledger's own connection does not use SQLAlchemy's events.
        self._pass("before" if when == "before" else "after", statement)

    def _before(
        self, connection: sa.Connection, _cursor: Any, statement: str, _values: Any, _context: Any, _many: bool
    ) -> None:
        if self._watches(connection.engine.url):
            self._pass("before", statement)

    def _after(
        self, connection: sa.Connection, _cursor: Any, statement: str, _values: Any, _context: Any, _many: bool
    ) -> None:
        if self._watches(connection.engine.url):
            self._pass("after", statement)

    def _commit(self, connection: sa.Connection) -> None:
        if self._watches(connection.engine.url):
            self._pass("before", "COMMIT")
            # SQLAlchemy's event precedes the commit: to die after the commit, perform it here.
            self._pass("after", "COMMIT", lambda: connection.dialect.do_commit(connection.connection))

    def _pass(
        self, when: Literal["before", "after"], statement: str, first: Callable[[], object] | None = None
    ) -> None:
        if not self._inside:
            return
        with self._lock:
            point = KillPoint(len(self.seen) + 1, when, " ".join(statement.split()))
            self.seen.append(point)
            due = point.number == self.at
            if due and first is not None:
                first()
            if self._tell is not None:
                self._tell(point)
            if due:
                die()

    def _watches(self, url: sa.URL) -> bool:
        if self._url is None:
            return True
        import sqlalchemy as sa

        wanted = sa.make_url(self._url)
        return (url.get_backend_name(), url.host, url.port, url.database) == (
            wanted.get_backend_name(),
            wanted.host,
            wanted.port,
            wanted.database,
        )


def kill_points(
    play: Callable[[], object],
    *,
    reset: Callable[[], object] | None = None,
    url: str | None = None,
    timeout: float = 60.0,
) -> Iterator[KillPoint]:
    """Yield after each death of `play`: at the first kill point of its ledger, at the second, and so on.

    Before each, `reset` is called here, then `play` in a child process, which is killed there; recover and
    look at the world in the loop's body. It ends when `play` comes to its end unharmed.

    Args:
        play: opens its own settlement, acts, and closes it.
        reset: makes the world and the ledger new.
        url: the one database to watch beside the ledgers' own wire; by default all that SQLAlchemy talks to.
        timeout: seconds that one play may take.

    Raises:
        RuntimeError: `play` failed, or took too long; the message carries its traceback.
        UsageError: this system cannot fork.

    >>> import itertools, tempfile; from pathlib import Path; from settlemark import Settlement, effect
    >>> folder = Path(tempfile.mkdtemp())
    >>> def sent(to): return True if (folder / "mail").exists() else None
    >>> @effect("irreversible", scope="mail:/{to}", probe=sent)
    ... def mail(to): (folder / "mail").touch()
    >>> def play():
    ...     with Settlement(f"sqlite:///{folder}/ledger.db") as settlement, settlement.transaction("greet") as tx:
    ...         tx.call(mail, to="ada")
    >>> def reset():
    ...     for file in folder.iterdir(): file.unlink()
    >>> left = []
    >>> for point in itertools.islice(kill_points(play, reset=reset), 20):  # the first of them, for a start
    ...     play()
    ...     left.append((folder / "mail").exists())
    >>> (len(left), all(left))
    (20, True)
    """
    for number in range(1, _MOST):
        if reset is not None:
            reset()
        ended = KillPoints(number, url=url).run(play, timeout=timeout)
        if not ended.killed:
            _check(ended)
            return
        reached = ended.told[-1]
        yield KillPoint(*reached)
    raise RuntimeError(f"there are {_MOST} kill points and no end: let play do less")


def _check(ended: Exit) -> None:
    if ended.error is not None:
        raise RuntimeError(f"what was played failed without being killed:\n{ended.error}")
    if ended.signal is not None:
        raise RuntimeError(
            f"what was played took too long and was ended; give it a longer timeout=; it was here:\n{ended.stack}"
            if ended.late
            else f"what was played was ended by signal {ended.signal}"
        )


def _load_store() -> None:
    # Here and not in every child, which would load it anew each time.
    importlib.import_module("settlemark.ledger._replica.store")
