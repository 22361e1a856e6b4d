"""The `settlemark` command."""
