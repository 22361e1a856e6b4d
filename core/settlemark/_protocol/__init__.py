"""The settlement protocol: which transaction may touch, waits, commits, aborts; no I/O, no clock."""
