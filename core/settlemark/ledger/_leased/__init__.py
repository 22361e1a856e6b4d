"""The rows of agents' leases: who holds a resource for longer than a transaction, until when, under which token."""
