"""Branches of a graph as candidates: a node chooses one, and nothing of the others stays."""
