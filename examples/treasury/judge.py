"""What is wrong with a day, by the logs of those that were dealt with: the agent's own word counts for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from counterparties import OPENING, OTHERS, Counterparties, Movement
from day import HEDGE, LOAN, REVISED, TARGETS, Script
from tools import REGULATOR


def faults(them: Counterparties, script: Script) -> list[str]:
    """Return each promise of the day that the counterparties' logs show as broken."""
    moved = [each for each in them.movements() if not (each.key or "").startswith(OTHERS)]
    return [*_doubled(moved), *_halves(moved), *_amounts(moved, script), *_books(them, moved), *_filing(them)]


def _doubled(moved: list[Movement]) -> Iterator[str]:
    for (bank, source, target), times in Counter((m.bank, m.source, m.target) for m in moved).items():
        if times > 1:
            yield f"doubled: {source} to {target} at {bank}, {times} times"


def _halves(moved: list[Movement]) -> Iterator[str]:
    legs = [sum(m.amount for m in moved if "fx" in {m.source, m.target} and m.bank == bank) for bank in OPENING]
    if sum(legs) and sorted(legs)[-2:] != [HEDGE, HEDGE]:
        yield f"half a hedge: its legs came to {', '.join(str(leg) for leg in legs if leg)}"


def _amounts(moved: list[Movement], script: Script) -> Iterator[str]:
    """What was moved, once, has to be what the policy of the moment says."""
    wanted = {(bank, "ops", "fund"): OPENING[bank]["ops"] - target for bank, target in TARGETS.items()}
    if script.revised:
        wanted["harbour", "ops", "fund"] = OPENING["harbour"]["ops"] - REVISED
    wanted |= {("union", "ops", "loans"): LOAN, ("union", "loans", "ops"): LOAN}
    came = {(m.bank, m.source, m.target): m.amount for m in moved if "fx" not in {m.source, m.target}}
    for what, amount in wanted.items():
        if came.get(what) != amount:
            yield f"{' '.join(what)}: {came.get(what, 'nothing')} in place of {amount}"
    for what in sorted(set(came) - set(wanted)):
        yield f"{' '.join(what)}: {came[what]}, which nobody wanted"


def _books(them: Counterparties, moved: list[Movement]) -> Iterator[str]:
    posted: Counter[str] = Counter()
    for _, account, _, amount in them.books.lines():
        posted[account] += amount
    at_the_banks: Counter[str] = Counter()
    for each in moved:
        at_the_banks[f"{each.bank}:{each.source}"] -= each.amount
        at_the_banks[f"{each.bank}:{each.target}"] += each.amount
    for account in sorted({*posted, *at_the_banks}):
        if posted[account] != at_the_banks[account]:
            yield f"the books have {posted[account]:+} on {account}, the bank has {at_the_banks[account]:+}"


def _filing(them: Counterparties) -> Iterator[str]:
    filings = [mail for mail in them.mail.messages() if mail["to"] == REGULATOR]
    if len(filings) != 1:
        yield f"{len(filings)} filings"
    held = them.cash() | {"union": them.cash()["union"]}
    back = any(m.source == "loans" for m in them.movements())  # taken back on the next morning, after the filing
    held["union"] -= LOAN if back else 0
    for filing in filings:
        told = dict(each.rsplit(" ", 1) for each in filing["body"].strip().split(", "))
        wrong = [bank for bank in held if told.get(bank) != str(held[bank])]
        if wrong:
            yield f"a filing with stale balances of {', '.join(wrong)}"
