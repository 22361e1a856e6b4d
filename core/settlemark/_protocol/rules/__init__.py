"""The rules of the protocol, each in a part of its own: composed over the board, and called through `Protocol`."""
