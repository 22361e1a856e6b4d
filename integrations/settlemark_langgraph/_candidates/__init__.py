"""Branches of a graph as candidates: a node chooses one, and the others are undone."""
