"""What shows that an adapter tells the truth: a conformance kit, a fuzzer of its scopes, and what it cost to write.

An adapter's author says in a `Subject` how it is made and where its counterparty can be looked at; one call in a test
does the rest: `assert_conforms(SUBJECT)`, `fuzz(SUBJECT).check()`, or `settlemark fuzz yourtests.subject:SUBJECT`.
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
