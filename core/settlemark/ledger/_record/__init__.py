"""The record's rows in a SQL store: its tables and their schema, pages, blobs, and what is swept."""
