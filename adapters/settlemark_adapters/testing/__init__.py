"""Checks for adapters: a conformance kit, a fuzzer of their scopes, and the cost of a declaration.

An adapter's author describes in a `Subject` how to make it and how to read its counterparty; one call in a test does
the rest: `assert_conforms(SUBJECT)`, `fuzz(SUBJECT).check()`, or `settlemark fuzz yourtests.subject:SUBJECT`.
"""

from __future__ import annotations

from settlemark_adapters.testing._conformance import assert_conforms, conformance, properties
from settlemark_adapters.testing._cost import Cost, declaration_cost
from settlemark_adapters.testing._findings import Finding, FuzzReport
from settlemark_adapters.testing._fuzz import fuzz
from settlemark_adapters.testing._report import Report, Verdict, Word
from settlemark_adapters.testing._subject import Example, Subject, scope_of

__all__ = [
    "Cost",
    "Example",
    "Finding",
    "FuzzReport",
    "Report",
    "Subject",
    "Verdict",
    "Word",
    "assert_conforms",
    "conformance",
    "declaration_cost",
    "fuzz",
    "properties",
    "scope_of",
]
