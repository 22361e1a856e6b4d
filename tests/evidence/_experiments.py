"""The experiments by name, in the order in which the command plays them: each is a module here with a `run`."""

EXPERIMENTS = (
    "scenarios", "lattice", "cascades", "reordering", "churn", "sessions", "cookbook", "supervision", "bypass", "aba",
    "toolnode", "cost", "materiality", "channels",
)  # fmt: skip # a table of values

__all__ = ["EXPERIMENTS"]
