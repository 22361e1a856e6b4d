"""Which channels of a graph are open to lost updates, fail-stops and stale reads, by its reachable supersteps."""
