"""A turn that has begun: how it opens, what its calls are answered, and how it settles."""
