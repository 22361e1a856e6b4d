"""The way to a SQL store: its connections, their transactions, and how PostgreSQL tells of a step."""
