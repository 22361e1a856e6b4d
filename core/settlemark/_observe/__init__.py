"""What the engine tells of its work: events for an observer, and logs."""
