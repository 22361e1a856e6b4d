"""What the work on a ledger shows: its clocks, workers, log, and what is unfinished, in doubt or left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from settlemark._api import who_waits as _waiting
from settlemark._api.who_waits import Ends, Standing, duration, name_of, owner_of
from settlemark._cli.doctor.files import size
from settlemark._cli.doctor.finding import Finding, Severity
from settlemark._edges.plain import plain
from settlemark._report.judged import in_force
from settlemark.ledger._replica.looking import Look
from settlemark.ledger._replica.replica import IMAGE_EVERY
from settlemark.ledger._workers import process

SKEW_SECONDS = 2.0
OLD_SECONDS = 3600.0
NAMED = 20
"""How many transactions without a living process are named."""


def examine(look: Look, clock: Callable[[], float]) -> Iterator[Finding]:
    """Check one snapshot of the store."""
    yield _skew(look, clock)
    yield from _workers(look)
    yield _policies(look)
    yield _log(look)
    stand, now = _waiting.found(look)
    yield from _unfinished(stand, now)
    yield from _without_process(stand, now)
    yield from _kept(stand, now)
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
            "clock",
            Severity.ATTENTION,
            told,
            "set both by NTP: windows go by the store's clock, and times on record are those of each host",
        )
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
        silent = f"for {duration(-worker.lease_left)} longer than its lease" if worker.lease_left < 0 else ""
        if worker.ended:
            told = "is gone: its process has ended"
        elif worker.buried:
            told = "was silent, its work is others' now, and it may still be sending"
        else:
            told = f"is silent {silent}"
        yield Finding(
            "workers",
            Severity.ATTENTION,
            f"{process(worker.name)} {told}",
            "any process that settles here takes its work up; or settlemark recover --module YOURAPP.TOOLS",
        )


def _policies(look: Look) -> Finding:
    """Tell by which policies the processes that are alive judge calls: each has its own in force."""
    judged = in_force(look.book, [worker.name for worker in look.workers() if worker.alive])
    by: dict[tuple[str, str], list[str]] = {}
    for worker, policy in judged.items():
        by.setdefault(policy, []).append(worker)
    if not by:
        return Finding("policies", Severity.OK, "no process that is alive has judged a call lately")
    versions = [version for version, _ in by]
    told = [
        f"{version if versions.count(version) == 1 else f'{version} (table {digest[:8]})'} in"
        f" {', '.join(process(worker) for worker in sorted(workers))}"
        for (version, digest), workers in sorted(by.items())
    ]
    if len(by) > 1:
        return Finding(
            "policies",
            Severity.ATTENTION,
            f"processes judge by different policies at once: {'; '.join(told)}",
            "a policy is in force per process, from Settlement(policy=…) or enforce: put one in force in all of them",
        )
    return Finding("policies", Severity.OK, f"{told[0]}; a policy is in force per process")


def _log(look: Look) -> Finding:
    sizes = look.sizes()
    told = f"{sizes.log_entries} entries, and an image of {size(sizes.image_characters)}"
    if sizes.log_entries > 10 * IMAGE_EVERY:
        return Finding(
            "log",
            Severity.ATTENTION,
            told,
            "a worker lags behind and keeps the log from being cut: see settlemark waiting for one that hangs",
        )
    return Finding("log", Severity.OK, told)


def _unfinished(stand: list[Standing], now: float) -> Iterator[Finding]:
    if not stand:
        yield Finding("unfinished", Severity.OK, "none")
        return
    begun = [one.since for one in stand if one.since is not None]
    oldest = now - min(begun) if begun else 0.0
    nobodys = [one for one in stand if one.ends_it == "nobody"]
    told = f"{len(stand)}, the oldest for {duration(oldest)}"
    if nobodys:
        yield Finding(
            "unfinished",
            Severity.ATTENTION,
            f"{told}; {len(nobodys)} of them are nobody's now",
            "settlemark recover --module YOURAPP.TOOLS",
        )
    elif oldest > OLD_SECONDS:
        yield Finding(
            "unfinished", Severity.NOTE, told, "see settlemark waiting; max_age= ends what hangs in a live process"
        )
    else:
        yield Finding("unfinished", Severity.OK, told)


def _without_process(stand: list[Standing], now: float) -> Iterator[Finding]:
    """Name every unfinished transaction that no living process ends, and who has to."""
    found = [one for one in stand if one.ends_it != "process"]
    for one in found[:NAMED]:
        severity, remedy = _REMEDIES[one.ends_it]
        if one.ended:
            remedy = "its end is not on record yet: settlemark recover --module YOURAPP.TOOLS"
        key = next((each.key for each in one.asked if each.answer is None), None)
        if one.ends_it == "person" and key is None:
            remedy = "it is answered: settlemark recover --module YOURAPP.TOOLS goes on with it, or any process here"
        held = f", holds {', '.join(one.scopes)}" if one.scopes else ""
        state = (
            "over" if one.ended else f"put aside{'' if one.worker else ', nobody has it'}" if one.parked else one.state
        )
        behind = sum(any(wait.holder == one.transaction for wait in other.waits) for other in stand)
        waited = f"; {behind} wait{'s' * (behind == 1)} for it" if behind else ""
        since = "" if one.since is None else f" for {duration(now - one.since)}"
        yield Finding(
            "ends",
            severity,
            f"{name_of(one)} is {state}{since}{held}{waited}; {owner_of(one)}",
            remedy.format(run=plain(one.run), key=key),
        )
    if len(found) > NAMED:
        yield Finding(
            "ends",
            Severity.ATTENTION,
            f"{len(found) - NAMED} more that no living process ends",
            "settlemark waiting lists them all",
        )


_REMEDIES: dict[Ends, tuple[Severity, str]] = {
    "nobody": (
        Severity.ATTENTION,
        (
            "any process here that has its tools ends it, an open one after keep_open=; or"
            " settlemark recover --module YOURAPP.TOOLS"
        ),
    ),
    "sender": (
        Severity.ATTENTION,
        "its worker fell silent and may still be sending: it is taken up when that has ended, or after quarantine=",
    ),
    "person": (
        Severity.NOTE,
        "settlemark approve KEY --by NAME, or settlemark reject KEY --because TEXT --by NAME; its KEY is {key}",
    ),
    "framework": (
        Severity.NOTE,
        "resume the run {run} in its framework, or settlement.cancel({run!r}) undoes it; nothing else ends it",
    ),
}


def _kept(stand: list[Standing], now: float) -> Iterator[Finding]:
    for one in stand:
        for each in one.kept:
            yield Finding(
                "kept",
                Severity.ATTENTION,
                f"{_waiting.name_of(one)} keeps {each.scope}: {_waiting.silence_of(each, now)}",
                f"if you know what became of it: settlemark resolve {each.key}; else end that process, or wait",
            )


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
