"""One call in its turn: by a tool node, by a middleware, or by a tool that settles by itself."""
