"""Rewinding a thread to an earlier checkpoint: its effects are undone, too."""
