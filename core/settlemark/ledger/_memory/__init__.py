"""The ledger of one process, in memory."""
