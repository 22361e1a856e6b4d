"""Mending what is stuck: a plan is asked for, checked, let a person say yes or no, run, and proven; else one is paged.

Each stage is on record before the next begins, in the versions of one entry (`claims`), and each is taken by one
worker. A plan is asked for, and a person is paged, under a claim that is good until it is due; the plan runs in a
transaction of its own, whose name nobody else can have at the same time, and which recovery ends as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from settlemark._acts.perform import Program
from settlemark._acts.requests import Sleep
from settlemark._edges.errors import Halted, LedgerError, SettlemarkError, WaitTimeout
from settlemark._edges.wording import in_words, is_a
from settlemark._engine.doubt import Probing
from settlemark._engine.kernel import Kernel
from settlemark._engine.undo.abort import Beside
from settlemark._mending.carrying import Carrying
from settlemark._mending.claims import PATIENCE, Case, NotOurs, body_of, draft_of, id_of, recorded_of
from settlemark._mending.paging import Proposer, leave_to_a_person, say
from settlemark._mending.remedy import ENDED, FOR_A_PERSON, KIND, RemedyState, remedy_in
from settlemark._mending.stuck import Stuck, stuck_in
from settlemark._mending.wanted import refuse_unwanted
from settlemark._protocol.protocol import Protocol
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Which
from settlemark.ledger._notices import next_notice

GRACE = 30.0
"""For how many seconds what is stuck waits for a process that proposes plans."""
LOOK = 5.0
"""Seconds between two looks while a plan waits for somebody else."""
_PAUSE = 0.02


class Mends:
    """Mends what is stuck, in the background.

    Attributes:
        proposing: returns a plan for what is stuck; None: nobody proposes here.
        carrying: carries plans out.
        channels: the names of those by which a person is told.
        on_paged: returns what is called when a person is to be told, known weakly.
        on_stuck: called when something may be stuck: somebody has to look.
        until: when to look again, on the store's clock; None: nothing is known.
    """

    def __init__(self, kernel: Kernel, probing: Probing) -> None:
        self._kernel = kernel
        kernel.refuse_unwanted = refuse_unwanted
        self.carrying = Carrying(kernel, probing)
        self.channels: tuple[str, ...] = ()
        self.on_paged: Callable[[], Callable[[], None] | None] = lambda: None
        self.proposing: Proposer | None = None
        self.on_stuck: Callable[[], None] | None = None
        self.until: float | None = None
        self._at: set[str] = set()
        self._later: dict[str, float] = {}

    @property
    def works(self) -> bool:
        """Whether anything is done here about what is stuck."""
        return self.proposing is not None or bool(self.channels)

    def look_again(self) -> None:
        """Report that something may be stuck."""
        if self.works and self.on_stuck is not None:
            self.on_stuck()

    def look_for_others(self) -> Program[None]:
        """Report it if there is something to do about what other processes have left stuck."""
        if not self.works:
            return
        due, to_tell = yield from self._kernel.look(lambda _protocol, book: self._is_due(book))
        if due:
            self.look_again()
        if to_tell:
            self._tell_again()

    def _tell_again(self) -> None:
        wake = self.on_paged()
        if wake is not None:
            wake()

    def _is_due(self, book: Book) -> tuple[bool, bool]:
        """Return whether something is to be mended here, and whether a person is to be told."""
        now = self._kernel.ledger.time()
        to_tell = next_notice(book) if self.channels else None
        found = ((id_of(self._kernel.prefix, stuck), stuck) for stuck in stuck_in(book))
        ready = (self._ready_at(number, stuck, book) for number, stuck in found if number not in self._at)
        return any(at is not None and at <= now for at in ready), to_tell is not None and to_tell <= now

    def until_due(self) -> float | None:
        """Return for how many seconds there is nothing to do; None: nothing is known of."""
        return None if self.until is None else max(0.0, self.until - self._kernel.ledger.time())

    def mend(self, beside: Beside | None = None) -> Program[None]:
        """Do what is to be done about all that is stuck; `beside` runs a program beside this one.

        Without it, what other threads are at is waited for, too, for as long as they may take.
        """
        if not self.works:
            return
        found: list[tuple[str, Stuck, bool]] = yield from self._kernel.step(partial(self._look, beside is None))
        for number, stuck, lapsed in found:
            with self._kernel.local:
                if number in self._at and not lapsed:
                    continue
                self._at.add(number)
            program = self._mend_one(number, stuck)
            if beside is not None:
                beside(program, partial(self._at.discard, number))
            else:
                yield from program
        pauses = int(PATIENCE / _PAUSE) if beside is None else 0
        while self._at and pauses > 0:
            pauses -= 1
            yield Sleep(_PAUSE, final=False)

    def _look(self, now_at_once: bool, _protocol: Protocol, book: Book) -> list[tuple[str, Stuck, bool]]:
        """Return what there is to do now, with whether a claim on it has lapsed; what was ended otherwise is over."""
        self.until, now = None, self._kernel.ledger.time()
        found = {id_of(self._kernel.prefix, stuck): stuck for stuck in stuck_in(book)}
        self._later = {number: at for number, at in self._later.items() if number in found}
        for state in RemedyState:
            for entry in () if state in ENDED else book.entries.find(Which(KIND, state=str(state))):
                if entry.id not in found and entry.id not in self._at:
                    book.entries.change(KIND, entry.id, state=RemedyState.OVER, at=now, from_version=entry.version)
        ready: list[tuple[str, Stuck, bool]] = []
        for number, stuck in found.items():
            at = self._ready_at(number, stuck, book)
            if at is not None and not now_at_once:
                at = max(at, self._later.get(number, at))
            if at is not None and at <= now:
                claimed = book.entries.get(KIND, number)
                ready.append((number, stuck, claimed is not None and claimed.due is not None))
            elif at is not None:
                self.until = at if self.until is None else min(self.until, at)
        return ready

    def _ready_at(self, number: str, stuck: Stuck, book: Book) -> float | None:
        """Return from when on there is something to do here about what is stuck; None: for others, or for nobody."""
        entry = book.entries.get(KIND, number)
        if entry is None:
            unprovable = self._unprovable(book, stuck)
            if unprovable or self.proposing is None:
                if not self.channels:
                    return None
                if not (unprovable or self._kernel.ledger.immediate):
                    return max((effect.at or 0.0 for effect in stuck.effects), default=0.0) + GRACE
            return 0.0
        state = RemedyState(entry.state)
        if state in ENDED or (state in FOR_A_PERSON and not self.channels):
            return None
        if state in (RemedyState.GATED, RemedyState.PROPOSED) and self.proposing is None:
            return None
        return entry.due or 0.0

    def _mend_one(self, number: str, stuck: Stuck) -> Program[None]:
        try:
            while (yield from self._next(number, stuck)):
                pass
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except (Halted, WaitTimeout, NotOurs):
            self._wake_in(number, LOOK)
        finally:
            self._at.discard(number)
            self._tell_again()
            if number not in self._later:
                self.carrying.plans.pop(number, None)

    def _next(self, number: str, stuck: Stuck) -> Program[bool]:
        """Take what is stuck one stage further; return False when there is nothing to do now."""
        case: Case | None = yield from self._kernel.step(partial(self._begin, number, stuck), durable=True)
        if case is None:
            return False
        match case.remedy.state:
            case RemedyState.ASKED:
                return (yield from self._ask(case))
            case RemedyState.GATED:
                return (yield from self.carrying.gate(case))
            case _:
                return (yield from self.carrying.run(case))

    def _begin(self, number: str, stuck: Stuck, _protocol: Protocol, book: Book) -> Case | None:
        """Return the case, claimed where a claim is needed, or None: there is nothing for this worker to do now."""
        now = self._kernel.ledger.time()
        ready = self._ready_at(number, stuck, book)
        if ready is None or ready > now:
            return None
        entry = book.entries.get(KIND, number)
        if entry is None:
            return self._claim(number, stuck, book, now)
        state, remedy = RemedyState(entry.state), remedy_in(entry)
        if state is RemedyState.ASKED:  # by who has lost the claim
            why = f"no plan came within {PATIENCE:g} s"
            self._leave(book, number, stuck, RemedyState.SILENT, why, now, entry.version)
        elif state in FOR_A_PERSON:  # in a process that tells nobody
            leave_to_a_person(
                book,
                number,
                stuck,
                state,
                remedy.why,
                plan=remedy.plan,
                channels=self.channels,
                at=now,
                version=entry.version,
            )
        else:
            return Case(stuck, remedy, entry.version, self.channels)
        return None

    def _claim(self, number: str, stuck: Stuck, book: Book, now: float) -> Case | None:
        unprovable = self._unprovable(book, stuck)
        if unprovable:
            self._leave(book, number, stuck, RemedyState.REFUSED, unprovable, now, None)
            return None
        if self.proposing is None:
            self._leave(book, number, stuck, RemedyState.SILENT, "nobody proposes plans: on_stuck=", now, None)
            return None
        draft = draft_of(number, stuck, RemedyState.ASKED, body_of(stuck), at=now, due=now + PATIENCE)
        standing = book.entries.add(draft)
        return Case(stuck, remedy_in(standing.entry), standing.entry.version, self.channels) if standing.won else None

    def _leave(
        self, book: Book, number: str, stuck: Stuck, tried: RemedyState, why: str, at: float, version: int | None
    ) -> None:
        leave_to_a_person(book, number, stuck, tried, why, plan=None, channels=self.channels, at=at, version=version)

    def _unprovable(self, book: Book, stuck: Stuck) -> str:
        """Return why nothing could prove that it is mended; "" if something can."""
        for effect in stuck.effects:
            found = recorded_of(book, effect.key)
            declared = None if found is None else self._kernel.declaration(effect.tool, found[1].row.version)
            if declared is None:
                return f"{effect.tool} is not declared here, so nothing could prove that it is mended"
            if declared.probe is None:
                return f"{effect.tool} has no probe, so nothing could prove that it is mended"
        return ""

    # ---- the plan

    def _ask(self, case: Case) -> Program[bool]:
        assert self.proposing is not None
        try:
            plan = yield self._kernel.callers.asking(case.name, self.proposing, case.stuck)
            if plan is None or plan == []:
                return (yield from say(self._kernel, case, RemedyState.SILENT, "no plan was proposed"))
            state, checked = yield from self.carrying.check(case, plan)
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            if is_a(error, LedgerError):
                raise
            state = RemedyState.REFUSED if is_a(error, SettlemarkError) else RemedyState.FAILED
            what = "the plan was refused" if state is RemedyState.REFUSED else "on_stuck= failed"
            return (yield from say(self._kernel, case, state, f"{what}: {in_words(error)}"))
        return (yield from say(self._kernel, case, state, "", plan=checked))

    # ---- when to look again

    def _wake_in(self, number: str, seconds: float) -> None:
        self._later[number] = self._kernel.ledger.time() + seconds
        self.look_again()


__all__ = ["GRACE", "LOOK", "Mends"]
