"""A root with its tools, and what the operating system says is there."""

from __future__ import annotations

from tests.adapters.filesystem.subject import look, put

from settlemark_adapters.filesystem import Filesystem


class Desk:
    """A root and its tools, and the world as seen past them."""

    def __init__(self, root, settlement):
        self.root = root
        self.settlement = settlement
        self.files = Filesystem(root, settlement)
        self.staged = Filesystem(root, settlement, name="later", staged=True)

    def put(self, *names, **options):
        put(*names, **options)(self.root)

    def look(self):
        return look(self.root)

    def text(self, name):
        return (self.root / name).read_text()

    def outcomes(self):
        return [
            (effect.row.tool, effect.outcome.value) for tx in self.settlement.transactions() for effect in tx.effects
        ]
