"""The statements of a book."""

from __future__ import annotations

import sqlalchemy as sa

from settlemark._model.effect_class import Outcome
from settlemark.ledger._contract import HAPPENED, UNRESOLVED
from settlemark.ledger._record import tables as t
from settlemark.ledger._record.pages import COLUMNS
from settlemark.ledger._sql.wire import Statement


def _ignoring(table: sa.Table) -> Statement:
    """Return an insert that leaves an existing row as it is, in the same words for every supported store."""
    names = [column.name for column in table.columns]
    columns, values = ", ".join(names), ", ".join(f":{name}" for name in names)
    return Statement(f"INSERT INTO {table.name} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING")  # noqa: S608 - no value is in it


INSERT_TRANSACTION = _ignoring(t.transactions)
INSERT_FENCE = _ignoring(t.fences)
INSERT_OWED = _ignoring(t.owed)
INSERT_EFFECT = Statement(sa.insert(t.effects))
OLD_FENCES = Statement(
    "SELECT run FROM settlemark_fence WHERE namespace = :namespace AND at_seconds < :before"
    " ORDER BY at_seconds, run LIMIT :limit"
)
REMOVE_FENCE = Statement("DELETE FROM settlemark_fence WHERE namespace = :namespace AND run = :run")
OTHER_WORKERS = Statement(
    "SELECT id, beat, lease_seconds, buried_at_seconds IS NOT NULL, watched_seconds FROM settlemark_worker"
    " WHERE namespace = :namespace AND id <> :worker ORDER BY id"
)
ZOMBIES = Statement("SELECT id FROM settlemark_worker WHERE namespace = :namespace AND buried_at_seconds IS NOT NULL")
MARK_ZOMBIE = Statement(
    "UPDATE settlemark_worker SET buried_at_seconds = {clock}, quarantine_seconds = :quarantine"
    " WHERE namespace = :namespace AND id = :worker"
)
WATCHED = Statement(
    "UPDATE settlemark_worker SET watched_seconds = :watched WHERE namespace = :namespace AND id = :worker"
)
SET_SENDER = Statement("UPDATE settlemark_effect SET sender = :sender WHERE namespace = :namespace AND key = :key")
REMOVE_WORKER = Statement("DELETE FROM settlemark_worker WHERE namespace = :namespace AND id = :worker")
UPDATE_TRANSACTION = Statement(
    sa.update(t.transactions)
    .where(
        t.transactions.c.namespace == sa.bindparam("b_namespace"),
        t.transactions.c.name == sa.bindparam("b_name"),
        t.transactions.c.attempt == sa.bindparam("b_attempt"),
    )
    .values(
        state=sa.bindparam("b_state"),
        epoch=sa.bindparam("b_epoch"),
        reason=sa.bindparam("b_reason"),
        cause=sa.bindparam("b_cause"),
        link=sa.bindparam("b_link"),
        waits_for=sa.bindparam("b_waits_for"),
        waits_on=sa.bindparam("b_waits_on"),
        settled_at_seconds=sa.bindparam("b_at"),
        sealed_at_seconds=sa.func.coalesce(
            sa.bindparam("b_sealed", type_=sa.Float()), t.transactions.c.sealed_at_seconds
        ),
        decided_at_seconds=sa.func.coalesce(
            sa.bindparam("b_decided", type_=sa.Float()), t.transactions.c.decided_at_seconds
        ),
        waits=sa.func.coalesce(sa.bindparam("b_waits", type_=sa.Text()), t.transactions.c.waits),
        agents=sa.func.coalesce(sa.bindparam("b_agents", type_=sa.Text()), t.transactions.c.agents),
    )
)
_run_of_it = (
    sa.select(t.transactions.c.run)
    .where(
        t.transactions.c.namespace == t.effects.c.namespace,
        t.transactions.c.name == t.effects.c.name,
        t.transactions.c.attempt == t.effects.c.attempt,
    )
    .scalar_subquery()
)
UPDATE_EFFECT = Statement(
    sa.update(t.effects)
    .where(t.effects.c.namespace == sa.bindparam("b_namespace"), t.effects.c.key == sa.bindparam("b_key"))
    .values(
        outcome=sa.bindparam("b_outcome"),
        result=sa.bindparam("b_result"),
        error=sa.bindparam("b_error"),
        tag=sa.bindparam("b_tag"),
        note=sa.bindparam("b_note"),
        disposition=sa.bindparam("b_disposition"),
        link=sa.bindparam("b_link"),
        question=sa.bindparam("b_question"),
        contradicted=sa.bindparam("b_contradicted"),
        settled_at_seconds=sa.bindparam("b_at"),
        dealt_at_seconds=sa.null(),  # news of it: an operator has to look at it again
        run=sa.case((sa.bindparam("b_left") == sa.literal_column("1"), _run_of_it), else_=t.effects.c.run),
    )
)
SAY = Statement(
    "UPDATE settlemark_effect SET said = :said, verdict = :verdict, said_by = :by, said_at_seconds = :at,"
    " dealt_at_seconds = :dealt WHERE namespace = :namespace AND key = :key"
)
_o = t.owed.c
_fulfilled, _waived, _told = (sa.bindparam(name, type_=sa.Text()) for name in ("b_fulfilled", "b_waived", "b_told"))
_at = sa.bindparam("b_at", type_=sa.Float())
UPDATE_OWED = Statement(
    sa.update(t.owed)
    .where(_o.namespace == sa.bindparam("b_namespace"), _o.id == sa.bindparam("b_id"))
    .values(
        fulfilled_key=sa.func.coalesce(_fulfilled, _o.fulfilled_key),
        fulfilled_at_seconds=sa.case((_fulfilled.is_(None), _o.fulfilled_at_seconds), else_=_at),
        waived_by=sa.func.coalesce(_waived, _o.waived_by),
        waived_at_seconds=sa.case((_waived.is_(None), _o.waived_at_seconds), else_=_at),
        note=sa.func.coalesce(sa.bindparam("b_note", type_=sa.Text()), _o.note),
        told=sa.func.coalesce(_told, _o.told),
        told_at_seconds=sa.case((_told.is_(None), _o.told_at_seconds), else_=_at),
    )
)
REOPEN = Statement(
    "UPDATE settlemark_owed SET fulfilled_key = NULL, fulfilled_at_seconds = NULL"
    " WHERE namespace = :namespace AND fulfilled_key = :key"
)
INSERT_LAPSE = Statement(
    "INSERT INTO settlemark_owed (namespace, id, name, attempt, run, position, owed_to, tool, scope, payload,"
    " opened_at_seconds, due_seconds)"
    " SELECT e.namespace, :id, e.name, e.attempt, t.run, e.position + 1, :owed_to, :tool, :scope, :payload, :at, :due"
    " FROM settlemark_effect AS e JOIN settlemark_transaction AS t"
    " ON t.namespace = e.namespace AND t.name = e.name AND t.attempt = e.attempt"
    " WHERE e.namespace = :namespace AND e.key = :key ON CONFLICT DO NOTHING"
)
REMOVE_LAPSE = Statement("DELETE FROM settlemark_owed WHERE namespace = :namespace AND id = :id")
IN_ORDER = (
    INSERT_TRANSACTION,
    INSERT_EFFECT,
    INSERT_FENCE,
    INSERT_OWED,
    UPDATE_EFFECT,
    UPDATE_TRANSACTION,
    INSERT_LAPSE,
    UPDATE_OWED,
    REOPEN,
    REMOVE_LAPSE,
)
LAST = Statement(
    f"SELECT {COLUMNS} FROM settlemark_transaction"  # noqa: S608 - constant names
    " WHERE namespace = :b_namespace AND name = :b_name ORDER BY attempt DESC LIMIT 1"
)
ATTEMPT = Statement(
    f"SELECT {COLUMNS} FROM settlemark_transaction"  # noqa: S608 - constant names
    " WHERE namespace = :b_namespace AND name = :b_name AND attempt = :b_attempt"
)
EFFECTS = Statement(
    sa.select(t.effects)
    .where(
        t.effects.c.namespace == sa.bindparam("b_namespace"),
        t.effects.c.name == sa.bindparam("b_name"),
        t.effects.c.attempt == sa.bindparam("b_attempt"),
    )
    .order_by(t.effects.c.position)
)


_c, _e = t.transactions.c, t.effects.c
_open = sa.and_(_c.forget_at_seconds.is_(None), _c.settled_at_seconds.is_(None))  # a range of an index
_left = sa.and_(
    _e.tag.in_([sa.literal_column(f"'{tag.value}'") for tag in UNRESOLVED]),
    _e.outcome.in_([sa.literal_column(f"'{outcome.value}'") for outcome in HAPPENED]),
)
_theirs = sa.and_(_e.namespace == _c.namespace, _e.name == _c.name, _e.attempt == _c.attempt)
_here = _c.namespace == sa.bindparam("b_namespace")
_age = (_c.opened_at_seconds, _c.epoch, _c.attempt)
ALL = Statement(sa.select(t.transactions).where(_here).order_by(*_age))
UNFINISHED = Statement(sa.select(t.transactions).where(_here, _open).order_by(*_age))
ALL_EFFECTS = Statement(
    sa.select(t.effects).where(_e.namespace == sa.bindparam("b_namespace")).order_by(_e.name, _e.attempt, _e.position)
)
BY_KEY = Statement(
    sa.select(t.transactions)
    .join(t.effects, _theirs)
    .where(_e.namespace == sa.bindparam("b_namespace"), _e.key == sa.bindparam("b_key"))
)
ALL_UNRESOLVED = Statement(sa.select(t.transactions).join(t.effects, _theirs).where(_here, _left).order_by(*_age))
UNRESOLVED_EFFECTS = Statement(
    sa.select(t.effects)
    .where(_e.namespace == sa.bindparam("b_namespace"), _left)
    .order_by(_e.name, _e.attempt, _e.position)
)
_of_run = _c.run == sa.bindparam("b_run")
OF_RUN = Statement(sa.select(t.transactions).where(_here, _of_run).order_by(*_age))
EFFECTS_OF_RUN = Statement(
    sa.select(t.effects).join(t.transactions, _theirs).where(_here, _of_run).order_by(_e.name, _e.attempt, _e.position)
)
_since = _c.epoch >= sa.bindparam("b_epoch")
SINCE = Statement(sa.select(t.transactions).where(_here, _since).order_by(*_age))
EFFECTS_SINCE = Statement(
    sa.select(t.effects).join(t.transactions, _theirs).where(_here, _since).order_by(_e.name, _e.attempt, _e.position)
)
UNFINISHED_EFFECTS = Statement(
    sa.select(t.effects).join(t.transactions, _theirs).where(_here, _open).order_by(_e.name, _e.attempt, _e.position)
)
_has_outcome = _e.outcome == sa.bindparam("b_outcome")
OPEN_WITH = Statement(
    sa.select(t.transactions).join(t.effects, _theirs).where(_here, _open, _has_outcome).order_by(*_age)
)
EFFECTS_OPEN_WITH = Statement(
    sa.select(t.effects)
    .join(t.transactions, _theirs)
    .where(_here, _open, _has_outcome)
    .order_by(_e.name, _e.attempt, _e.position)
)
_unknown = _e.outcome == sa.literal_column(f"'{Outcome.UNKNOWN.value}'")
_residue = (_e.namespace == sa.bindparam("b_namespace"), _e.run == sa.bindparam("b_run"), _unknown)
IN_DOUBT = Statement(  # each part is a range of an index
    sa.union_all(
        sa.select(_e.key).where(*_residue, t.LEFT),
        sa.select(_e.key).where(*_residue, t.DEALT),
        sa.select(_e.key).join(t.transactions, _theirs).where(_here, _open, _of_run, _unknown),
    )
)


__all__ = [
    "ALL",
    "ALL_EFFECTS",
    "ALL_UNRESOLVED",
    "ATTEMPT",
    "BY_KEY",
    "EFFECTS",
    "EFFECTS_OF_RUN",
    "EFFECTS_OPEN_WITH",
    "EFFECTS_SINCE",
    "INSERT_EFFECT",
    "INSERT_FENCE",
    "INSERT_LAPSE",
    "INSERT_OWED",
    "INSERT_TRANSACTION",
    "IN_DOUBT",
    "IN_ORDER",
    "LAST",
    "MARK_ZOMBIE",
    "OF_RUN",
    "OLD_FENCES",
    "OPEN_WITH",
    "OTHER_WORKERS",
    "REMOVE_FENCE",
    "REMOVE_LAPSE",
    "REMOVE_WORKER",
    "REOPEN",
    "SAY",
    "SET_SENDER",
    "SINCE",
    "UNFINISHED",
    "UNFINISHED_EFFECTS",
    "UNRESOLVED_EFFECTS",
    "UPDATE_EFFECT",
    "UPDATE_OWED",
    "UPDATE_TRANSACTION",
    "WATCHED",
    "ZOMBIES",
]
