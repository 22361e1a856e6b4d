"""One state of the protocol that several processes keep equal through a log in a SQL store."""
