"""A remark names whose mistake it is: the tool as it is declared, else the function."""

from __future__ import annotations

KEY = "http.post(bill, headers={'Idempotency-Key': str(uuid4())})"


def test_a_key_by_chance_is_told_of_by_the_name_of_who_sends_it(codes):
    for text, name in (
        (f"def pay(bill): {KEY}", "pay"),
        (f"async def pay(bill): {KEY}", "pay"),
        (f'@effect("idempotent", scope="bill:/{{bill}}", name="payment")\ndef pay(bill): {KEY}', "payment"),
    ):
        assert codes(f"from uuid import uuid4\n{text}\n", "SM301") == [("SM301", name)]
