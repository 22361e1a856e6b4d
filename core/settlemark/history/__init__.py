"""Histories of agents' operations, and the anomalies in them, whatever engine ran the agents.

A history is a file of records (JSON Lines), one for each operation that committed: what it read and when, what it wrote
and when, which tool it had planned, in which order its effects left. Detectors find the anomalies between agents:
exactly, in one pass, each with a witness. `Recorder` writes a history from a loop of your own; `import_trace` makes one
from traces of LangGraph, OpenTelemetry or a chat.

A store with replicas has a log of its reads beside it (`ReplicaRead`), in which `split_view` finds reads on which two
replicas disagree.
"""

from __future__ import annotations

from settlemark.history._detect.analysis import Analysis, analyze
from settlemark.history._detect.elle import elle_history
from settlemark.history._detect.levels import ANOMALIES, POINTS, Level, Point, covers, hasse, level_of, point_of
from settlemark.history._detect.replica_reads import ReplicaRead, ReplicaReadFile, replica_reads
from settlemark.history._detect.serializability import Access, Cycle, Edge, Serializability, serializability
from settlemark.history._detect.split_view import split_view
from settlemark.history._detect.verdict import Verdict, Witness
from settlemark.history._importers.importing import FORMATS, Format, Imported, import_trace
from settlemark.history._recording.files import HistoryError, HistoryFile, encode, ordered, read
from settlemark.history._recording.ledger import of_ledger
from settlemark.history._recording.record import OpRecord
from settlemark.history._recording.recorder import Operation, Recorder

__all__ = [
    "ANOMALIES",
    "FORMATS",
    "POINTS",
    "Access",
    "Analysis",
    "Cycle",
    "Edge",
    "Format",
    "HistoryError",
    "HistoryFile",
    "Imported",
    "Level",
    "OpRecord",
    "Operation",
    "Point",
    "Recorder",
    "ReplicaRead",
    "ReplicaReadFile",
    "Serializability",
    "Verdict",
    "Witness",
    "analyze",
    "covers",
    "elle_history",
    "encode",
    "hasse",
    "import_trace",
    "level_of",
    "of_ledger",
    "ordered",
    "point_of",
    "read",
    "replica_reads",
    "serializability",
    "split_view",
]
