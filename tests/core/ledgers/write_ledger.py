"""Writes the ledgers that the next release must be able to open: run once, by the release that they are of.

    python write_ledger.py FOLDER

leaves `finished.sql` and `unfinished.sql` there: move them here, under the number of their schema.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

from settlemark import Settlement, effect


class Boom(Exception):
    """A failure of the caller's own."""


def never():
    raise LookupError("no such room")


@effect("reversible", scope="room:/{room}", undo=lambda room: None)
def book(room, **more):
    return {"confirmation": f"R-{room}"}


@effect("reversible", scope="room:/{room}", undo=never)
def book_for_good(room):
    return "booked"


@effect("reversible", scope="room:/{room}", undo=lambda room: None)
def book_in_vain(room):
    raise Boom("no rooms")


@effect("irreversible", scope="mail:/{to}")
def send(to):
    return f"sent to {to}"


@effect("irreversible", scope="mail:/{to}")
def send_and_die(to):
    os._exit(0)


def finished(url):
    """Committed, undone, failed, with residue, cancelled; and in another namespace."""
    with Settlement(url) as settlement:
        with settlement.transaction("trip/1") as tx:
            tx.call(book, room="a")
            tx.call(send, to="ada")
        with suppress(Boom), settlement.transaction("trip/2") as tx:
            tx.call(book_for_good, room="b")
            raise Boom
        with settlement.transaction("trip/3") as tx, suppress(Boom):
            tx.call(book_in_vain, room="c")
        with settlement.transaction("trip/4") as tx:
            tx.call(book, room="d", more={"$ref": "sha256:0"})
            tx.call(book, room="e", **{"$ref": "sha256:0"})
        settlement.cancel("job")
    with Settlement(url, namespace="acme") as settlement, settlement.transaction("trip/1") as tx:
        tx.call(book, room="z")


def unfinished(url):
    """Cut off while open with a call that acted, while open with nothing but a held call, and while releasing."""
    for name, calls in (("open", [book, send]), ("held", [send]), ("releasing", [book, send_and_die])):
        if os.fork():
            os.wait()
            continue
        with Settlement(url).transaction(name) as tx:
            for tool in calls:
                tx.call(tool, **{"room" if tool is book else "to": name})
            if name != "releasing":
                os._exit(0)


def dump(write, folder):
    path = folder / f"{write.__name__}.db"
    subprocess.run([sys.executable, __file__, str(folder), write.__name__], check=True)
    with closing(sqlite3.connect(path)) as connection:
        path.with_suffix(".sql").write_text("\n".join(connection.iterdump()) + "\n")
    path.unlink()


if __name__ == "__main__":
    where = Path(sys.argv[1])
    if len(sys.argv) > 2:
        globals()[sys.argv[2]](f"sqlite:///{where / sys.argv[2]}.db")
    else:
        dump(finished, where)
        dump(unfinished, where)
