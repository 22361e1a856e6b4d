"""Live reads: what may change behind the settlement's back is looked at again before anything settles on it.

A read is a snapshot, and only what goes through the settlement makes it stale. Declared with `live=`, a
function that fetches an ETag or a digest, it is compared when the transaction decides, and once more before
its first held effect leaves; from there on there is no way back. With `valid_for=` it expires. Both checks
are made just before the step they guard, outside of its lock: they narrow the gap, which the outside keeps open.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import partial

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.live_read import LiveRead
from settlemark._engine.kernel import Kernel
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Txn
from settlemark._protocol.states import Reason, State

PLANS = 10_000  # runs whose last turn only read


class Freshness:
    """Looks at live reads again."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.live_plans: OrderedDict[str, list[LiveRead]] = OrderedDict()

    def look(self, attempt: Attempt, effect: Effect) -> Program[LiveRead | None]:
        """Return what a read is compared with later, as it is before the read; None when it is a snapshot."""
        declaration = effect.declaration
        if declaration.live is None and declaration.valid_for is None:
            return None
        expires = None if declaration.valid_for is None else self._kernel.monotonic() + declaration.valid_for
        if declaration.live is None:
            return LiveRead(declaration.tool, effect.scopes, None, None, expires, declaration.valid_for)
        function = declaration.live.function
        named = declaration.live.bind(effect.for_handlers(), result=None, key="")
        fetch = partial(function, **named)
        seen = yield self._kernel.callers.asking(attempt.name, fetch)
        return LiveRead((function, repr(named)), effect.scopes, fetch, seen, expires, declaration.valid_for)

    def live_reads(self, attempt: Attempt) -> list[LiveRead]:
        """Return what has to hold for a transaction to commit: its own reads, and those its run has not acted on."""
        plan = self.live_plans.get(attempt.run)
        if not plan or not attempt.live.wrote:
            return list(attempt.live_reads.copy().values())
        return [*attempt.live_reads.copy().values(), *self._not_read_anew(plan, attempt)]

    @staticmethod
    def _not_read_anew(plan: list[LiveRead], attempt: Attempt) -> list[LiveRead]:
        anew = attempt.live.reads
        return [read for read in plan if not all(scope in anew for scope in read.scopes)]

    def verify(self, attempt: Attempt, reads: Iterable[LiveRead]) -> Program[dict[str, Scope | str] | None]:
        """Return why the first of these reads holds no longer, as the detail of an abort; None when all of them do."""
        for read in reads:
            if read.expires is not None and self._kernel.monotonic() >= read.expires:
                return {"scope": read.scopes[0], "how": f"was read more than {read.valid_for:g} s ago"}
            if read.fetch is None or read.overwritten:
                continue
            if (yield self._kernel.callers.asking(attempt.name, read.fetch)) != read.seen:
                return {"scope": read.scopes[0], "how": "changed, from outside, after it was read"}
        return None

    def before_writing(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        """Look at what an effect is about to change itself: afterwards nobody could tell whose change it was.

        Raises:
            Stale: it has changed; nothing was run.
        """
        touched = [read for read in attempt.live_reads.copy().values() if read.about(effect.scopes)]
        wrong = (yield from self.verify(attempt, touched)) if touched else None
        if wrong is not None:
            yield from self._kernel.step(lambda protocol, _book: protocol.abort(txn, Reason.STALE, **wrong))
            with self._kernel.local as protocol:
                raise protocol.refusal(txn)

    @staticmethod
    def after_writing(attempt: Attempt, effect: Effect) -> None:
        for read in attempt.live_reads.copy().values():
            read.overwritten = read.overwritten or read.about(effect.scopes)

    def keep_plan(self, attempt: Attempt, txn: Txn) -> None:
        """Let what a finished transaction has read count for its run's next writing one, as its versions do."""
        plans, run = self.live_plans, attempt.run
        if txn.reason in (Reason.STALE, Reason.CASCADED) or (txn.state is State.COMMITTED and txn.wrote):
            plans.pop(run, None)
        elif attempt.live_reads and txn.reason is not Reason.WOUNDED:
            kept = self._not_read_anew(plans.pop(run, []), attempt)
            plans[run] = [*kept, *attempt.live_reads.copy().values()]
            if len(plans) > PLANS:
                plans.popitem(last=False)


__all__ = ["Freshness"]
