"""What a tool is called with, what it does to the world, and what stands in its place."""
