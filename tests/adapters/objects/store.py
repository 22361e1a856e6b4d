"""A place in a store, its tools, and what the store says is there, asked past them."""

from __future__ import annotations

import uuid

import fsspec

from settlemark_adapters.objects import Objects


class Store:
    """A place in a store, its tools, and the world as seen past them."""

    def __init__(self, where, settlement, fs, root):
        self.where = where
        self.settlement = settlement
        self.fs = fs
        self.root = root
        self.objects = Objects(where, settlement)
        self.staged = Objects(where, settlement, name="later", staged=True)

    def put(self, *keys):
        for key in keys:
            path = f"{self.root}/{key}"
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self.fs.pipe_file(path, f"before, {key}".encode())

    def write(self, key, text):
        self.fs.pipe_file(f"{self.root}/{key}", text.encode())

    def all(self):
        """Every object, also what is kept for undoing."""
        found = self.fs.find(self.root) if self.fs.exists(self.root) else []
        return {path[len(self.root) + 1 :]: self.fs.cat_file(path).decode() for path in found}

    def look(self):
        return {key: text for key, text in self.all().items() if not key.startswith(".settlemark/")}

    def outcomes(self):
        return [effect.outcome.value for tx in self.settlement.transactions() for effect in tx.effects]


def in_memory(settlement):
    """Return an empty place in memory."""
    root = f"/{uuid.uuid4().hex}"
    return Store(f"memory:/{root}", settlement, fsspec.filesystem("memory"), root)
