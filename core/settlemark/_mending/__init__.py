"""Transactions that are stuck: how they are seen, and how they end."""
