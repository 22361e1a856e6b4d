"""`settlemark doctor`: what weakens a ledger, and how to mend it."""

from __future__ import annotations

from dataclasses import asdict

import typer

from settlemark._cli.commands import options
from settlemark._cli.commands.options import AsJson, AsTable, LedgerName, Namespace, ledger_url, reading
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import fail, say, say_json, say_table
from settlemark._edges.errors import LedgerError

_MARK = {"ok": "ok", "note": "note", "attention": "ATTENTION", "danger": "DANGER"}


def doctor(
    ledger: LedgerName = None, *, as_json: AsJson = False, as_table: AsTable = False, namespace: Namespace = "default"
) -> None:
    """Look for settings that weaken durability, clocks, schema, and work that hangs; exit with 1 on a danger."""
    from settlemark._cli.doctor import Severity, examine

    url = ledger_url(ledger)
    try:
        if url == "memory:":
            with reading(ledger):
                pass
        found = examine(url, namespace=namespace, wait=options.WAIT_SECONDS)
    except LedgerError as error:
        fail(error)
    if as_json:
        say_json([asdict(finding) for finding in found])
    elif as_table:
        from settlemark._report.sentences import add_row, new_table

        table = new_table("Doctor", "", "check", "found", "what to do")
        for finding in found:
            add_row(table, _MARK[finding.severity], finding.check, finding.found, finding.advice)
        say_table(table)
    else:
        for finding in found:
            say(f"{_MARK[finding.severity]:<9}  {finding.check}: {finding.found}")
            if finding.advice:
                say(f"{'':<9}  -> {finding.advice}")
    dangers = any(finding.severity is Severity.DANGER for finding in found)
    raise typer.Exit(Exit.FOUND if dangers else Exit.DONE)


__all__ = ["doctor"]
