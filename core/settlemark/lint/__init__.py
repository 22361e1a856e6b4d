"""A linter for declarations, and first drafts of them for undeclared tools.

Too narrow a scope, a wrong class or a random key is metadata that the engine obeys, and nobody notices until two agents
clash or a mail has left. [lint][settlemark.lint.lint] finds such mistakes in the text of a code base, without running
it, and names the line and the correction; [adopt][settlemark.lint.adopt] guesses declarations for existing tools, each
behind a mark, [undecided][settlemark.lint.undecided], that a person must remove. As commands they are `settlemark lint`
and `settlemark adopt`.
"""

from __future__ import annotations

from settlemark.lint._adopt import Adopted, adopt
from settlemark.lint._findings import RULES, Finding, Rule, Severity
from settlemark.lint._guesses import Guess
from settlemark.lint._linter import lint
from settlemark.lint._source.words import is_secret
from settlemark.lint._undecided import undecided

__all__ = [
    "RULES",
    "Adopted",
    "Finding",
    "Guess",
    "Rule",
    "Severity",
    "adopt",
    "is_secret",
    "lint",
    "undecided",
]
