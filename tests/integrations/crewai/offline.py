"""CrewAI, imported quietly: what it must be told before that, so that it phones nobody, the root conftest tells it."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import crewai  # noqa: F401 - what it warns of as it is imported is its own affair


def hush():
    """Have the rest of a test ignore that CrewAI reads fields of its own that it has deprecated."""
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="crewai")
