"""What outlives one process or one opinion: recovery, gates, parking, resolution, rewind, choice."""
