"""Going back over transactions that have committed, on request."""
