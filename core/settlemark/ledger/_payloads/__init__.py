"""Payload columns: text, redacted, encrypted, or the digest of a blob."""
