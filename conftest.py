"""What must be said before anything is imported: no framework phones anybody from a test."""

from __future__ import annotations

import os
import tempfile

os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_TELEMETRY_OPT_OUT="true",
    CREWAI_TRACING_ENABLED="false",
    CREWAI_TESTING="true",
    OTEL_SDK_DISABLED="true",
)
os.environ.setdefault("CREWAI_STORAGE_DIR", tempfile.mkdtemp(prefix="settlemark-crewai-"))
