"""Runs the tests of a room against its mutants, in copies of the checkout, and keeps what came of each."""

from __future__ import annotations

import compileall
import json
import math
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue
from typing import Any, Literal, Self

from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult
from tests.mutants._aiming import Aim, aimed
from tests.mutants._mutating import Mutant, changed_lines, difference, mutants_of
from tests.mutants._reaching import FILES, MOST, RECORD
from tests.mutants._rooms import ROOTS, Room, is_deep

Ending = Literal["killed", "timed out", "survived"]
_TOLD = 4000
_FIRST = 10
"""For how many seconds of the processor the quick tests that reach a mutant run."""
_PATIENCE = 20
"""How many times its seconds of the processor a run is given by the clock on the wall."""
_SOME_FAILED, _NOT_FOUND, _NONE = 1, 4, 5
"""pytest's statuses where tests fail, one that is named is not found (with the mutant it has another name), or none is
run."""
_BROKEN = "found no collectors"
"""What pytest says of a test whose file cannot be imported."""
_Strike = Callable[[Mutant, str, Path], tuple[int | None, str]]


class NothingShown(Exception):
    """No score can be told: the tests fail without a mutant, or the list of equivalent ones is not true any more."""


@dataclass(frozen=True)
class Equivalent:
    """A mutant that is the same program, and why."""

    file: str
    was: str
    became: str
    why: str


@dataclass
class Score:
    """What came of a room's mutants.

    `survivors` are told as differences, `left` were not run yet; `aside` are tests that fail without a mutant.
    """

    room: Room
    mutants: int = 0
    endings: dict[str, Ending] = field(default_factory=dict)
    survivors: list[str] = field(default_factory=list)
    equivalent: list[Equivalent] = field(default_factory=list)
    left: int = 0
    aside: list[str] = field(default_factory=list)

    def count(self, *endings: Ending) -> int:
        """Return how many ended so."""
        return sum(ending in endings for ending in self.endings.values())

    @property
    def percent(self) -> float | None:
        """How many of a hundred were noticed, or None: none was run."""
        return 100 * self.count("killed", "timed out") / len(self.endings) if self.endings else None

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "room": self.room.name,
            "aim": self.room.aim,
            "percent": self.percent,
            "mutants": self.mutants,
            "run": len(self.endings),
            "killed": self.count("killed"),
            "timed_out": self.count("timed out"),
            "survived": self.count("survived"),
            "equivalent": [vars(each) for each in self.equivalent],
            "left": self.left,
            "aside": self.aside,
            "survivors": self.survivors,
        }


class Checkout:
    """A checkout whose mutants are run.

    Args:
        root: where it is.
        equivalents: the file that lists the mutants that are the same program.
        state: the folder that keeps what came of each mutant, so that a run that was stopped goes on.
        processes: how many mutants are run at a time.
        environment: more variables for the tests.
        least: seconds that each run of tests has by the clock; twenty times those of the processor are added.
        deep: seconds of the processor for which the deeper tests run against what the quick ones did not notice: all
            cases of those that reach a mutant, and then the room's that the quick tests leave out.

    Laws: all of a run is of the checkout as it was when it was opened, whatever is edited meanwhile; nothing in the
    checkout is changed.
    """

    def __init__(
        self,
        root: Path,
        equivalents: Path,
        state: Path,
        *,
        processes: int = 1,
        environment: Mapping[str, str] | None = None,
        least: float = 30.0,
        deep: float = 60.0,
    ) -> None:
        self.root, self._state, self._processes, self._least, self._deep = root, state, processes, least, deep
        text = equivalents.read_text() if equivalents.exists() else ""
        self._equivalents = [Equivalent(**each) for each in tomllib.loads(text).get("equivalent", [])]
        self._environment = dict(environment or {})
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._copies: list[Path] = []
        self._stopped = threading.Event()
        self._parsing = threading.Lock()  # CPython 3.11.7 raises a SystemError where two threads parse at once

    def __enter__(self) -> Self:
        """Copy the checkout."""
        self._folder = tempfile.TemporaryDirectory(prefix="settlemark-mutants-")
        first = Path(self._folder.name, "0")
        self._copy(first)
        self.root, self._copies = first, [first]
        return self

    def __exit__(self, *_exception: object) -> None:
        """Remove the copies."""
        if self._folder is not None:
            self._folder.cleanup()

    # ---- which

    def chosen(
        self, room: Room, files: Sequence[str] | None = None, sample: int | None = None, seed: int = 0
    ) -> list[Mutant]:
        """Return a room's mutants: of some of its files, or some of them, the same ones for the same seed."""
        known = room.files(self.root)
        found = [each for file in known if files is None or file in files for each in mutants_of(self.root, file)]
        if sample is None or sample >= len(found):
            return found
        return random.Random(f"{seed}/{room.name}").sample(found, sample)

    def equivalents_of(self, room: Room) -> dict[str, Equivalent]:
        """Return which mutants of a room are listed as the same program, by their ids.

        Raises:
            NothingShown: a listed one is no mutant any more.
        """
        found: dict[str, Equivalent] = {}
        files = room.files(self.root)
        for entry in self._equivalents:
            if entry.file not in files:
                continue
            source = (self.root / entry.file).read_text()
            first = entry.was.partition("\n")[0]
            lines = {number for number, line in enumerate(source.splitlines(), 1) if line.strip() == first}
            ids = [
                each.id
                for each in mutants_of(self.root, entry.file)
                if each.where[0][0] in lines
                and changed_lines(source, each.code(source) or source) == (entry.was, entry.became)
            ]
            if not ids:
                raise NothingShown(
                    f"the list of equivalent mutants has {entry.was!r} -> {entry.became!r} of {entry.file}, which is no"
                    " mutant any more: take it off the list, or say it as the file is now"
                )
            found |= dict.fromkeys(ids, entry)
        return found

    def check_listed(self, rooms: Sequence[Room]) -> None:
        """Return when every entry of the list is about a file of some room, and is a mutant of it.

        Raises:
            NothingShown: one is not.
        """
        known = {file for room in rooms for file in room.files(self.root)}
        for entry in self._equivalents:
            if entry.file not in known:
                raise NothingShown(f"the list of equivalent mutants names {entry.file}, which no room has: take it off")
        for room in rooms:
            self.equivalents_of(room)

    # ---- running

    def play(
        self, room: Room, mutants: Sequence[Mutant], *, again: bool = False, told: Callable[[Score], object] = bool
    ) -> Score:
        """Run a room's tests against mutants of it, and return what came of them.

        A mutant's ending is kept until its file changes. `again` runs those again that survived, with today's tests.

        Raises:
            NothingShown: the tests fail without a mutant, or all were skipped, or a listed mutant is none any more.
        """
        listed = self.equivalents_of(room)
        score = Score(room, len(mutants), equivalent=[listed[each.id] for each in mutants if each.id in listed])
        with self._kept(room) as kept:
            results = dict(kept.results)
            waiting: list[Mutant] = []
            for each in mutants:
                known = results.get(each.id)
                if each.id in listed or (known is not None and known.worker_outcome is WorkerOutcome.NO_TEST):
                    continue
                if known is None or (again and known.test_outcome is TestOutcome.SURVIVED):
                    waiting.append(each)
                else:
                    _count(score, each, known)
            items = {item.job_id for item in kept.work_items}
            kept.add_work_items(each.item() for each in waiting if each.id not in items)
            score.left = len(waiting)
            told(score)
            if waiting:
                self._run(room, score, waiting, lambda each, result: self._keep(kept, score, each, result, told))
        return score

    @contextmanager
    def _kept(self, room: Room) -> Iterator[WorkDB]:
        self._state.mkdir(parents=True, exist_ok=True)
        kept = WorkDB(self._state / f"{room.name}.sqlite", WorkDB.Mode.create)
        try:
            yield kept
        finally:
            kept.close()

    @staticmethod
    def _keep(kept: WorkDB, score: Score, mutant: Mutant, result: WorkResult, told: Callable[[Score], object]) -> None:
        kept.set_result(mutant.id, result)
        if result.worker_outcome is WorkerOutcome.NORMAL:
            _count(score, mutant, result)
        score.left -= 1
        told(score)

    def _run(
        self, room: Room, score: Score, waiting: Sequence[Mutant], keep: Callable[[Mutant, WorkResult], None]
    ) -> None:
        with ThreadPoolExecutor(self._processes) as pool:
            try:
                aim = self._aim(room, pool)
                score.aside = aim.aside
                while len(self._copies) < min(self._processes, len(waiting)):
                    self._copies.append(Path(shutil.copytree(self.root, self.root.with_name(str(len(self._copies))))))
                free: SimpleQueue[Path] = SimpleQueue()
                for copy in self._copies:
                    free.put(copy)
                passed: list[Mutant] = []  # the deeper tests are run when all have met the quick ones

                def kept(mutant: Mutant, result: WorkResult) -> None:
                    if result.test_outcome is TestOutcome.SURVIVED:
                        passed.append(mutant)
                    else:
                        keep(mutant, result)

                quick = partial(self._strike_quickly, room, aim)
                self._gather({pool.submit(self._ended, quick, each, free): each for each in waiting}, kept)
                deeply = partial(self._strike_deeply, room, aim)
                self._gather({pool.submit(self._ended, deeply, each, free): each for each in passed}, keep)
            except BaseException:
                self._stopped.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _aim(self, room: Room, pool: ThreadPoolExecutor) -> Aim:
        def run(files: list[str]) -> dict[str, Any]:
            shares = [files[at :: self._processes] for at in range(min(self._processes, len(files)))]
            return {test: told for share in pool.map(partial(self._recorded, room), shares) for test, told in share}

        kept = self._state / f"{room.name}.reached.json"
        aim = aimed(self.root, room, kept, run)
        if aim.is_idle:
            kept.unlink()
            raise NothingShown(f"no test of {room.name} reaches a line of it: is what they need not there?")
        return aim

    def _recorded(self, room: Room, files: list[str]) -> Iterable[tuple[str, Any]]:
        """Run test files without a mutant, and return what was recorded of their tests."""
        with tempfile.TemporaryDirectory(dir=self.root.parent) as folder:
            record = Path(folder, "recorded.json")
            said = {RECORD: str(record), FILES: os.pathsep.join(room.files(self.root))}
            status, output = self._tested(room, files, self.root, 4 * 3600.0, said, all_of_them=True)
            recorded = json.loads(record.read_text()) if record.exists() else {}
            if status != 0 and not (status == _SOME_FAILED and any(not told["failed"] for told in recorded.values())):
                raise NothingShown(f"the tests of {room.name} fail without a mutant: mend that first\n{output}")
            return recorded.items()

    @staticmethod
    def _gather(running: dict[Future[WorkResult | None], Mutant], keep: Callable[[Mutant, WorkResult], None]) -> None:
        left = set(running)
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                if result is not None:
                    keep(running[future], result)

    def _ended(self, strike: _Strike, mutant: Mutant, free: SimpleQueue[Path]) -> WorkResult | None:
        """Return what came of a mutant, or None: it was stopped."""
        copy = free.get()
        try:
            path = copy / mutant.file
            source = path.read_text()
            with self._parsing:
                changed = mutant.code(source)
            if changed is None or self._stopped.is_set():
                return None if self._stopped.is_set() else WorkResult(WorkerOutcome.NO_TEST)
            path.write_text(changed)
            try:
                status, output = strike(mutant, source, copy)
            finally:
                path.write_text(source)
            if self._stopped.is_set():
                return None
            return WorkResult(
                WorkerOutcome.NORMAL,
                "timeout" if status is None else output,
                TestOutcome.KILLED if status != 0 else TestOutcome.SURVIVED,
                difference(mutant.file, source, changed),
            )
        finally:
            free.put(copy)

    def _strike_quickly(self, room: Room, aim: Aim, mutant: Mutant, source: str, copy: Path) -> tuple[int | None, str]:
        """Run the quick tests that reach a mutant, the quickest first."""
        with self._parsing:
            tests = aim.at(mutant, source, _FIRST)
        return self._struck(room, aim, tests, copy, _FIRST, room.extent) if tests else (0, "")

    def _strike_deeply(self, room: Room, aim: Aim, mutant: Mutant, source: str, copy: Path) -> tuple[int | None, str]:
        """Run all cases of all tests that reach a mutant, and then those of which it is not known what they reach."""
        with self._parsing:
            reaching = _whole(aim.at(mutant, source, math.inf))
        if reaching:
            status, output = self._struck(room, aim, reaching, copy, self._deep, "more")
            if status != 0:
                return status, output
        others = [*_whole(aim.blind), *filter(is_deep, room.tests)] if reaching else room.tests
        return self._struck(room, aim, others, copy, self._deep, "more") if others else (0, "")

    def _struck(
        self, room: Room, aim: Aim, tests: Sequence[str], copy: Path, seconds: float, extent: str
    ) -> tuple[int | None, str]:
        """Run tests of a copy for so many seconds of the processor."""
        limits = {MOST: str(seconds), "PYTEST_TIMEOUT": f"{60 + 10 * seconds:.0f}", "SETTLEMARK_TESTS": extent}
        named = [*tests, *(f"--deselect={test}" for test in aim.aside)]
        status, output = self._tested(room, named, copy, self._least + _PATIENCE * seconds, limits)
        # A file that cannot be imported with the mutant, or a conftest, has noticed it, by the same status.
        renamed = "ERROR: not found:" in output and "ERROR collecting" not in output and _BROKEN not in output
        nothing = status == _NONE or (status == _NOT_FOUND and renamed and tests is not room.tests)
        return 0 if nothing else status, output

    def _tested(
        self,
        room: Room,
        tests: Sequence[str],
        copy: Path,
        limit: float,
        more: Mapping[str, str],
        *,
        all_of_them: bool = False,
    ) -> tuple[int | None, str]:
        """Run tests in a copy, till one fails; return their status, None after so many seconds, and how they ended."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(copy / root) for root in ROOTS)}
        environment.pop("PYTEST_ADDOPTS", None)
        environment["SETTLEMARK_TESTS"] = room.extent
        # A file and no pipe: what the tests have left running would hold that open.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [*(part for part in room.command if not (all_of_them and part == "-x")), *tests],
                cwd=copy,
                env=environment | self._environment | more,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            deadline = time.monotonic() + limit
            while process.poll() is None and not self._stopped.is_set() and time.monotonic() < deadline:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
            status = process.poll()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it has left running
            process.wait()
            output.seek(0, os.SEEK_END)
            output.seek(max(0, output.tell() - _TOLD))
            return status, output.read().decode(errors="replace")

    def _copy(self, target: Path) -> None:
        """Copy what git would commit, with compiled files that are believed only for the very source they are of."""
        listed = subprocess.run(
            ["git", "ls-files", "-coz", "--exclude-standard"], cwd=self.root, check=True, capture_output=True
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (self.root / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.root / name, target / name)
        for root in ROOTS:
            if (target / root).is_dir():
                compileall.compile_dir(target / root, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)


def _whole(tests: Iterable[str]) -> list[str]:
    """Return tests without their cases: so all of them are run."""
    return list(dict.fromkeys(test.partition("[")[0] for test in tests))


def _count(score: Score, mutant: Mutant, result: WorkResult) -> None:
    if result.test_outcome is TestOutcome.SURVIVED:
        score.endings[mutant.id] = "survived"
        score.survivors.append(result.diff or mutant.file)
    else:
        score.endings[mutant.id] = "timed out" if result.output == "timeout" else "killed"


__all__ = ["Checkout", "Equivalent", "NothingShown", "Score"]
