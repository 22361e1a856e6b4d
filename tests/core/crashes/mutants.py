"""Services of a driver that are wrong about what is durable before what, and ledgers about whose fault it is."""

from __future__ import annotations

from tests.rooms.attempt import current_of
from tests.rooms.engine import Acting, Releases, Settling, TakingBack
from tests.rooms.lifecycle import Recovery
from tests.rooms.protocol import Mode
from tests.rooms.record import IN_ORDER, SqlBook
from tests.rooms.replica import written

from settlemark.hosting import Act


class EffectBeforeIntent(Acting):
    """Acts first, and has the intent on record afterwards."""

    def act(self, attempt, txn, effect, let_through):
        result = yield from self._perform(attempt, txn, effect, let_through)
        yield from self._admission.admit(attempt, txn, effect, Mode.EAGER, intends=True)
        yield from self._come_back(attempt, txn, effect, [])
        return result


class ReleaseBeforeDecision(Settling):
    """Lets what was held leave, and has the decision on record afterwards."""

    def _decide(self, attempt, txn, **options):
        for effect in self._releases.to_leave(attempt):
            effect.confirm((yield Act(effect.run, {}, current_of(attempt, effect))))
            self._kernel.note(attempt, [attempt.records.outcome(effect, self._kernel.clock())])
        yield from super()._decide(attempt, txn, **options)


class OutcomesTogether(Releases):
    """Lets the next leave before the outcome of the last is durable."""

    def _release(self, attempt, effect, **given):
        yield from super()._release(attempt, effect, **{**given, "last": True})
        self._kernel.note(attempt, [attempt.records.outcome(effect, self._kernel.clock())])


class UndoneTogether(TakingBack):
    """Undoes the next before it is durable that the last is undone."""

    def _tell_undone(self, attempt, effect, back, *, acted, unsure):
        return super()._tell_undone(attempt, effect, back, acted=False, unsure=unsure)


class ReleasesAgain(Recovery):
    """Lets leave what it finds queued, and asks nobody whether the first of it had left."""

    def _doubt_first(self, attempt):
        pass


# ---- ledgers that are wrong about whose fault a failure is


class RowsLeaveEarly(SqlBook):
    """Lets go of rows before the store has them."""

    def flush(self):
        for statement in IN_ORDER:
            rows = self._rows.pop(statement, None)
            if rows:
                self._connection.execute_all(statement, rows)


def takes_any_failure_for_a_refusal(transaction, item, book, steps):
    """Take a step as if whatever is raised in it were its own: also what could not be sent for another's sake."""
    replica, driver = transaction._replica, transaction._connection.engine.dialect.loaded_dbapi
    before = len(replica.tried)
    try:
        value, failure = item.step(replica.protocol, book), None
    except driver.OperationalError:
        raise
    except Exception as error:
        value, failure = None, error
    if len(replica.tried) > before:
        steps.append(written(replica.tried[before:]))
    return failure, value


def lets_all_pass(changes, *, short_ascii=False):
    """Look at no text."""
    del short_ascii
    return list(changes)
