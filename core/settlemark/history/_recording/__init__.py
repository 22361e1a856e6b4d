"""A history: its records and files, and who writes them: the engine, a ledger, a recorder by hand."""
