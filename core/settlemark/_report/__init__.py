"""What a record says: to the engine, as verdicts, and to people, in sentences and tables."""
