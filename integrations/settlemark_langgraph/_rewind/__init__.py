"""Going back to an earlier checkpoint of a thread, in the world as in the state."""
