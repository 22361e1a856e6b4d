"""The engine, put together from its services: what happens, in which order, at a call or at the end of a step.

Each method of a service is a generator that asks the protocol (one short lock a step, never held across I/O) and yields
requests for the world; `sync` and `aio` carry the requests out in a thread or a task, the tests' explorer in every
possible interleaving.

The order that matters: admission, then the durable intent, then the act, then its outcome. A commit decision is durable
before the first release. An abort's undos run in the program that made the step before them, so that nobody waits for a
caller who is away thinking.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakMethod

from settlemark._acts.perform import Program
from settlemark._engine.act import Acting
from settlemark._engine.admission import Admission
from settlemark._engine.calls import Calls
from settlemark._engine.commit import Settling
from settlemark._engine.doubt import Probing, Residue
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel
from settlemark._engine.orphans import Orphans
from settlemark._engine.release import Releases
from settlemark._engine.splitting import Splitting
from settlemark._engine.undo.abort import Beside, Undoing
from settlemark._engine.undo.mend import Mending
from settlemark._engine.undo.take_back import TakingBack
from settlemark._leasing.leases import Leases
from settlemark._lifecycle.ages import Ages
from settlemark._lifecycle.approval import Answers
from settlemark._lifecycle.asked.elsewhere import Elsewhere
from settlemark._lifecycle.asked.telling import Notices
from settlemark._lifecycle.asked.watch import Questions
from settlemark._lifecycle.entrance import Entrance
from settlemark._lifecycle.fences import Fences, Halts
from settlemark._lifecycle.gates import Gates
from settlemark._lifecycle.owing import Obligations
from settlemark._lifecycle.parking import Parking
from settlemark._lifecycle.recovery import Recovery
from settlemark._lifecycle.resolution import Resolution
from settlemark._lifecycle.rewind.rewinds import Rewinds
from settlemark._lifecycle.runs import Runs
from settlemark._lifecycle.selection import Selection
from settlemark._mending.ending import Ending
from settlemark._mending.mends import Mends
from settlemark._model.declaration import Declaration
from settlemark._model.declare import declared_as
from settlemark._model.scope import Scope
from settlemark._observe.events import Recovered
from settlemark._protocol.protocol import Protocol
from settlemark._steering.pauses import Pauses
from settlemark._steering.steers import Steers
from settlemark.ledger._contract import Ledger


@dataclass(frozen=True, slots=True)
class Parts:
    """The classes of a driver's services; a test can replace one."""

    kernel: type[Kernel] = Kernel
    probing: type[Probing] = Probing
    residue: type[Residue] = Residue
    freshness: type[Freshness] = Freshness
    mending: type[Mending] = Mending
    taking_back: type[TakingBack] = TakingBack
    undoing: type[Undoing] = Undoing
    orphans: type[Orphans] = Orphans
    splitting: type[Splitting] = Splitting
    admission: type[Admission] = Admission
    acting: type[Acting] = Acting
    gates: type[Gates] = Gates
    calls: type[Calls] = Calls
    releases: type[Releases] = Releases
    settling: type[Settling] = Settling
    recovery: type[Recovery] = Recovery
    resolution: type[Resolution] = Resolution
    parking: type[Parking] = Parking
    answers: type[Answers] = Answers
    notices: type[Notices] = Notices
    questions: type[Questions] = Questions
    ages: type[Ages] = Ages
    rewinds: type[Rewinds] = Rewinds
    entrance: type[Entrance] = Entrance
    runs: type[Runs] = Runs
    selection: type[Selection] = Selection
    elsewhere: type[Elsewhere] = Elsewhere
    fences: type[Fences] = Fences
    halts: type[Halts] = Halts
    obligations: type[Obligations] = Obligations
    leases: type[Leases] = Leases
    ending: type[Ending] = Ending
    pauses: type[Pauses] = Pauses
    steers: type[Steers] = Steers
    mends: type[Mends] = Mends


PARTS = Parts()


class Driver:
    """Runs transactions over a ledger: the services, put together.

    Args:
        ledger: takes the steps.
        clock: returns seconds since 1970, for the record.
        monotonic: returns seconds, for deadlines.
        declaration: finds a tool's declaration by name and version.
        namespace: the part of the ledger whose users share scopes, names and keys.
        on_residue: told once of every transaction that left residue.
        parts: the classes of the services.

    Attributes:
        kernel: the step and the wait, which all services stand on.
        probing: finds out what became of effects. `residue` names what stays. `freshness` repeats live reads.
        undoing: aborts; `taking_back` undoes one effect, `mending` late ones, `orphans` those that no plan asks for.
        admission: lets calls touch their scopes. `gates` asks people first. `acting` calls the tools. `calls` takes a
            call through all three.
        settling: decides, and `releases` performs what was held; `splitting` divides a transaction at its gates.
        recovery: takes up what ended processes left. `resolution` settles doubts. `ages` watches what stays open.
        parking: puts aside what waits for a person; `elsewhere` forgets what other processes have resumed of that.
        answers: takes people's answers; `questions` keeps their deadlines, `notices` tells people. `rewinds` goes back.
        entrance: begins transactions. `runs` calls their bodies. `selection` decides choices. `fences` cancels runs.
        halts: keeps scopes, runs or everything from acting until that is lifted.
        obligations: opens them, waives them, and has those that are due handled. `leases` grants agents' leases.
        ending: ends what is stuck, for operators; `mends` mends it by plans, and pages them.
        pauses: has runs stop at a boundary, and go on.
        steers: adds what is said to runs, and acknowledges it at their boundaries.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        declaration: Callable[[str, str | None], Declaration | None] = declared_as,
        namespace: str = "default",
        on_residue: Callable[[str], None] | None = None,
        parts: Parts = PARTS,
    ) -> None:
        self.kernel = kernel = parts.kernel(
            ledger, clock=clock, monotonic=monotonic, declaration=declaration, namespace=namespace
        )
        self.probing = parts.probing(kernel)
        self.residue = parts.residue(kernel, self.probing, on_residue)
        self.freshness = parts.freshness(kernel)
        self.mending = parts.mending(kernel, self.probing)
        self.taking_back = parts.taking_back(kernel, self.probing, self.mending)
        self.undoing = parts.undoing(kernel, self.probing, self.freshness, self.residue, self.taking_back)
        self.orphans = parts.orphans(kernel, self.undoing, self.taking_back)
        self.splitting = parts.splitting(kernel, self.freshness)
        self.admission = parts.admission(kernel, self.undoing)
        self.gates = parts.gates(kernel, self.freshness, self.undoing, self.admission)
        self.acting = parts.acting(kernel, self.probing, self.freshness, self.undoing, self.admission)
        self.calls = parts.calls(kernel, self.undoing, self.admission, self.acting, self.gates)
        self.releases = parts.releases(kernel, self.probing, self.freshness, self.splitting, self.residue, self.undoing)
        self.settling = parts.settling(
            kernel, self.freshness, self.splitting, self.undoing, self.orphans, self.releases, self.gates
        )
        self.recovery = parts.recovery(kernel, self.probing, self.undoing, self.releases, self.settling)
        self.resolution = parts.resolution(kernel, self.probing, self.undoing, self.admission, self.recovery)
        self.parking = parts.parking(
            kernel, self.splitting, self.undoing, self.orphans, self.admission, self.calls, self.settling, self.recovery
        )
        self.elsewhere = parts.elsewhere(kernel, self.undoing)
        self.answers = parts.answers(kernel, self.resolution, self.parking)
        self.notices = parts.notices(kernel)
        self.questions = parts.questions(kernel, self.notices, self.answers.overdue)
        self.ages = parts.ages(kernel, self.undoing, self.recovery)
        self.rewinds = parts.rewinds(kernel, self.residue, self.undoing, self.recovery, self.resolution)
        self.entrance = parts.entrance(kernel, self.recovery, self.ages)
        self.runs = parts.runs(kernel, self.undoing, self.settling, self.parking, self.answers, self.ages)
        self.selection = parts.selection(kernel, self.freshness, self.undoing, self.orphans, self.settling, self.runs)
        self.fences = parts.fences(kernel, self.undoing, self.recovery)
        self.halts = parts.halts(kernel, self.undoing, self.recovery, self.answers)
        self.obligations = parts.obligations(kernel)
        self.leases = parts.leases(kernel)
        self.ending = parts.ending(kernel, self.resolution, self.fences)
        self.pauses = parts.pauses(kernel, self.rewinds, self.fences)
        self.steers = parts.steers(kernel, self.rewinds)
        self.fences.on_cancel = self.steers.leave_unheard
        self.mends = parts.mends(kernel, self.probing)
        self.residue.on_left = WeakMethod(self.mends.look_again)
        self.mends.on_paged = WeakMethod(self.questions.tell_again)

    def new_epoch(self) -> Program[int]:
        """Return a new epoch, which nobody else gets."""
        return self.kernel.step(lambda protocol, _book: protocol.skip_epochs(1))

    def advance(self, scope: Scope, epoch: int) -> Program[None]:
        """Raise the floor of a scope, durably.

        Raises:
            ContractViolation: work at or below the new floor may still come; nothing moved.
        """
        yield from self.kernel.step(lambda protocol, _book: protocol.advance(scope, epoch), durable=True)

    def registering(self, change: Callable[[Protocol], None]) -> Program[None]:
        """Record a change of the tool registry, durably, and conclude the aborts it causes."""
        yield from self.kernel.step(lambda protocol, _book: change(protocol), durable=True)
        yield from self.undoing.tidy()

    def maintain(self, beside: Beside | None = None) -> Program[None]:
        """Do what is due: conclude others' aborts, take up what ended processes left, settle what was answered.

        `beside` runs a program in another thread: a handler that hangs delays only its own transaction.
        """
        yield from self.recovery.maintain(beside)
        yield from self.resolution.look_now_and_then()
        yield from self.elsewhere.look()
        yield from self.answers.settle_answered()
        yield from self.ages.look_at_ages(beside)
        self.obligations.look_again()
        self.questions.look_again()
        yield from self.mends.look_for_others()

    def recover(self, *, keep_open: float | None = None) -> Program[Recovered]:
        """Take up what was left, settle what was answered and what is due, renew leases, and return a `Recovered`."""
        report: Recovered = yield from self.answers.recover(keep_open=keep_open)
        yield from self.mends.mend()
        yield from self.questions.settle_due()
        yield from self.obligations.settle_due()
        yield from self.leases.renew_due()
        yield from self.mends.mend()
        yield from self.elsewhere.look()
        return report


__all__ = ["PARTS", "Driver", "Parts"]
