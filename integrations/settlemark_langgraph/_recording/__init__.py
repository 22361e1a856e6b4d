"""A history of a stock graph, with nothing settled."""
