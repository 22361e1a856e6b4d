"""What the work on a ledger shows: its clocks, its workers, its log, and what is unfinished, in doubt or left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from settlemark import _waiting
from settlemark._doctor._files import size
from settlemark._doctor._finding import Finding, Severity
from settlemark._waiting import Standing, lasting, process
from settlemark.ledger._looking import Look
from settlemark.ledger._shared import IMAGE_EVERY

SKEW_SECONDS = 2.0
OLD_SECONDS = 3600.0


def examine(look: Look, clock: Callable[[], float]) -> Iterator[Finding]:
    """Return what one look at the store finds."""
    yield _skew(look, clock)
    yield from _workers(look)
    yield _log(look)
    stand, now = _waiting.found(look)
    yield from _unfinished(stand, now)
    yield _asked(stand)
    yield from _left(look)


def _skew(look: Look, clock: Callable[[], float]) -> Finding:
    before = clock()
    theirs = look.clock()
    after = clock()
    skew = theirs - (before + after) / 2
    told = f"the store's clock is {abs(skew):.3f} s {'ahead of' if skew >= 0 else 'behind'} this host's"
    if abs(skew) - (after - before) / 2 > SKEW_SECONDS:
        return Finding(
            "clock", Severity.ATTENTION, told,
            "set both by NTP: windows go by the store's clock, and times on record are those of each host",
        )  # fmt: skip
    return Finding("clock", Severity.OK, told)


def _workers(look: Look) -> Iterator[Finding]:
    workers = look.workers()
    alive = [worker for worker in workers if worker.alive]
    yield Finding(
        "workers", Severity.OK, f"{len(alive)} alive{''.join(f'; {process(worker.name)}' for worker in alive)}"
    )
    for worker in workers:
        if worker.alive:
            continue
        silent = f"for {lasting(-worker.lease_left)} longer than its lease" if worker.lease_left < 0 else ""
        if worker.ended:
            told = "is gone: its process has ended"
        elif worker.buried:
            told = "was silent, its work is others' now, and it may still be sending"
        else:
            told = f"is silent {silent}"
        yield Finding(
            "workers", Severity.ATTENTION, f"{process(worker.name)} {told}",
            "any process that settles here takes its work up; or settlemark recover --module YOURAPP.TOOLS",
        )  # fmt: skip


def _log(look: Look) -> Finding:
    sizes = look.sizes()
    told = f"{sizes.log_entries} entries, and an image of {size(sizes.image_characters)}"
    if sizes.log_entries > 10 * IMAGE_EVERY:
        return Finding(
            "log", Severity.ATTENTION, told,
            "a worker lags behind and keeps the log from being cut: see settlemark waiting for one that hangs",
        )  # fmt: skip
    return Finding("log", Severity.OK, told)


def _unfinished(stand: list[Standing], now: float) -> Iterator[Finding]:
    if not stand:
        yield Finding("unfinished", Severity.OK, "none")
        return
    begun = [one.since for one in stand if one.since is not None]
    oldest = now - min(begun) if begun else 0.0
    # What is put aside is nobody's on purpose: recovery leaves it to the person, or the framework, it waits for.
    nobodys = [one for one in stand if not one.alive and not one.parked]
    told = f"{len(stand)}, the oldest for {lasting(oldest)}"
    if nobodys:
        yield Finding(
            "unfinished", Severity.ATTENTION, f"{told}; {len(nobodys)} of them are nobody's now",
            "settlemark recover --module YOURAPP.TOOLS",
        )  # fmt: skip
    elif oldest > OLD_SECONDS:
        yield Finding(
            "unfinished", Severity.NOTE, told, "see settlemark waiting; max_age= ends what hangs in a live process"
        )
    else:
        yield Finding("unfinished", Severity.OK, told)


def _asked(stand: list[Standing]) -> Finding:
    asked = [each for one in stand for each in one.asked if each.answer is None]
    if not asked:
        return Finding("approvals", Severity.OK, "nothing waits for a person")
    dying = [one for one in stand if one.asked and not one.alive and not one.parked]
    ends = f"; {len(dying)} of them belong to processes that are gone, and recovery ends those" if dying else ""
    return Finding("approvals", Severity.NOTE, f"{len(asked)} wait for a person{ends}", "see settlemark approvals")


def _left(look: Look) -> Iterator[Finding]:
    ((doubts,),) = look.ask(
        "SELECT count(*) FROM settlemark_effect WHERE namespace = :namespace AND outcome = 'unknown'"
    )
    ((left,),) = look.ask(
        "SELECT count(*) FROM settlemark_effect WHERE namespace = :namespace AND tag IS NOT NULL AND tag <> 'clean'"
        " AND dealt_at_seconds IS NULL"
    )
    yield (
        Finding("in doubt", Severity.NOTE, f"{doubts}", "see settlemark in-doubt")
        if doubts
        else Finding("in doubt", Severity.OK, "none")
    )
    yield (
        Finding("residue", Severity.NOTE, f"{left}", "see settlemark residue")
        if left
        else Finding("residue", Severity.OK, "none")
    )


__all__ = ["examine"]
