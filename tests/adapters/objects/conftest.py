"""Stores of each kind: on disk, in memory, and one that moves by copying."""

from __future__ import annotations

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from tests.adapters.objects.store import Store, in_memory

from settlemark import Retries, Settlement


@pytest.fixture
def settlement():
    with Settlement("memory:", retries=Retries(first=0, most=0)) as opened:
        yield opened


@pytest.fixture(params=["local", "memory", "unsteady"])
def store(request, settlement, tmp_path):
    if request.param == "memory":
        yield in_memory(settlement)
        fsspec.filesystem("memory").store.clear()
    elif request.param == "local":
        yield Store(f"file://{tmp_path}", settlement, LocalFileSystem(), str(tmp_path))
    else:  # on disk, and it moves by copying and removing, as stores in a network do
        where = DirFileSystem(str(tmp_path), LocalFileSystem(auto_mkdir=True))
        yield Store(where, settlement, LocalFileSystem(), str(tmp_path))
