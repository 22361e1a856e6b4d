"""The public face, one subject a file: decisions, obligations, budgets, leases, halts, what is stuck, primers."""
