"""A history that another process began: what stands of it is what the next one reads."""

from __future__ import annotations

from settlemark import Settlement, effect
from settlemark.history import read


@effect("reversible", scope="cell:/{cell}", undo=lambda: None)
def put(cell): ...


def test_a_later_process_reads_what_stands_of_a_cell_and_not_what_was_retracted(tmp_path):
    path = tmp_path / "history.jsonl"
    with Settlement("memory:", history=path) as settlement:
        for name in ("ada/1", "bob/1"):
            with settlement.transaction(name) as tx:
                tx.call(put, cell="x")
        settlement.rewind("bob/1", by="eve", dry_run=False)
    with Settlement("memory:", history=path) as settlement, settlement.transaction("cy/1") as tx:
        tx.read("cell:/x")
    *_, last = read(path)
    assert (last.name, last.read_values, last.preds) == ("cy/1", {"cell:/x": "ada/1#1"}, ["ada/1#1"])
