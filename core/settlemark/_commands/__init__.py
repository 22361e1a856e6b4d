"""What an operator does at a terminal, one noun a module: each is a command of `settlemark`."""
