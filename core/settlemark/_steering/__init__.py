"""Steering: what people say to a run while it works, and what is done about it."""
