"""One state of the protocol, kept equal in several processes through a log in a SQL store."""
