"""A clock or a pause of the user's own that fails between two tries says nothing of what the first has done."""

from __future__ import annotations

import httpx
import pytest

from settlemark import InDoubt, Refused, Retries, Settlement
from settlemark_adapters.http import Call, Http, Patience

ORDER = Call("order", "POST", "/orders", body={"n": int}, key_header="Idempotency-Key")


class Odd(Exception):
    """An exception that cannot say what it is."""

    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [Odd, ValueError])
@pytest.mark.parametrize("what", ["sleep", "clock"])
@pytest.mark.parametrize(("status", "doubt"), [(503, True), (429, False)])
def test_what_may_have_begun_is_in_doubt_and_what_has_not_is_refused(what, status, doubt, error):
    asked = []

    def fail(*_):
        if what == "clock" and not asked:
            return 0.0
        raise error

    server = httpx.MockTransport(lambda request: asked.append(request.url.path) or httpx.Response(status))
    with Settlement("memory:", retries=Retries(tries=1, first=0, most=0)) as settlement:
        shop = Http(
            "http://h.example", settlement, calls=[ORDER], transport=server, patience=Patience(tries=3), **{what: fail}
        )
        with pytest.raises(InDoubt if doubt else Refused), settlement.transaction("t") as tx:
            tx.call(shop.tool("order"), n=1)
        assert (asked, len(settlement.in_doubt()), len(settlement.residue())) == (["/orders"], doubt, doubt)
