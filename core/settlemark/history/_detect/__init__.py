"""Detectors: the anomalies in a history, the levels that they leave, and whether what committed is serializable."""
