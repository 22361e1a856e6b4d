"""Removes what is old from a SQL store: first the payloads, later the keys; what an operator must look at stays.

A sweep looks at a few attempts, from the oldest on, in a short transaction: writers come in between.
"""

from __future__ import annotations

from typing import Any

from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import Reason, State, Tag
from settlemark.ledger._age import BEGINNING, Age, Cursor, Swept, forget_at
from settlemark.ledger._entries import STEERED, place_key
from settlemark.ledger._payloads.payloads import PRUNED
from settlemark.ledger._record.blobs import Blobs
from settlemark.ledger._sql.wire import Row, Statement, Wire


class Sweeping:
    """One sweep of a namespace, in the open transaction of a wire."""

    __slots__ = ("_age", "_blobs", "_namespace", "_wire")

    def __init__(self, wire: Wire, namespace: str, age: Age) -> None:
        self._wire = wire
        self._namespace = namespace
        self._age = age
        self._blobs = Blobs(wire, namespace)

    def sweep(self, after: Cursor | None, limit: int) -> Swept:
        """Remove at most `limit` attempts' keys, and as many attempts' payloads."""
        age, here = self._age, {"namespace": self._namespace, "limit": limit}
        over = self._wire.query(_OVER, {**here, "now": age.now})
        for name, attempt in over:
            self._forget(name, attempt)
        settled, name, attempt = after or BEGINNING
        cursor = {"settled": settled, "name": name, "attempt": attempt}
        old = self._wire.query(_OLD, {**here, **cursor, "before": age.before})
        stay = keys = 0
        for row in old:
            if row[-1]:
                stay += 1
            else:
                keys += self._let_go(row)
        bodies = self._sweep_entries(limit)
        more = limit in (len(old), len(over), bodies)
        last = (old[-1][2], old[-1][0], old[-1][1]) if old else after or BEGINNING
        return Swept(len(old) - stay - keys, len(over) + keys, stay, last if more else None, bodies)

    def count(self) -> Swept:
        """Return what sweeps would do."""
        age, here = self._age, {"namespace": self._namespace}
        ((over,),) = self._wire.query(_COUNT_OVER, {**here, "now": age.now})
        found = self._wire.query(_COUNT_OLD, {**here, "before": age.before, "now": age.now, "keys": age.keys})
        ((old, stay, keys),) = found
        ((bodies,),) = self._wire.query(_COUNT_ENTRIES, {**here, "before": age.before})
        return Swept(old - (stay or 0) - (keys or 0), over + (keys or 0), stay or 0, entries=bodies)

    def _let_go(self, row: Row) -> bool:
        """Remove an attempt's payloads; return whether its keys are old enough to be removed with them."""
        name, attempt, settled, window, unsaid, _ = row
        until = forget_at(settled, window, self._age.keys, unsaid=bool(unsaid))
        if until <= self._age.now:
            self._forget(name, attempt)
            return True
        own = self._own(name, attempt)
        self._blobs.forget(name, attempt)
        self._wire.execute(_STRIP_EFFECTS, {**own, "pruned": PRUNED})
        self._wire.execute(_STRIP_OWED, {**own, "pruned": PRUNED})
        self._wire.execute(_STRIP, {**own, "until": until})
        return False

    def _forget(self, name: str, attempt: int) -> None:
        own = self._own(name, attempt)
        self._blobs.forget(name, attempt)
        self._wire.execute(_FORGET_SPENDS, own)
        self._wire.execute(_STRIP_SEALS, {**own, "pruned": PRUNED})
        self._wire.execute(_FORGET_EFFECTS, own)
        self._wire.execute(_FORGET_OWED, own)
        self._wire.execute(_FORGET, own)

    def _sweep_entries(self, limit: int) -> int:
        """Remove at most so many entries' bodies, and as many runs' chains; return how many bodies."""
        age, here = self._age, {"namespace": self._namespace}
        old = self._wire.query(_OLD_ENTRIES, {**here, "before": age.before, "limit": limit})
        for run, place, kind, id_, version in old:
            self._blobs.forget(place_key(kind, id_), -version)
            self._wire.execute(_STRIP_ENTRY, {**here, "run": run, "place": place, "pruned": PRUNED})
        for (run,) in self._wire.query(_OLD_CHAINS, {**here, "before": age.now - age.keys, "limit": limit}):
            self._wire.execute(_FORGET_ENTRIES, {**here, "run": run})
            self._wire.execute(_FORGET_CHAIN, {**here, "run": run})
        return len(old)

    def _own(self, name: str, attempt: int) -> dict[str, Any]:
        return {"namespace": self._namespace, "name": name, "attempt": attempt}


_LEFT = f"(e.tag <> '{Tag.CLEAN}' AND e.dealt_at_seconds IS NULL)"  # not true without a tag
_KEPT = f"({_LEFT} OR e.outcome IN ('{Outcome.UNKNOWN}', '{Outcome.INTENDED}'))"
_THEIRS = "e.namespace = t.namespace AND e.name = t.name AND e.attempt = t.attempt"
_OWED = (
    "EXISTS (SELECT 1 FROM settlemark_owed AS o WHERE o.namespace = t.namespace AND o.name = t.name"  # noqa: S608 - no value is in it
    " AND o.attempt = t.attempt AND o.fulfilled_key IS NULL AND o.waived_by IS NULL"
    f" AND t.state = '{State.COMMITTED}' AND coalesce(t.reason, '') <> '{Reason.REWOUND}')"
)
_STEERED = (
    "EXISTS (SELECT 1 FROM settlemark_entry AS s WHERE s.namespace = t.namespace AND s.run = t.run"  # noqa: S608 - no value is in it
    f" AND s.kind IN ({', '.join(repr(kind) for kind in STEERED)}) AND s.open AND s.latest)"
)
_WINDOW = "max(e.window_seconds)"
_UNSAID = "max(CASE WHEN e.key IS NOT NULL AND e.window_seconds IS NULL THEN 1 ELSE 0 END)"
_STAYS = f"max(CASE WHEN {_KEPT} OR {_OWED} OR {_STEERED} THEN 1 ELSE 0 END)"
_IS_OLD = "t.namespace = :namespace AND t.forget_at_seconds IS NULL AND t.settled_at_seconds < :before"
_IS_OVER = (
    "t.namespace = :namespace AND t.forget_at_seconds <= :now"  # noqa: S608 - constant text
    f" AND NOT EXISTS (SELECT 1 FROM settlemark_effect AS e WHERE {_THEIRS} AND {_KEPT}) AND NOT {_OWED}"
    f" AND NOT {_STEERED}"
)
_OLD = Statement(
    f"SELECT t.name, t.attempt, t.settled_at_seconds, {_WINDOW}, {_UNSAID}, {_STAYS}"  # noqa: S608 - no value is in it
    " FROM (SELECT t.namespace, t.name, t.attempt, t.settled_at_seconds, t.state, t.reason, t.run"
    f" FROM settlemark_transaction AS t WHERE {_IS_OLD} AND t.settled_at_seconds >= :settled"
    " AND (t.settled_at_seconds, t.name, t.attempt) > (:settled, :name, :attempt)"
    " ORDER BY t.settled_at_seconds, t.name, t.attempt LIMIT :limit) AS t"
    f" LEFT JOIN settlemark_effect AS e ON {_THEIRS}"
    " GROUP BY t.namespace, t.name, t.attempt, t.settled_at_seconds, t.state, t.reason, t.run"
    " ORDER BY t.settled_at_seconds, t.name, t.attempt"
)
_OVER = Statement(
    f"SELECT t.name, t.attempt FROM settlemark_transaction AS t WHERE {_IS_OVER}"  # noqa: S608 - no value is in it
    " ORDER BY t.forget_at_seconds, t.name, t.attempt LIMIT :limit"
)
_COUNT_OVER = Statement(f"SELECT count(*) FROM settlemark_transaction AS t WHERE {_IS_OVER}")  # noqa: S608 - no value is in it
_COUNT_OLD = Statement(
    "SELECT count(*), sum(stays),"  # noqa: S608 - no value is in it
    " sum(CASE WHEN stays = 0 AND settled + CASE WHEN unsaid = 1 AND :keys > longest THEN :keys ELSE longest END"
    " <= :now THEN 1 ELSE 0 END)"
    f" FROM (SELECT t.settled_at_seconds AS settled, coalesce({_WINDOW}, 0) AS longest,"
    f" {_UNSAID} AS unsaid, {_STAYS} AS stays"
    f" FROM settlemark_transaction AS t LEFT JOIN settlemark_effect AS e ON {_THEIRS} WHERE {_IS_OLD}"
    " GROUP BY t.namespace, t.name, t.attempt, t.settled_at_seconds, t.state, t.reason, t.run) AS found"
)
_OWN = "namespace = :namespace AND name = :name AND attempt = :attempt"
_STRIPPED = ", ".join(
    f"{field} = CASE WHEN {field} IS NULL THEN NULL ELSE :pruned END"
    for field in ("rationale", "result", "error", "note", "said")
)
_STRIP_EFFECTS = Statement(
    f"UPDATE settlemark_effect SET arguments = :pruned, scopes = '[]', {_STRIPPED} WHERE {_OWN}"  # noqa: S608 - no value is in it
)
_STRIP = Statement(
    "UPDATE settlemark_transaction SET cause = NULL, waits = NULL, waits_for = NULL, waits_on = NULL,"  # noqa: S608 - no value is in it
    f" forget_at_seconds = :until WHERE {_OWN}"
)
_FORGET_SPENDS = Statement(
    "DELETE FROM settlemark_spend WHERE namespace = :namespace AND key IN"  # noqa: S608 - no value is in it
    f" (SELECT e.key FROM settlemark_effect AS e WHERE e.{_OWN.replace(' AND ', ' AND e.')})"
)
_STRIP_OWED = Statement(f"UPDATE settlemark_owed SET payload = :pruned, note = NULL WHERE {_OWN}")  # noqa: S608 - no value is in it
_FORGET_OWED = Statement(f"DELETE FROM settlemark_owed WHERE {_OWN}")  # noqa: S608 - no value is in it
_FORGET_EFFECTS = Statement(f"DELETE FROM settlemark_effect WHERE {_OWN}")  # noqa: S608 - no value is in it
_FORGET = Statement(f"DELETE FROM settlemark_transaction WHERE {_OWN}")  # noqa: S608 - no value is in it
_IS_OLD_ENTRY = (
    "e.namespace = :namespace AND e.kept AND e.kind <> 'effect' AND e.at_seconds < :before"  # noqa: S608 - constant text
    " AND NOT (e.open AND e.latest)"
    " AND NOT EXISTS (SELECT 1 FROM settlemark_transaction AS t"
    f" WHERE {_THEIRS} AND t.forget_at_seconds IS NULL)"
)
_OLD_ENTRIES = Statement(
    f"SELECT e.run, e.place, e.kind, e.id, e.version FROM settlemark_entry AS e WHERE {_IS_OLD_ENTRY}"  # noqa: S608 - no value is in it
    " ORDER BY e.at_seconds, e.run, e.place LIMIT :limit"
)
_COUNT_ENTRIES = Statement(f"SELECT count(*) FROM settlemark_entry AS e WHERE {_IS_OLD_ENTRY}")  # noqa: S608 - no value is in it
_STRIP_ENTRY = Statement(
    "UPDATE settlemark_entry SET body = :pruned, kept = false"
    " WHERE namespace = :namespace AND run = :run AND place = :place"
)
_STRIP_SEALS = Statement(
    "UPDATE settlemark_entry SET body = :pruned, kept = false WHERE namespace = :namespace AND kind = 'effect'"  # noqa: S608 - no value is in it
    f" AND key IN (SELECT e.key FROM settlemark_effect AS e WHERE e.{_OWN.replace(' AND ', ' AND e.')})"
)
_OLD_CHAINS = Statement(
    "SELECT c.run FROM settlemark_chain AS c WHERE c.namespace = :namespace AND c.at_seconds < :before"
    " AND NOT EXISTS (SELECT 1 FROM settlemark_entry AS e"
    " WHERE e.namespace = c.namespace AND e.run = c.run AND e.kept)"
    " AND NOT EXISTS (SELECT 1 FROM settlemark_transaction AS t WHERE t.namespace = c.namespace AND t.run = c.run)"
    " ORDER BY c.at_seconds, c.run LIMIT :limit"
)
_FORGET_ENTRIES = Statement("DELETE FROM settlemark_entry WHERE namespace = :namespace AND run = :run")
_FORGET_CHAIN = Statement("DELETE FROM settlemark_chain WHERE namespace = :namespace AND run = :run")

__all__ = ["Sweeping"]
