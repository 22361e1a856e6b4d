"""One step with a call of each kind, and what it leaves."""

from __future__ import annotations


def stage(tx, files):
    """Make one call of each kind."""
    tx.call(files.write, path="new/a.txt", content="one")
    tx.call(files.append, path="log.txt", content="again\n")
    tx.call(files.move, source="b.txt", destination="d/b.txt")
    tx.call(files.delete, path="d/c.txt")
    tx.call(files.make_directory, path="empty/deep")


FILES = ("log.txt", "b.txt", "d/c.txt")
AFTER = {
    "new": "folder",
    "new/a.txt": b"one".hex(),
    "log.txt": b"before\nagain\n".hex(),
    "d": "folder",
    "d/b.txt": b"before\n".hex(),
    "empty": "folder",
    "empty/deep": "folder",
}


def held(world):
    return {name: about if about == "folder" else about[0] for name, about in world.items()}
