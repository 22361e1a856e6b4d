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


def commute(one, other, cell):
    """Whether what one read of a cell, and what another wrote, are effects of one group."""
    return cell in one.commutes and one.commutes[cell] == other.commutes.get(cell)


def all_commute(reader, writer):
    """Whether a reader has seen nothing of a writer but what commutes."""
    seen = reader.read_values.keys() & writer.write_values.keys()
    return bool(seen) and all(commute(reader, writer, cell) for cell in seen)


def a1(history, *, own=False):
    return {
        i
        for i, reader in enumerate(history, 1)
        for j, writer in enumerate(history, 1)
        for cell in reader.read_values.keys() & writer.write_values.keys()
        if i != j
        and (reader.agent == writer.agent) == own
        and reader.read_time < writer.write_time < reader.write_time
        and not commute(reader, writer, cell)
        and not same(reader.read_values[cell], writer.write_values[cell])
    }


def eras(history):
    """How often the clock of supersteps has begun anew up to each record: whenever a barrier is lower than the last."""
    era, last, found = 0, 0, []
    for record in history:
        if record.write_barrier is not None:
            era, last = era + (record.write_barrier < last), record.write_barrier
        found.append(era)
    return found


def a1_semantic(history):
    era = eras(history)
    return {
        i
        for i, reader in enumerate(history, 1)
        for j, writer in enumerate(history, 1)
        for cell in reader.read_values.keys() & writer.write_values.keys()
        if i != j
        and reader.agent != writer.agent
        and None not in (reader.read_barrier, reader.write_barrier, writer.write_barrier)
        and era[i - 1] == era[j - 1]
        and reader.read_barrier < writer.write_barrier <= reader.write_barrier
        and not commute(reader, writer, cell)
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


def meant(history, reader, name):
    """The records that an id means to the one at a place: the last before it that bore it, or else the first after."""
    places = [place for place, record in enumerate(history, 1) if (record.id or str(place)) == name]
    return [place for place in places if place < reader][-1:] or places[:1]


def closure(history):
    """The places of what each record observed, directly or not."""
    direct = [
        {
            place
            for pred in record.preds
            for place in meant(history, reader, pred)
            if not all_commute(record, history[place - 1])
        }
        for reader, record in enumerate(history, 1)
    ]
    known = None
    found = direct
    while found != known:
        known = found
        found = [
            places.union(*(known[place - 1] for place in places)) if record.direct or record.commutes else places
            for record, places in zip(history, direct, strict=True)
        ]
    return found


def a3(history, *, left=False):
    aborted = {place for place, record in enumerate(history, 1) if record.aborted}
    return {
        j
        for j, (record, observed) in enumerate(zip(history, closure(history), strict=True), 1)
        if (record.externalized if left else not record.aborted) and observed & aborted
    }


def residue(history):
    return {
        j
        for j, reader in enumerate(history, 1)
        if not reader.aborted
        for cell, value in reader.read_values.items()
        if value is not None
        and not any(
            k != j
            and cell in writer.write_values
            and writer.write_time <= reader.read_time
            and same(writer.write_values[cell], value)
            and (not writer.aborted or commute(reader, writer, cell))
            for k, writer in enumerate(history, 1)
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
