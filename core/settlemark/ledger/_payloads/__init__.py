"""What stands in a payload's column: its text, redacted, sealed, or the digest of a blob."""
