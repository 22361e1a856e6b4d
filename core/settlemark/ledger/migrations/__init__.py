"""Migrations of the tables from release to release: run only by `settlemark migrate`."""
