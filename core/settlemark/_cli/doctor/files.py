"""What weakens a ledger in a SQLite file: how it is written, and where it is stored."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from settlemark._cli.doctor.finding import Finding, Severity
from settlemark._edges.private import others_may_read
from settlemark.ledger._replica.looking import Look
from settlemark.ledger._sql.sqlite import BESIDE, writing_engine
from settlemark.ledger._sql.wire import saying, wire_to

MOUNTS = Path("/proc/mounts")
LEAST_FREE = 256 << 20
LARGEST_WAL = 64 << 20

_WAL = 2  # the 19th and 20th byte of a database that is in WAL mode
_NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "beegfs",
        "gpfs",
        "ocfs2",
        "gfs2",
        "vboxsf",
        "virtiofs",
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.gcsfuse",
        "fuse.rclone",
        "fuse.vmhgfs-fuse",
        "fuse.ceph",
    }
)
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_NO_BARRIER = frozenset({"nobarrier", "barrier=0"})
_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
_FULL = 2


def store(look: Look) -> Iterator[Finding]:
    """Check the file's own settings, and how the engine writes it."""
    ((mode,),) = look.ask("PRAGMA journal_mode")
    yield _journal_mode(str(mode).lower())
    yield _synchronous()


def _journal_mode(mode: str) -> Finding:
    if mode == "wal":
        return Finding("journal_mode", Severity.OK, "WAL")
    severity = Severity.DANGER if mode in ("off", "memory") else Severity.ATTENTION
    return Finding(
        "journal_mode",
        severity,
        f"{mode}, where settlemark sets WAL",
        "leave it to settlemark, which sets WAL when it opens the file: another program has changed it; stop that one",
    )


def _synchronous() -> Finding:
    """Find out, with a file made for this, what a durable commit on this build of SQLite waits for."""
    with tempfile.TemporaryDirectory() as folder:
        engine = writing_engine(sa.make_url(f"sqlite:///{folder}/probe.db"))
        wire = wire_to(engine)
        try:
            wire.begin(durable=True)
            ((level,),) = wire.query(saying("PRAGMA synchronous"), {})
            wire.rollback()
        finally:
            wire.close()
            engine.dispose()
    told = f"{_SYNCHRONOUS.get(level, level)} for intents and decisions"
    if level < _FULL:
        return Finding("synchronous", Severity.DANGER, told, "this build of SQLite does not keep FULL: use another")
    if sys.platform == "darwin":
        return Finding(
            "synchronous",
            Severity.NOTE,
            f"{told}; on macOS fsync leaves the disk's own cache",
            "a loss of power may take what the disk had not written: keep what matters on PostgreSQL, or on a UPS",
        )
    return Finding("synchronous", Severity.OK, told)


# ---- the file's surroundings


def surroundings(url: sa.URL, *, mounts: Path | None = None) -> Iterator[Finding]:
    """Check what is around the file: its file system, permissions, free space and log."""
    path = Path(url.database or "").absolute()
    yield _filesystem(path, mounts or MOUNTS)
    yield from _permissions(path)
    yield _room(path)
    yield _wal(path)


def _filesystem(path: Path, mounts: Path) -> Finding:
    kind, options = mounted(path, mounts)
    if kind is None:
        return Finding("filesystem", Severity.NOTE, "unknown: this system does not tell", "see that it is a local disk")
    if kind in _NETWORK:
        return Finding(
            "filesystem",
            Severity.DANGER,
            f"{kind}, a network file system, on which SQLite's WAL can be corrupted",
            "move the file to a local disk, or use PostgreSQL when several hosts share it",
        )
    if kind in _IN_MEMORY:
        return Finding(
            "filesystem",
            Severity.DANGER,
            f"{kind}: it ends with this machine's power",
            "move the file to a disk",
        )
    if _NO_BARRIER & options:
        return Finding(
            "filesystem",
            Severity.DANGER,
            f"{kind}, mounted without write barriers",
            "mount it with barriers: a loss of power takes what a disk has in its cache",
        )
    if kind == "overlay":
        return Finding(
            "filesystem",
            Severity.ATTENTION,
            "overlay: the file ends with its container",
            "put it on a volume that outlives the container",
        )
    return Finding("filesystem", Severity.OK, kind)


def mounted(path: Path, mounts: Path = MOUNTS) -> tuple[str | None, frozenset[str]]:
    """Return the type and mount options of a path's file system; None where they are unknown."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None, frozenset()
    real = path.resolve()
    best: tuple[int, str, frozenset[str]] | None = None
    for line in lines:
        _, where, kind, options, *_ = line.split()
        # The kernel writes a space in a path as \040.
        point = Path(where.encode().decode("unicode_escape"))
        depth = len(point.parts)
        if real.is_relative_to(point) and (best is None or depth >= best[0]):
            best = (depth, kind, frozenset(options.split(",")))
    return (None, frozenset()) if best is None else best[1:]


def _permissions(path: Path) -> Iterator[Finding]:
    file, folder = path.stat().st_mode, path.parent.stat().st_mode
    shown = f"{stat.filemode(file)} {path.name} in {stat.filemode(folder)} {path.parent.name or '/'}"
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        yield Finding(
            "permissions",
            Severity.ATTENTION,
            f"this user may not write: {shown}",
            "let the user that settles write the file and its folder, where SQLite puts two more files",
        )
    elif file & stat.S_IWOTH or (folder & stat.S_IWOTH and not folder & stat.S_ISVTX):
        yield Finding(
            "permissions",
            Severity.ATTENTION,
            f"everybody on this host may change or remove it: {shown}",
            f"chmod o-rwx {path} {path.parent}",
        )
    elif (open_to_others := _open_to_others(path)) and folder & (stat.S_IXGRP | stat.S_IXOTH):
        yield Finding(
            "permissions",
            Severity.ATTENTION,
            f"others on this host may read what your tools were asked: {shown}",
            f"chmod go-rwx {' '.join(map(str, open_to_others))}; a file that settlemark makes is its owner's alone",
        )
    else:
        yield Finding("permissions", Severity.OK, shown)


def _open_to_others(path: Path) -> list[Path]:
    return [file for file in (path, *(path.with_name(f"{path.name}{end}") for end in BESIDE)) if others_may_read(file)]


def _room(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    if free < LEAST_FREE:
        return Finding(
            "free space",
            Severity.ATTENTION,
            size(free),
            "free some: when it is full nothing is run, since nothing can be recorded",
        )
    return Finding("free space", Severity.OK, size(free))


def _wal(path: Path) -> Finding:
    log = path.with_name(f"{path.name}-wal")
    try:
        length = log.stat().st_size
    except OSError:
        return Finding("write-ahead log", Severity.OK, "empty")
    if length > LARGEST_WAL:
        return Finding(
            "write-ahead log",
            Severity.ATTENTION,
            f"{size(length)} in {log.name}",
            "some program keeps a long transaction open on the file, so that SQLite cannot empty it: end that one",
        )
    return Finding("write-ahead log", Severity.OK, size(length))


def size(length: float) -> str:
    """Return a number of bytes in a readable unit.

    >>> size(0), size(1536), size(3 << 30)
    ('0 B', '1.5 KiB', '3.0 GiB')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    unit = 0
    while length >= 1024 and unit < len(units) - 1:  # noqa: PLR2004 - a kibibyte
        length, unit = length / 1024, unit + 1
    return f"{length:.0f} B" if unit == 0 else f"{length:.1f} {units[unit]}"


__all__ = ["mounted", "size", "store", "surroundings"]
