"""The same day as an agent does it whose framework takes a tool's return for the end of the act: the control.

It keeps a checkpoint after each step, as frameworks do, tries a failed call again, and takes a refused one for a thing
to go on without.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from counterparties import CURRENCIES, OPENING, Counterparties
from day import HEDGE, LATE_CREDIT, LOAN, REVISED, TARGETS, TOO_MUCH, Script
from tools import CFO, REGULATOR

from settlemark.testing import ProviderRefused

TRIES = 3


class NaiveDay:
    """The agent's day without a settlement; its checkpoint is a file.

    Args:
        them: the counterparties.
        script: what happens beside.
        strike: called before each act and after it.
        tell: called with each step's name before it is taken.
    """

    def __init__(
        self,
        them: Counterparties,
        script: Script,
        strike: Callable[[], None] = lambda: None,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._them, self._script, self._strike, self._tell = them, script, strike, tell
        self._checkpoint = them.home / "checkpoint.json"
        self._done: list[str] = json.loads(self._checkpoint.read_text()) if self._checkpoint.exists() else []

    def work(self) -> None:
        """Take each step that the checkpoint does not have."""
        steps = {f"sweep-{bank}": lambda bank=bank: self._sweep(bank, TARGETS[bank]) for bank in TARGETS}
        steps |= {"hedge": self._hedge, "noon": self._noon, "loan": self._lend, "overspend": self._overspend}
        steps |= {"filing": self._file, "report": self._report, "next morning": self._take_back}
        for name, step in steps.items():
            if name not in self._done:
                self._tell(name)
                step()
                self._done.append(name)
                self._checkpoint.write_text(json.dumps(self._done))

    def _try(self, act: Callable[[], Any]) -> Any:
        for tries in range(TRIES, 0, -1):
            try:
                return act()
            except (TimeoutError, ConnectionError):
                if tries == 1:
                    return None
        raise AssertionError

    def _move(self, bank: str, source: str, target: str, amount: int) -> None:
        def wire() -> None:
            self._strike()
            self._them.banks[bank].wire(None, source, target, amount)
            self._strike()

        try:
            self._try(wire)
        except ProviderRefused:
            return
        self._strike()
        number = len(self._them.books.lines())
        of = CURRENCIES[bank]
        self._them.books.post(f"entry {number}", [(f"{bank}:{source}", of, -amount), (f"{bank}:{target}", of, amount)])
        self._strike()

    def _cash(self, bank: str) -> int:
        return self._them.banks[bank].balances()["ops"]

    def _sweep(self, bank: str, target: int) -> None:
        held = self._cash(bank)
        if held > target:
            self._move(bank, "ops", "fund", held - target)

    def _hedge(self) -> None:
        self._move("harbour", "ops", "fx", HEDGE)
        self._move("southern", "fx", "ops", HEDGE)

    def _noon(self) -> None:
        if self._script.revised:
            self._sweep("harbour", REVISED)

    def _lend(self) -> None:
        self._move("union", "ops", "loans", LOAN)

    def _overspend(self) -> None:
        if self._script.overspends:
            self._move("harbour", "ops", "street", TOO_MUCH)

    def _file(self) -> None:
        cash = {bank: self._cash(bank) for bank in OPENING}
        if self._script.credited:
            self._them.credit(LATE_CREDIT, key=f"credit-{self._script.date}")
        body = ", ".join(f"{bank} {held}" for bank, held in sorted(cash.items()))
        self._mail(REGULATOR, f"liquidity {self._script.date}", body)

    def _report(self) -> None:
        self._mail(CFO, f"treasury {self._script.date}", "everything is settled")

    def _mail(self, to: str, subject: str, body: str) -> None:
        self._strike()
        self._try(lambda: self._them.mail.send(to, subject, body))
        self._strike()

    def _take_back(self) -> None:
        self._move("union", "loans", "ops", LOAN)
