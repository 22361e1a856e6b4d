"""A revision in the middle of a run, by steering and by stopping and starting over: what is done again.

`python -m tests.evidence.steering`. The trip has twelve steps; the revision is in conflict at step 4, and is said by
another process when nine are done. Each counterparty keeps a log of its own in a file, and every figure is counted
there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from settlemark import Settlement, effect

STEPS, CONFLICT, HEARD, MAIL = 12, 4, 10, 6


class Stopped(Exception):
    """Somebody has stopped the run to start it over."""


class Counterparties:
    """A desk that books and cancels, and a mail server, each with a log in a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.desk, self.mails = folder / "desk.jsonl", folder / "mails.jsonl"

        def cancel(place: str) -> None:
            _write(self.desk, "cancel", place)

        @effect("reversible", scope="trip:/{place:path}", undo=cancel)
        def book(place: str) -> None:
            _write(self.desk, "book", place)

        @effect("irreversible", scope="mail:/{to}")
        def mail(to: str) -> None:
            _write(self.mails, "mail", to)

        self.book, self.mail = book, mail

    def acts(self) -> list[tuple[str, str]]:
        """Return all that happened to them, of each in its order."""
        files = [file for file in (self.desk, self.mails) if file.exists()]
        return [tuple(json.loads(line)) for file in files for line in file.read_text().splitlines()]


def _write(file: Path, what: str, whom: str) -> None:
    with file.open("a") as opened:
        opened.write(json.dumps([what, whom]) + "\n")


class Counted(NamedTuple):
    """What the counterparties' logs say.

    Attributes:
        calls: bookings, mails and cancellations.
        repeated: bookings and mails that had been made before.
        cancelled: bookings that were cancelled.
        mails: how often the mail was sent.
        strays: bookings that stand and that the trip does not ask for, or that stand twice.
        complete: whether all that the revised trip asks for stands.
    """

    calls: int
    repeated: int
    cancelled: int
    mails: int
    strays: int
    complete: bool


def counted(acts: list[tuple[str, str]], *, mails: bool) -> Counted:
    """Count what the logs say."""
    done = Counter(act for act in acts if act[0] != "cancel")
    gone = Counter(whom for what, whom in acts if what == "cancel")
    asked = {_place(number, "Bee") for number in range(1, STEPS + 1) if not (mails and number == MAIL)}
    stands = Counter({whom: number - gone[whom] for (what, whom), number in done.items() if what == "book"})
    return Counted(
        len(acts),
        sum(number - 1 for number in done.values()),
        sum(gone.values()),
        done["mail", "ada"],
        sum(max(0, number - (whom in asked)) for whom, number in stands.items()),
        all(stands[place] for place in asked) and (done["mail", "ada"] > 0) is mails,
    )


def _place(number: int, hotel: str) -> str:
    return f"hotel/{hotel}" if number == CONFLICT else f"day/{number}"


def _act(tx: Any, number: int, at: Counterparties, hotel: str, *, mails: bool) -> None:
    if mails and number == MAIL:
        tx.call(at.mail, to="ada")
    else:
        tx.call(at.book, place=_place(number, hotel))


def steered(folder: Path, *, mails: bool) -> Counted:
    """Say the revision to the run from another process, and let it go on."""
    at, ledger = Counterparties(folder), folder / "ledger.db"
    with Settlement(f"sqlite:///{ledger}") as settlement:

        def trip(run: Any) -> None:
            for number in range(1, STEPS + 1):
                if number == HEARD and not run.said:
                    words = ["steer", "trip", "revise", "Bee", str(ledger), "--scope", "trip:/hotel/**", "--by", "eve"]
                    subprocess.run([sys.executable, "-m", "settlemark", *words], check=True, stdout=subprocess.DEVNULL)
                with run.step(str(number)) as tx:
                    _act(tx, number, at, run.said[-1].text if run.said else "Ada", mails=mails)

        settlement.steered("trip", trip)
    return counted(at.acts(), mails=mails)


def started_over(folder: Path, *, mails: bool, undoes: bool) -> Counted:
    """Stop the run and start the revised one under another name; with `undoes`, all that can be is undone before."""
    at = Counterparties(folder)
    with Settlement(f"sqlite:///{folder / 'ledger.db'}") as settlement:

        def trip(run: str, hotel: str, last: int) -> list[str]:
            names = [f"{run}/{number}" for number in range(1, last + 1)]
            for number, name in enumerate(names, 1):
                with settlement.transaction(name) as tx:
                    _act(tx, number, at, hotel, mails=mails)
            return names

        names = trip("trip", "Ada", HEARD - 1)
        if undoes:
            settlement.rewind(names, by="eve", dry_run=False)
        trip("trip-2", "Bee", STEPS)
    return counted(at.acts(), mails=mails)


WAYS: dict[str, Callable[..., Counted]] = {
    "steered": steered,
    "stopped, all undone, started over": lambda folder, *, mails: started_over(folder, mails=mails, undoes=True),
    "stopped, started over": lambda folder, *, mails: started_over(folder, mails=mails, undoes=False),
}


def measured(*, mails: bool) -> dict[str, Counted]:
    """Return what each way has come to, each on counterparties of its own."""
    found: dict[str, Counted] = {}
    for way, play in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            found[way] = play(Path(folder), mails=mails)
    return found


def main() -> None:
    """Print the figures."""
    for mails in (False, True):
        print(f"\n{'step 6 is a mail, which cannot be undone' if mails else 'every step can be undone'}\n")  # noqa: T201
        print("| way | calls | repeated | cancelled | mails | strays | complete |\n|---|---|---|---|---|---|---|")  # noqa: T201
        for way, found in measured(mails=mails).items():
            told = [*found[:-1], "yes" if found.complete else "no"]
            print(f"| {way} | {' | '.join(map(str, told))} |")  # noqa: T201


if __name__ == "__main__":
    main()
