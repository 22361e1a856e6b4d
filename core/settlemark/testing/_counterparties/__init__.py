"""Outside systems as child processes: each keeps its own log, and fails on request."""
