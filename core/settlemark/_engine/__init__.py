"""One transaction from its beginning to its end: programs that ask the protocol."""
