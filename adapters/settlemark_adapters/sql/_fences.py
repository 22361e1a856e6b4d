"""Fences in a database: the greatest token of a lease that has acted on a row, kept beside what it protects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from settlemark import Scope
from settlemark_adapters._database import insert_unless_there
from settlemark_adapters._fence import Leased, check, held_by
from settlemark_adapters.sql._effects import metadata

fences = sa.Table(
    "settlemark_fences",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
)


def pass_fences(connection: sa.Connection, scopes: Iterable[str], leased: Leased) -> None:
    """Check, in the transaction of an act, that these scopes may be touched; keep the act's token there.

    The fences that overlap are locked to the end of the transaction: so an act under a greater token comes behind those
    under a lesser one that have begun, and those that come later find it.

    Raises:
        Fenced: a greater token has acted there, or some token and this act has none; nothing was done.
    """
    lease = held_by(leased)
    touched = [Scope.parse(scope) for scope in scopes]
    about = ", ".join(scope.text for scope in touched)
    known = [Scope.parse(scope) for scope in connection.execute(sa.select(fences.c.scope)).scalars()]
    mine = sorted(fence.text for fence in known if any(fence.overlaps(scope) for scope in touched))
    for scope in mine:
        check(_locked(connection, scope), lease, about)
    if lease is None or not any(Scope.parse(lease.scope).overlaps(scope) for scope in touched):
        return
    own = {"scope": lease.scope, "token": lease.token, "holder": lease.holder}
    if not insert_unless_there(connection, fences, own):
        check(_locked(connection, lease.scope), lease, about)
        connection.execute(fences.update().where(fences.c.scope == lease.scope).values(own))


def _locked(connection: sa.Connection, scope: str) -> dict[str, Any]:
    found = sa.select(fences).where(fences.c.scope == scope).with_for_update()
    return {str(name): value for name, value in connection.execute(found).mappings().one().items()}


__all__ = ["pass_fences"]
