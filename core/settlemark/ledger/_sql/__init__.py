"""Connections to a SQL store, their transactions, and PostgreSQL's notifications."""
