"""One job of an agent: its turns one after the other, and the transactions that they share."""
