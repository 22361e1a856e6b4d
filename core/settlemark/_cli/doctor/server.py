"""What weakens a ledger on a PostgreSQL server: settings that acknowledge a commit before it is durable."""

from __future__ import annotations

from collections.abc import Iterator

from settlemark._cli.doctor.finding import Finding, Severity
from settlemark.ledger._replica.looking import Look

OLDEST = 130_000
_SETTINGS = (
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "default_transaction_isolation",
    "autovacuum",
    "server_version",
    "server_version_num",
)


def store(look: Look) -> Iterator[Finding]:
    """Check the server's settings, as this user's sessions have them."""
    rows = look.ask(
        "SELECT name, CASE name WHEN 'synchronous_commit' THEN reset_val ELSE setting END FROM pg_settings"
        " WHERE name = ANY(string_to_array(:names, ' '))",
        names=" ".join(_SETTINGS),
    )
    settings = {str(name): str(setting) for name, setting in rows}
    ((standby,),) = look.ask("SELECT pg_is_in_recovery()")
    unlogged = [
        name
        for (name,) in look.ask(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relpersistence <> 'p' AND relname LIKE 'settlemark%'"
            " ORDER BY relname"
        )
    ]
    yield from judge(settings, standby=standby, unlogged=unlogged)


def judge(settings: dict[str, str], *, standby: bool, unlogged: list[str]) -> Iterator[Finding]:
    """Return what a server's settings mean for durability."""
    yield _must_be_on(settings, "fsync", "a crash of the machine may corrupt the whole database")
    yield _must_be_on(settings, "full_page_writes", "a crash amid the write of a page may corrupt it")
    yield _synchronous_commit(settings)
    if unlogged:
        yield Finding(
            "tables",
            Severity.DANGER,
            f"{', '.join(unlogged)}: unlogged, and empty after a crash of the server",
            "; ".join(f"ALTER TABLE {name} SET LOGGED" for name in unlogged),
        )
    if standby:
        yield Finding(
            "server",
            Severity.ATTENTION,
            "a standby, which can only be read",
            "name the primary in the URL, or add target_session_attrs=read-write",
        )
    yield _replication(settings)
    isolation = settings.get("default_transaction_isolation", "unknown")
    yield Finding("isolation", Severity.OK, f"{isolation} by default; settlemark states its own for each transaction")
    if settings.get("autovacuum") == "off":
        yield Finding(
            "autovacuum",
            Severity.ATTENTION,
            "off: the log's head is rewritten by every step, and slows down",
            "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()",
        )
    yield _version(settings)


def _must_be_on(settings: dict[str, str], name: str, harm: str) -> Finding:
    value = settings.get(name, "unknown")
    if value == "on":
        return Finding(name, Severity.OK, "on")
    return Finding(name, Severity.DANGER, f"{value}: {harm}", f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()")


def _synchronous_commit(settings: dict[str, str]) -> Finding:
    value = settings.get("synchronous_commit", "unknown")
    if value == "off":
        return Finding("synchronous_commit", Severity.OK, "off for this user, and on for the ledger's own connections")
    if value == "local" and settings.get("synchronous_standby_names"):
        return Finding(
            "synchronous_commit",
            Severity.ATTENTION,
            "local: the synchronous standbys are not waited for",
            "ALTER ROLE CURRENT_USER SET synchronous_commit = on, if a failover must lose nothing",
        )
    return Finding("synchronous_commit", Severity.OK, value)


def _replication(settings: dict[str, str]) -> Finding:
    names = settings.get("synchronous_standby_names", "")
    if names:
        return Finding("replication", Severity.OK, f"synchronous: {names}")
    return Finding(
        "replication",
        Severity.NOTE,
        "no synchronous standby: what was acknowledged is on this server's disk alone",
        "set synchronous_standby_names if a failover to a replica must lose nothing",
    )


def _version(settings: dict[str, str]) -> Finding:
    number = int(settings.get("server_version_num", "0"))
    told = f"PostgreSQL {settings.get('server_version', 'unknown')}"
    if number < OLDEST:
        return Finding("version", Severity.ATTENTION, told, "upgrade: settlemark is tested from PostgreSQL 13 on")
    return Finding("version", Severity.OK, told)


__all__ = ["judge", "store"]
