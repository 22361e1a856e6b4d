"""The turns of a node: how one is opened, who takes part in it, and what LangGraph is told of it."""
