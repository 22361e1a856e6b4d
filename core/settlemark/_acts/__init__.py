"""One act on the world, until its outcome is known."""
