"""One day of the treasury: what the agent does from the morning to the next morning, each step a transaction.

A step that was cut off by a crash is undone and done anew; one that has committed is answered from the record. So the
day may be begun as often as its process is killed: `work` takes up the day where the record says that it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from counterparties import OPENING, Counterparties
from tools import CFO, HOUR, LIMIT, TREASURER, Tools

from settlemark import Budget, OverBudget, Policy, PolicyRule, Refused, Scope, Settlement, Stale, State
from settlemark.testing import ProviderRefused, VirtualClock

TARGETS = {"union": 200, "rhein": 250, "harbour": 500}
"""What stays in each operating account; the rest is swept into the fund."""
REVISED = 600
"""What the CFO wants to stay at harbour, from noon on."""
SPENDING = 1_500
"""What may leave dollar accounts on one day, in thousands."""
HEDGE = 120
LOAN = 150
TOO_MUCH = 700
LATE_CREDIT = 75

BUDGET = Budget("usd", SPENDING, per="day")
POLICY = Policy(
    "treasury-v7",
    rules=[
        PolicyRule("the firm's own accounts", "allow", tool="wire"),
        PolicyRule("the firm's own books", "allow", tool="post"),
        PolicyRule("the regulator", "allow", tool="file"),
        PolicyRule("the CFO", "allow", tool="report"),
        PolicyRule("what is looked at", "allow", tool="statement"),
        PolicyRule("up to the limit", "allow", tool="pay", amount="{amount}", up_to=LIMIT),
        PolicyRule("above the limit", "ask", tool="pay"),
    ],
)


@dataclass(frozen=True)
class Script:
    """What happens to the agent on a day, beside what it does.

    Attributes:
        date: the day's name.
        revised: the CFO revises the policy at noon, when sweeps have been made under it.
        absent: the treasurer does not answer in time, so that the question lapses, and is asked again.
        credited: money comes in while the filing is being written.
        overspends: somebody asks for more than the day's budget.
    """

    date: str
    revised: bool = True
    absent: bool = True
    credited: bool = True
    overspends: bool = True


def settled(url: str, clock: VirtualClock) -> Settlement:
    """Return what the day settles in: its budget, its policy, its clock."""
    return Settlement(url, budgets=[BUDGET], policy=POLICY, **clock.options())


class Day:
    """The agent's day.

    Args:
        settlement: what the day's steps settle in.
        them: the counterparties.
        tools: what acts on them.
        clock: the time, which moves from one step to the next.
        script: what happens beside.
        tell: called with each step's name before it is taken.
    """

    def __init__(
        self,
        settlement: Settlement,
        them: Counterparties,
        tools: Tools,
        clock: VirtualClock,
        script: Script,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._settlement, self._them, self._tools, self._clock = settlement, them, tools, clock
        self._script, self._tell = script, tell
        settlement.on_due(self._take_back, tool="wire")

    def work(self) -> None:
        """Take each step of the day, in its order."""
        self._settlement.recover()  # what a process that was killed has left: undone, or brought to its end
        self._settlement.steered(self._script.date, self._steps)
        self._wait(24)
        self._settlement.recover()  # on the next morning: what is due

    def _steps(self, run: Any) -> None:
        morning = self._look(run)
        self._sweep(run, "union", morning)
        self._sweep(run, "rhein", morning)
        self._hedge(run)
        self._sweep(run, "harbour", morning)
        self._noon()
        for step in (self._lend, self._overspend, self._file, self._report):
            step(run)

    def _wait(self, hours: float) -> None:
        self._clock.advance(hours * HOUR)
        self._tell("later")

    def _has_settled(self, step: str) -> bool:
        """Whether a step has committed whose arguments would be others now: it is not decided again."""
        return self._ends().get(f"{self._script.date}/{step}") is State.COMMITTED

    def _move(self, tx: Any, bank: str, source: str, target: str, amount: int) -> None:
        """Wire money within the firm, and post that."""
        tx.call(self._tools.wire, bank=bank, source=source, target=target, amount=amount)
        tx.call(self._tools.post, bank=bank, source=source, target=target, amount=amount)

    # ---- the morning: what is too much goes to the fund

    def _look(self, run: Any) -> dict[str, int]:
        """Return what there is. It is on record, so the day stands on the same balances after a crash."""
        self._tell("morning")
        with run.step("morning") as tx:
            found: dict[str, int] = tx.call(self._tools.statement, date=self._script.date)
        return found

    def _sweep(self, run: Any, bank: str, morning: dict[str, int]) -> None:
        self._tell(f"sweep {bank}")
        with run.step(f"sweep-{bank}") as tx:
            stays = REVISED if bank == "harbour" and run.said else TARGETS[bank]  # said to this step, or not
            excess = morning[bank] - stays
            decision = tx.decide(
                f"sweep {excess} from {bank} to its fund",
                because=f"{stays} is to stay",
                alternatives=["leave it there", "sweep a part"],
                policy=POLICY.version,
                grounds=[Scope.parse(f"statement:/{self._script.date}")],
            )
            with decision:
                self._move(tx, bank, "ops", "fund", excess)

    # ---- a hedge is two wires at two banks, or none

    def _hedge(self, run: Any) -> None:
        self._tell("hedge")
        try:
            with (
                run.step("hedge") as tx,
                tx.decide(
                    "hedge the short in AUD",
                    because="it is above what the policy tolerates",
                    alternatives=["leave it open"],
                    policy=POLICY.version,
                    grounds=[{"short": HEDGE}],
                ),
            ):
                self._move(tx, "harbour", "ops", "fx", HEDGE)
                self._move(tx, "southern", "fx", "ops", HEDGE)
        except (ProviderRefused, Refused):
            return  # the second leg was refused, so the first is undone; the record says so

    # ---- noon: the CFO wants more to stay

    def _noon(self) -> None:
        """Let the CFO say so, from wherever he is: the next step hears of it, and what is in conflict is undone."""
        self._tell("noon")
        if self._script.revised and not self._settlement.steering(self._script.date):
            self._settlement.steer(
                self._script.date, "revise", f"{REVISED} is to stay at harbour", scope="account:/harbour/fund", by=CFO
            )

    # ---- the afternoon

    def _lend(self, run: Any) -> None:
        """Lend to a subsidiary, over the limit, so a person is asked; and owe it that the money is taken back."""
        self._tell("loan")
        if self._script.absent and not self._ends().get(f"{self._script.date}/loan"):
            self._ask_for_the_loan(run)
            self._wait(4)
            self._settlement.recover()  # nobody has answered in time: that is a no
        name = self._ask_for_the_loan(run)
        if any(asked.transaction == name for asked in self._settlement.approvals()):
            if self._script.absent:
                self._wait(2)
                self._settlement.approve(name, by=CFO)  # the question has gone on to him by now
            else:
                self._settlement.approve(name, by=TREASURER)

    def _ask_for_the_loan(self, run: Any) -> str:
        with (
            run.step("loan") as tx,
            tx.decide(
                "lend to the subsidiary",
                because="it funds its payroll tomorrow",
                alternatives=["let it draw on its bank"],
                policy=POLICY.version,
            ),
        ):
            name: str = tx.name
            tx.call(self._tools.post, bank="union", source="ops", target="loans", amount=LOAN)
            tx.call(self._tools.pay, bank="union", source="ops", target="loans", amount=LOAN)
            tx.owe(
                f"take back the loan of {LOAN}",
                to="account:/union/loans",
                by=timedelta(days=1),
                fulfilled_by="wire",
                matching={"bank": "union", "source": "loans", "target": "ops", "amount": LOAN},
            )
        return name

    def _take_back(self, tx: Any, owed: Any) -> None:
        with tx.decide("take back the loan", because=f"it is due: {owed.text}", policy=POLICY.version):
            self._move(tx, **owed.matching)

    def _overspend(self, run: Any) -> None:
        """Pay somebody more than the day's budget has left: nothing leaves."""
        self._tell("overspend")
        if not self._script.overspends or self._has_settled("filing"):
            return  # the day is over, and the next one has a budget of its own
        try:
            with run.step("overspend") as tx:
                tx.call(self._tools.pay, bank="harbour", source="ops", target="street", amount=TOO_MUCH)
        except OverBudget:
            return
        raise AssertionError("more was spent than the budget allows")

    # ---- the evening

    def _file(self, run: Any) -> None:
        """Tell the regulator what there is, as of the moment at which the filing leaves."""
        self._tell("filing")
        while not self._has_settled("filing"):
            try:
                with run.step("filing") as tx:
                    cash = {bank: tx.call(self._tools.cash, bank=bank) for bank in OPENING}
                    if self._script.credited:
                        self._them.credit(LATE_CREDIT, key=f"credit-{self._script.date}")
                    tx.call(self._tools.file, date=self._script.date, cash=cash)
            except Stale:
                continue  # a balance has changed since it was read: nothing has left, and it is written anew

    def _report(self, run: Any) -> None:
        """Tell the CFO what was done, and each item that is open."""
        self._tell("report")
        if not self._has_settled("report"):
            told = "\n".join([*self.open_items(), "everything else is settled"])
            with run.step("report") as tx:
                tx.call(self._tools.report, to=CFO, subject=f"treasury {self._script.date}", body=told)

    # ---- what is open

    def open_items(self) -> list[str]:
        """Return every item of the day that is not settled, named."""
        return [
            *(f"owed: {owed.text}" for owed in self._settlement.obligations(state="open", run=self._script.date)),
            *(f"in doubt: {doubt.key}" for doubt in self._settlement.in_doubt()),
            *(f"stuck: {stuck.transaction}" for stuck in self._settlement.stuck()),
            *(f"asked: {asked.transaction}" for asked in self._settlement.approvals()),
            *(f"not done: {name}" for name, state in self._ends().items() if state is State.ABORTED),
        ]

    def _ends(self) -> dict[str, State]:
        """Return how the last attempt at each step has ended."""
        return {each.row.name: each.state for each in self._settlement.transactions(run=self._script.date)}
