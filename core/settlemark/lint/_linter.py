"""The linter: every rule over every tool in the files, declared or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from settlemark._edges.errors import UsageError
from settlemark.lint._findings import RULES, Finding
from settlemark.lint._guesses import guess
from settlemark.lint._looking import Looking, Remark
from settlemark.lint._rules.classes import classes
from settlemark.lint._rules.handlers import handlers
from settlemark.lint._rules.keys import keys
from settlemark.lint._rules.scopes import scopes
from settlemark.lint._rules.secrets import secrets
from settlemark.lint._rules.sharing import sharing
from settlemark.lint._source.discovery import discover
from settlemark.lint._source.sources import Unreadable, gather

_RULES: tuple[Callable[[Looking], Iterator[Remark]], ...] = (handlers, scopes, sharing, keys, classes, secrets)


def lint(*targets: str | Path, select: Iterable[str] = (), ignore: Iterable[str] = ()) -> list[Finding]:
    """Return the mistakes in the declarations of modules and files, in the order of the text; nothing is run.

    Laws: findings depend on the text alone; a file is examined once, however often it is named. A comment `#
    settlemark: ignore[SM203]` on a finding's line, or on the line of a tool's decorator or `def`, silences that rule
    there, `# settlemark: ignore` all of them; `ignore-file` does so for the whole file.

    Args:
        targets: dotted names of modules and packages, paths of files and folders; notebooks and Markdown too.
        select: codes, or beginnings of codes (`SM2`), of the rules to check; all when empty.
        ignore: those to leave out.

    Raises:
        UsageError: there is no such module, path or rule.

    >>> import tempfile
    >>> tools = Path(tempfile.mkdtemp(), "tools.py")
    >>> _ = tools.write_text('''
    ... from settlemark import effect
    ...
    ... @effect("reversible", scope="mail:/{subject}", undo=lambda **_: None)
    ... def send_mail(to, subject):
    ...     mailer.send(to, subject)
    ... ''')
    >>> for finding in lint(tools):
    ...     print(finding.line, finding.rule, finding.mend)
    4 SM103 "irreversible", scope="mail:/{subject}": it is held until its step has succeeded
    4 SM104 keyed=True, and send current_call().key along; or probe=…, which asks by the key
    4 SM203 scope="mail:/{to}"
    """
    chosen = _chosen(select, ignore)
    found = gather(targets)
    sources = [each for each in found if not isinstance(each, Unreadable)]
    looking = Looking(sources, discover(sources))
    remarks = [remark for rule in _RULES for remark in rule(looking)] + list(_undeclared(looking))
    findings = {
        (remark.code, remark.tool, *remark.source.place(remark.line)): remark
        for remark in remarks
        if remark.code in chosen and not remark.ignored
    }
    order = {id(source): number for number, source in enumerate(sources)}
    ordered = sorted(findings.values(), key=lambda remark: (order[id(remark.source)], remark.line, remark.code))
    unreadable = [_unreadable(each) for each in found if isinstance(each, Unreadable) and "SM001" in chosen]
    return [*unreadable, *(remark.finding() for remark in ordered)]


def _undeclared(looking: Looking) -> Iterator[Remark]:
    for tool in looking.tools:
        if not tool.declared:
            guessed = guess(looking, tool)
            yield looking.remark(
                "SM405",
                tool,
                f"{tool.name} is undeclared: it runs when it is called, and cannot be undone when its step fails",
                f"{guessed.line}; `settlemark adopt` writes such lines for all tools",
            )


def _unreadable(each: Unreadable) -> Finding:
    rule = RULES["SM001"]
    return Finding(rule.code, rule.name, rule.severity, "", each.path, each.line, each.why, "")


def _chosen(select: Iterable[str], ignore: Iterable[str]) -> set[str]:
    def codes(given: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for prefix in given:
            matching = {code for code in RULES if prefix and code.startswith(prefix.upper())}
            matching |= {code for code, rule in RULES.items() if rule.name == prefix.lower()}
            if not matching:
                raise UsageError(f"there is no rule {prefix!r}: the rules are {', '.join(RULES)}", rule=prefix)
            found |= matching
        return found

    wanted = codes(select)
    return (wanted or set(RULES)) - codes(ignore)


__all__ = ["lint"]
