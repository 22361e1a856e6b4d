"""Recording what a stock graph does, without settling anything."""
