"""A linter for declarations, and a first draft of them for tools that have none.

Too narrow a scope, a wrong class or a key from chance is metadata that the engine obeys, and nobody sees until two
agents clash or a mail has left. [lint][settlemark.lint.lint] finds such mistakes in the text of a code base, without
running it, and names the line and the mend; [adopt][settlemark.lint.adopt] guesses declarations for the tools there
are, each behind a mark, [undecided][settlemark.lint.undecided], that a person must take away. From a shell they are
`settlemark lint` and `settlemark adopt`.
"""

from __future__ import annotations

from settlemark.lint._adopt import Adopted, adopt
from settlemark.lint._findings import RULES, Finding, Rule, Severity
from settlemark.lint._guesses import Guess
from settlemark.lint._linter import lint
from settlemark.lint._undecided import undecided
from settlemark.lint._words import is_secret

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
