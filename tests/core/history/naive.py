"""The definitions of the sheet, word for word: for all i, j, c. What the detectors are held against."""

from __future__ import annotations

import json
from collections import Counter


def told(value):
    """A value's JSON in one form: numbers as numbers, whether they were written with a point or not."""
    plain = json.loads(json.dumps(value), parse_int=float)
    return json.dumps(plain, sort_keys=True)


def same(one, other):
    return told(one) == told(other)


def a1(history, *, own=False):
    return {
        i
        for i, reader in enumerate(history, 1)
        for j, writer in enumerate(history, 1)
        for cell in reader.read_values.keys() & writer.write_values.keys()
        if i != j
        and (reader.agent == writer.agent) == own
        and reader.read_time < writer.write_time < reader.write_time
        and not same(reader.read_values[cell], writer.write_values[cell])
    }


def a1_semantic(history):
    return {
        i
        for i, reader in enumerate(history, 1)
        for j, writer in enumerate(history, 1)
        for cell in reader.read_values.keys() & writer.write_values.keys()
        if i != j
        and reader.agent != writer.agent
        and None not in (reader.read_barrier, reader.write_barrier, writer.write_barrier)
        and reader.read_barrier < writer.write_barrier <= reader.write_barrier
        and not same(reader.read_values[cell], writer.write_values[cell])
    }


def a2(history):
    return {
        i
        for i, record in enumerate(history, 1)
        if record.planned_tool is not None
        and record.planned_tool in record.read_registry
        and record.read_registry[record.planned_tool] != record.write_registry.get(record.planned_tool)
    }


def closure(history):
    """What each record observed, directly or not, by their ids."""
    known = {}
    for place, record in enumerate(history, 1):
        found = set(record.preds)
        if record.direct:
            for pred in record.preds:
                found |= known.get(pred, set())
        known[record.id or str(place)] = found
    return [known[record.id or str(place)] for place, record in enumerate(history, 1)]


def a3(history, *, left=False):
    aborted = {record.id or str(place) for place, record in enumerate(history, 1) if record.aborted}
    return {
        j
        for j, (record, preds) in enumerate(zip(history, closure(history), strict=True), 1)
        if (record.externalized if left else not record.aborted) and preds & aborted
    }


def residue(history):
    stands = [(place, record) for place, record in enumerate(history, 1) if not record.aborted]
    return {
        j
        for j, reader in stands
        for cell, value in reader.read_values.items()
        if value is not None
        and not any(
            k != j
            and cell in writer.write_values
            and writer.write_time <= reader.read_time
            and same(writer.write_values[cell], value)
            for k, writer in stands
        )
    }


def counted(effects):
    return Counter(told(effect) for effect in effects)


def a6(history):
    return {
        i
        for i, r in enumerate(history, 1)
        if len(r.io) >= 2 and not same(r.co, r.io) and counted(r.io) == counted(r.co)
    }


def effects(history):
    return {i for i, r in enumerate(history, 1) if counted(r.io) != counted(r.co)}


ALL = {
    "A1": a1,
    "A1-self": lambda history: a1(history, own=True),
    "A1-semantic": a1_semantic,
    "A2": a2,
    "A3": a3,
    "A3x": lambda history: a3(history, left=True),
    "A6": a6,
    "effects": effects,
    "residue": residue,
}


def a4(reads):
    """The reads that are half of a split view: one cell, different replicas, different values."""
    return {
        i
        for i, one in enumerate(reads, 1)
        for other in reads
        if one.cell == other.cell and one.replica != other.replica and not same(one.value, other.value)
    }
