"""The record in a SQL store: tables, schema, rows, pages, blobs, and sweeping."""
