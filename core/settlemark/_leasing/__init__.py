"""Leases of agents: granted to one, renewed, taken over when they have lapsed, and given back."""
