"""What the model is told, and what of a message the ledger keeps."""
