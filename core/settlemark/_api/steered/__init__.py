"""The face of steering: what is said to a run, and a run that listens."""
