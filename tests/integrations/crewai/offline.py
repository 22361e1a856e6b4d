"""CrewAI without network: what it must be told before it is imported, or it phones home and takes over signals."""

from __future__ import annotations

import os
import tempfile
import warnings

os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_TELEMETRY_OPT_OUT="true",
    CREWAI_TRACING_ENABLED="false",
    CREWAI_TESTING="true",
    OTEL_SDK_DISABLED="true",
)
os.environ.setdefault("CREWAI_STORAGE_DIR", tempfile.mkdtemp(prefix="settlemark-crewai-"))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import crewai  # noqa: F401 - what it warns of as it is imported is its own affair


def hush():
    """Have the rest of a test ignore that CrewAI reads fields of its own that it has deprecated."""
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="crewai")
