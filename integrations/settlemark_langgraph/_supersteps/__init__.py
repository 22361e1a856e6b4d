"""Supersteps: what LangGraph knows of one, and the transactions that settle with a superstep or a run."""
