"""What is known of one attempt of a transaction: its calls, their order in a turn, its effects."""
