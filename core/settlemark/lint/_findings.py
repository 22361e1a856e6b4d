"""A linter's finding: which rule, of which tool, where, what is wrong, and the line that corrects it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from settlemark._edges.plain import joined


class Severity(StrEnum):
    """The consequence of a finding.

    `error`: it is refused at import, or effects leak, double or clash. `warning`: something is left for a person to
    mend, or waits needlessly.
    """

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of mistake in a declaration, with a permanent code."""

    code: str
    name: str
    severity: Severity
    about: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake, and the line of code that corrects it.

    Attributes:
        rule: its code, such as `SM203`.
        name: the rule's name.
        severity: `error` or `warning`.
        tool: the tool, or the function, that it is about.
        file: the file, as it was named.
        line: the line in that file (in a notebook, in that cell).
        what: what is wrong, and the consequence.
        mend: a line of code to write instead.

    >>> print(Finding("SM102", "undo-missing", Severity.ERROR, "book", "tools.py", 7, "it has no undo", "undo=cancel"))
    tools.py:7: SM102 undo-missing (error): it has no undo
        write: undo=cancel
    """

    rule: str
    name: str
    severity: Severity
    tool: str
    file: str
    line: int
    what: str
    mend: str

    def __str__(self) -> str:
        found = f"{self.file}:{self.line}: {self.rule} {self.name} ({self.severity}): {self.what}"
        return joined([found, f"    write: {self.mend}"] if self.mend else [found])


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

RULES: dict[str, Rule] = {
    rule.code: rule
    for rule in (
        Rule("SM001", "unreadable", _ERROR, "The file is no Python that can be parsed."),
        Rule("SM101", "refused-at-import", _ERROR, "The engine refuses this declaration when it is imported."),
        Rule("SM102", "undo-missing", _ERROR, "A reversible tool without an undo."),
        Rule("SM103", "undo-does-nothing", _ERROR, "An undo whose body is empty: an abort leaves the effect, unnamed."),
        Rule("SM104", "outcome-unknowable", _WARNING, "Neither probe nor key: a lost answer stays in doubt."),
        Rule("SM105", "key-not-sent", _ERROR, "Declared idempotent or keyed, and the call's key is never sent."),
        Rule("SM106", "undo-left-out", _WARNING, "It acts at once and has no undo, though something could undo it."),
        Rule("SM107", "probe-answers-false", _ERROR, "A probe that says False: only None says that it is absent."),
        Rule("SM201", "scope-ignores-address", _ERROR, "The scope leaves out an argument that says what is touched."),
        Rule("SM202", "scope-too-broad", _WARNING, "One scope for all calls, or for more than is touched: they wait."),
        Rule("SM203", "scope-too-narrow", _ERROR, "The scope names more than the address: clashing calls do not meet."),
        Rule("SM204", "path-as-one-segment", _ERROR, "A path as one segment: its spellings are different scopes."),
        Rule("SM205", "scopes-never-overlap", _ERROR, "Two tools share a resource, and their scopes never overlap."),
        Rule(
            "SM206", "may-touch-unrefined", _WARNING, "Broad scopes are held to the end: nothing says which were meant."
        ),
        Rule(
            "SM207", "read-names-no-scope", _WARNING, "A read of what others write names no scope: it is never stale."
        ),
        Rule(
            "SM301", "key-from-chance", _ERROR, "A key from a uuid, a random number or the clock: none is sent twice."
        ),
        Rule("SM302", "key-from-values", _ERROR, "A key from values that a model computes: they differ next time."),
        Rule("SM401", "declared-read-but-acts", _ERROR, "Declared read, and its name or its body says that it acts."),
        Rule(
            "SM402", "declared-undoable-but-sends", _ERROR, "What was sent or paid is not taken back: it must be held."
        ),
        Rule(
            "SM403", "declared-effect-but-reads", _WARNING, "It only reads, and is held, claimed or undone for nothing."
        ),
        Rule("SM404", "hints-contradict", _ERROR, "Its hints or its docstring say another class."),
        Rule("SM405", "undeclared", _WARNING, "A tool that nobody declared: it runs at once and cannot be undone."),
        Rule("SM501", "secret-recorded", _WARNING, "An argument that looks like a secret, and no redact= for it."),
        Rule("SM502", "secret-in-scope", _ERROR, "A secret in a scope: scopes are recorded as they are."),
    )
}

__all__ = ["RULES", "Finding", "Rule", "Severity"]
