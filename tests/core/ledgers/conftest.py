"""The store contract is no module of tests, and says what it found as one does."""

import pytest

pytest.register_assert_rewrite("tests.core.ledgers.contract")
