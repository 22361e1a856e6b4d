"""A store for two namespaces; the contract is no module of tests, and says what it found as one does."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.core.ledgers.contract")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request, tmp_path_factory):
    from tests.core.ledgers.twins import Store

    if request.param == "sqlite":
        store = Store(f"sqlite:///{tmp_path_factory.mktemp('twins') / 'ledger.db'}")
    else:
        store = Store(request.getfixturevalue("postgres").create_database())
    yield store
    store.close()
