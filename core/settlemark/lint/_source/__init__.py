"""What a module's text says: its names, calls and tools; nothing is run."""
