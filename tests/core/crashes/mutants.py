"""Drivers that are wrong about what must be durable before what, and ledgers about whose fault a failure is."""

from __future__ import annotations

from settlemark._acts.requests import Act
from settlemark._lifecycle.driver import Driver
from settlemark._protocol.holdings import Mode
from settlemark.ledger._record import book as _book
from settlemark.ledger._record.book import SqlBook
from settlemark.ledger._replica import replica


class EffectBeforeIntent(Driver):
    """Acts first, and has the intent on record afterwards."""

    def _act(self, attempt, txn, effect, let_through):
        result = yield from self._perform(attempt, effect, let_through)
        yield from self._admit(attempt, txn, effect, Mode.EAGER, intends=True)
        yield from self._come_back(attempt, txn, effect, [])
        return result


class ReleaseBeforeDecision(Driver):
    """Lets what was held leave, and has the decision on record afterwards."""

    def _decide(self, attempt, txn, **options):
        for effect in self._to_leave(attempt):
            effect.confirm((yield Act(effect.run, {}, attempt.current(effect))))
            self._note(attempt, [attempt.outcome(effect, self._clock())])
        yield from super()._decide(attempt, txn, **options)


class OutcomesTogether(Driver):
    """Lets the next leave before the outcome of the last is durable."""

    def _release(self, attempt, effect, **given):
        yield from super()._release(attempt, effect, **{**given, "last": True})
        self._note(attempt, [attempt.outcome(effect, self._clock())])


class UndoneTogether(Driver):
    """Undoes the next before it is durable that the last is undone."""

    def _surely(self, step, *, durable=False):
        if not durable:
            return (yield from super()._surely(step))
        self.ledger.later(step)
        return True


class ReleasesAgain(Driver):
    """Lets leave what it finds queued, and asks nobody whether the first of it had left."""

    def _doubt_first(self, attempt):
        pass


# ---- ledgers that are wrong about whose fault a failure is


class RowsLeaveEarly(SqlBook):
    """Lets go of rows before the store has them."""

    def flush(self):
        for statement in _book._IN_ORDER:
            rows = self._rows.pop(statement, None)
            if rows:
                self._connection.execute_all(statement, rows)


def takes_any_failure_for_a_refusal(shared, item, book, steps):
    """Take a step as if whatever is raised in it were its own: also what could not be sent for another's sake."""
    before = len(shared._tried)
    try:
        value, failure = item.step(shared.protocol, book), None
    except shared._dbapi.OperationalError:
        raise
    except Exception as error:
        value, failure = None, error
    steps += [replica._in_json([step]) for step in shared._tried[before:]]
    return failure, value


def lets_all_pass(changes, *, plainly=False):
    """Look at no text."""
    del plainly
    return list(changes)
