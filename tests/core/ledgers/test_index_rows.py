"""No row of an index is longer than PostgreSQL takes: what is over its limit is refused before anything runs."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa
from tests.rooms.edges import DERIVED, NAME, NAMESPACE, TOOL, WHO
from tests.rooms.model import key_of
from tests.rooms.record import metadata

from settlemark import Retries, Settlement, UsageError, effect

MOST = 2704
_HEADER = 8
LETTERS = "".join(chr(code) for code in range(0x20000, 0x2A6D0))
"""Of four bytes each, and no two alike: no compression makes them fewer."""


def letters(count):
    return "".join(random.Random(count).sample(LETTERS, count))


WORST_KEY = key_of(f"{'f' * 16}.", letters(83), 2**31 - 1, (10**47,), letters(48))
BYTES = {
    "namespace": NAMESPACE.size, "name": DERIVED.size, "run": DERIVED.size, "key": len(WORST_KEY.encode()),
    "id": 1_600, "kind": 32, "state": 32, "digest": 80, "tag": 16,
    "tool": TOOL.size, "fulfilled_key": len(WORST_KEY.encode()),
    "budget": NAMESPACE.size, "bucket": len("agent:") + 400,
    "scope": DERIVED.size, "place": DERIVED.size,
}  # fmt: skip # a table
"""Of the texts that stand in an index, as they are checked at the door."""
_OWN = {"settlemark_meta", "settlemark_migration"}  # tables in which nothing of a user's is a key


def indexes():
    for table in metadata.sorted_tables:
        if table.name not in _OWN:
            yield f"{table.name}: its key", list(table.primary_key.columns)
            for index in sorted(table.indexes, key=lambda index: index.name):
                yield index.name, list(index.columns)


@pytest.mark.parametrize(("name", "columns"), [pytest.param(*each, id=each[0]) for each in indexes()])
def test_the_longest_row_of_every_index_fits(name, columns):
    texts = [BYTES[column.name] + 7 for column in columns if isinstance(column.type, sa.String)]
    others = [8 for column in columns if not isinstance(column.type, sa.String)]
    assert _HEADER + sum(texts) + sum(others) <= MOST, name


def test_the_longest_key_has_the_bytes_that_the_limits_count_on():
    assert len(WORST_KEY.encode()) == 602


class CallsWithIds(Settlement):
    """Its calls have the longest id that stands in a key as it is."""

    def effect_of(self, *args, **options):
        return super().effect_of(*args, **{**options, "call_id": letters(48)})


@pytest.mark.parametrize(("space", "name"), [("default", letters(83)), (letters(63), letters(100))])
def test_what_a_run_of_the_longest_names_has_left_is_listed_and_dealt_with(postgres_url, space, name):
    log = []

    @effect("reversible", scope="thing:/x", undo=lambda: log.append("undo") or 1 / 0)
    def act():
        log.append("done")

    with CallsWithIds(postgres_url, namespace=space, retries=Retries(tries=1)) as settlement:
        with pytest.raises(ValueError, match="no"), settlement.transaction(name, run=letters(NAME.size // 4)) as tx:
            tx.call(act)
            raise ValueError("no")
        (left,) = settlement.residue()
        settlement.resolve(left, "dealt_with", by=letters(WHO.characters))
        assert [(t.row.name, t.state.value) for t in settlement.transactions()] == [(name, "aborted")]
        assert (settlement.residue(), log) == ([], ["done", "undo"])


@pytest.mark.parametrize("what", ["name", "run"])
def test_a_byte_over_the_limit_is_refused_before_anything_runs(quick, what):
    text = letters(NAME.size // 4) + "a"
    names = {"name": text} if what == "name" else {"name": "trip", "run": text}
    with pytest.raises(UsageError, match="1,641 bytes as UTF-8, and 1,640 are the most"):
        with quick.transaction(**names):
            pytest.fail("it was entered")
    assert quick.transactions() == []
