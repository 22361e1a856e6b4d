"""Each rule: a declaration with the mistake, the line and the mend that is told, and the same one mended."""

from __future__ import annotations

import pytest

from settlemark.lint import RULES

PROBE = ", probe=sent"


def case(code, bad, mend, good, line=None, name=None):
    return pytest.param(code, bad, mend, good, line, id=f"{code}-{name or RULES[code].name}")


CASES = [
    case(
        "SM101",
        '@effect("irreversible", scope="room:/{hotle}", probe=sent)\ndef open_door(hotel): door.open(hotel)',
        "its arguments are hotel",
        '@effect("irreversible", scope="room:/{hotel}", probe=sent)\ndef open_door(hotel): door.open(hotel)',
        name="a field that the tool does not take",
    ),
    case(
        "SM101",
        "def cancel(booking): pass\n"
        '@effect("reversible", scope="room:/{hotel}", undo=cancel, probe=sent)\ndef book(hotel): hotels.book(hotel)',
        "name one of its arguments, `result` or `key`, or map a field of the result with inverse()",
        "def cancel(booking): hotels.cancel(booking)\n"
        '@effect("reversible", scope="room:/{hotel}", undo=inverse(cancel, booking="id"), probe=sent)\n'
        "def book(hotel): hotels.book(hotel)",
        line=3,
        name="a handler that asks for what the tool does not take",
    ),
    case(
        "SM101",
        '@effect("irreversible", scope="room:/{hotel}", undo=free)\ndef book(hotel): hotels.book(hotel)',
        "drop undo=, or declare it reversible",
        '@effect("reversible", scope="room:/{hotel}", undo=free)\ndef book(hotel): hotels.book(hotel)',
        name="an undo of what is never undone",
    ),
    case(
        "SM101",
        'settlement.declare("book", "irreversible")',
        'scope="mail:/{to}"',
        'settlement.declare("book", "irreversible", scope="room:/{hotel}")',
        name="no scope",
    ),
    case(
        "SM102",
        "def cancel_room(hotel): hotels.cancel(hotel)\n"
        '@effect("reversible", scope="room:/{hotel}")\ndef book_room(hotel): hotels.book(hotel)',
        "undo=cancel_room",
        "def cancel_room(hotel): hotels.cancel(hotel)\n"
        '@effect("reversible", scope="room:/{hotel}", undo=cancel_room)\ndef book_room(hotel): hotels.book(hotel)',
        line=3,
    ),
    case(
        "SM102",
        '@effect("reversible", scope="mail:/{to}")\ndef send_mail(to): smtp.send(to)',
        '"irreversible", scope="mail:/{to}": it is held until its step has succeeded',
        '@effect("irreversible", scope="mail:/{to}")\ndef send_mail(to): smtp.send(to)',
        name="of what nothing takes back",
    ),
    case(
        "SM103",
        '@effect("reversible", scope="room:/{hotel}", undo=lambda **_: None)\ndef book(hotel): hotels.book(hotel)',
        "undo=… that takes it back, or declare it irreversible: then it is held",
        '@effect("reversible", scope="room:/{hotel}", undo=lambda hotel: hotels.cancel(hotel))\n'
        "def book(hotel): hotels.book(hotel)",
        line=2,
    ),
    case(
        "SM103",
        'def later(key):\n    "Some day."\n'
        '@effect("idempotent", scope="file:/{path:path}", undo=later)\n'
        "def put(path): store.put(path, current_call().key)",
        "undo=…",
        "def later(key):\n    store.drop(key)\n"
        '@effect("idempotent", scope="file:/{path:path}", undo=later)\n'
        "def put(path): store.put(path, current_call().key)",
        name="as a function with a docstring alone",
    ),
    case(
        "SM104",
        '@effect("irreversible", scope="mail:/{to}")\ndef send_mail(to): smtp.send(to)',
        "keyed=True, and send current_call().key along",
        '@effect("irreversible", scope="mail:/{to}", keyed=True)\n'
        "def send_mail(to): smtp.send(to, key=current_call().key)",
    ),
    case(
        "SM104",
        "def find_mail(key): return smtp.find(key)\n"
        '@effect("irreversible", scope="mail:/{to}")\ndef send_mail(to): smtp.send(to)',
        "probe=find_mail",
        "def find_mail(key): return smtp.find(key)\n"
        '@effect("irreversible", scope="mail:/{to}", probe=find_mail)\ndef send_mail(to): smtp.send(to)',
        name="with a probe at hand",
    ),
    case(
        "SM105",
        '@effect("idempotent", scope="account:/{account}")\ndef set_limit(account): bank.limit(account)',
        "idempotency_key=current_call().key",
        '@effect("idempotent", scope="account:/{account}")\n'
        "def set_limit(account): bank.limit(account, idempotency_key=current_call().key)",
    ),
    case(
        "SM106",
        "def cancel_room(hotel): hotels.cancel(hotel)\n"
        '@effect("idempotent", scope="room:/{hotel}")\n'
        "def book_room(hotel): hotels.book(hotel, key=current_call().key)",
        "undo=cancel_room",
        "def cancel_room(hotel): hotels.cancel(hotel)\n"
        '@effect("idempotent", scope="room:/{hotel}", undo=cancel_room)\n'
        "def book_room(hotel): hotels.book(hotel, key=current_call().key)",
    ),
    case(
        "SM106",
        '@effect("opaque", scope="mail:/{to}")\ndef send_mail(to): smtp.send(to)',
        '"irreversible", scope="mail:/{to}": it is held',
        '@effect("irreversible", scope="mail:/{to}")\ndef send_mail(to): smtp.send(to)',
        name="of an opaque one that sends",
    ),
    case(
        "SM107",
        '@effect("irreversible", scope="mail:/{to}", probe=lambda key: key in mails)\ndef send_mail(to): smtp.send(to)',
        "return None when it is absent",
        '@effect("irreversible", scope="mail:/{to}", probe=lambda key: mails.get(key))\n'
        "def send_mail(to): smtp.send(to)",
        line=2,
    ),
    case(
        "SM107",
        "def sent(key):\n    if smtp.find(key):\n        return True\n    return False\n"
        '@effect("irreversible", scope="mail:/{to}", probe=sent)\ndef send_mail(to): smtp.send(to)',
        "return None when it is absent",
        "def sent(key):\n    if smtp.find(key):\n        return True\n    return None\n"
        '@effect("irreversible", scope="mail:/{to}", probe=sent)\ndef send_mail(to): smtp.send(to)',
        name="in a function",
    ),
    case(
        "SM201",
        'import pathlib\n@effect("irreversible", scope="doc:/{title}", probe=sent)\n'
        "def write(title, path): pathlib.Path(path).write_text(title)",
        'scope="file:/{path:path}"',
        'import pathlib\n@effect("irreversible", scope="file:/{path:path}", probe=sent)\n'
        "def write(title, path): pathlib.Path(path).write_text(title)",
        line=3,
        name="a path",
    ),
    case(
        "SM201",
        'import requests\n@effect("irreversible", scope="job:/{job}", probe=sent)\n'
        'def close_order(job, order_id): requests.patch(f"https://shop/orders/{order_id}", json={"by": job})',
        "{order_id}",
        'import requests\n@effect("irreversible", scope="order:/{order_id}", probe=sent)\n'
        'def close_order(job, order_id): requests.patch(f"https://shop/orders/{order_id}", json={"by": job})',
        name="a URL",
    ),
    case(
        "SM201",
        '@effect("irreversible", scope="job:/{job}", probe=sent)\n'
        'def close(job, order): db.execute("UPDATE orders SET open = 0 WHERE id = :id", {"id": order, "job": job})',
        'scope="order:/{order}"',
        '@effect("irreversible", scope="order:/{order}", probe=sent)\n'
        'def close(job, order): db.execute("UPDATE orders SET open = 0 WHERE id = :id", {"id": order, "job": job})',
        name="a row",
    ),
    case(
        "SM201",
        '@effect("irreversible", scope="account:/{from_account}", probe=sent)\n'
        "def transfer(from_account, to_account, amount): bank.move(from_account, to_account, amount)",
        'may_touch="account:/{to_account}"',
        '@effect("irreversible", scope="account:/{from_account}", may_touch="account:/{to_account}", probe=sent)\n'
        "def transfer(from_account, to_account, amount): bank.move(from_account, to_account, amount)",
        name="the other end",
    ),
    case(
        "SM201",
        '@effect("irreversible", scope="mail:/{trip}", probe=sent)\ndef send_mail(trip, to): smtp.send(to, trip)',
        'scope="mail:/{to}"',
        '@effect("irreversible", scope="mail:/{to}", probe=sent)\ndef send_mail(trip, to): smtp.send(to, trip)',
        name="by its name",
    ),
    case(
        "SM202",
        '@effect("irreversible", scope="file:/all", probe=sent)\ndef write(path, text): open(path, "w").write(text)',
        'scope="file:/{path:path}"',
        '@effect("irreversible", scope="file:/{path:path}", probe=sent)\n'
        'def write(path, text): open(path, "w").write(text)',
        line=2,
    ),
    case(
        "SM202",
        '@effect("irreversible", scope="hotel:/{hotel}", probe=sent)\n'
        'def close(hotel, date): db.execute("UPDATE rooms SET open = 0 WHERE hotel = ? AND date = ?", (hotel, date))',
        'scope="hotel:/{hotel}/{date}"',
        '@effect("irreversible", scope="hotel:/{hotel}/{date}", probe=sent)\n'
        'def close(hotel, date): db.execute("UPDATE rooms SET open = 0 WHERE hotel = ? AND date = ?", (hotel, date))',
        name="a part of the address",
    ),
    case(
        "SM203",
        '@effect("irreversible", scope="seat:/{seat}/{guest}", probe=sent)\n'
        'def take(seat, guest): db.execute("UPDATE seats SET guest = ? WHERE seat = ?", (guest, seat))',
        'scope="seat:/{seat}"',
        '@effect("irreversible", scope="seat:/{seat}", probe=sent)\n'
        'def take(seat, guest): db.execute("UPDATE seats SET guest = ? WHERE seat = ?", (guest, seat))',
    ),
    case(
        "SM203",
        '@effect("irreversible", scope="mail:/{subject}", probe=sent)\n'
        "def send_mail(to, subject): smtp.send(to, subject)",
        'scope="mail:/{to}"',
        '@effect("irreversible", scope="mail:/{to}", probe=sent)\ndef send_mail(to, subject): smtp.send(to, subject)',
        name="what a model writes",
    ),
    case(
        "SM204",
        '@effect("irreversible", scope="file:/{path}", probe=sent)\ndef write(path, text): open(path, "w").write(text)',
        'scope="file:/{path:path}"',
        '@effect("irreversible", scope="file:/{path:path}", probe=sent)\n'
        'def write(path, text): open(path, "w").write(text)',
    ),
    case(
        "SM205",
        '@effect("irreversible", scope="room:/{hotel}", probe=sent)\ndef book(hotel): hotels.book(hotel)\n'
        '@effect("irreversible", scope="rooms:/{hotel}", probe=sent)\ndef clean(hotel): maids.clean(hotel)',
        'scope="room:/{hotel}"',
        '@effect("irreversible", scope="room:/{hotel}", probe=sent)\ndef book(hotel): hotels.book(hotel)\n'
        '@effect("irreversible", scope="room:/{hotel}", probe=sent)\ndef clean(hotel): maids.clean(hotel)',
        line=4,
        name="two spellings of a type",
    ),
    case(
        "SM205",
        '@effect("irreversible", scope="room:/{hotel}/{date}", probe=sent)\ndef book(hotel, date): hotels.book(hotel)\n'
        '@effect("irreversible", scope="room:/{date}/{hotel}", probe=sent)\ndef clean(hotel, date): maids.clean(hotel)',
        'scope="room:/{hotel}/{date}"',
        '@effect("irreversible", scope="room:/{hotel}/{date}", probe=sent)\ndef book(hotel, date): hotels.book(hotel)\n'
        '@effect("irreversible", scope="room:/{hotel}/{date}", probe=sent)\ndef clean(hotel, date): maids.clean(hotel)',
        name="another order",
    ),
    case(
        "SM205",
        '@effect("irreversible", scope="file:/{name:path}", probe=sent)\ndef write(name): open(name, "w")\n'
        '@effect("irreversible", scope="report:/{name:path}", probe=sent)\ndef correct(name): open(name, "a")',
        'scope="file:/{name:path}"',
        '@effect("irreversible", scope="file:/{name:path}", probe=sent)\ndef write(name): open(name, "w")\n'
        '@effect("irreversible", scope="file:/{name:path}", probe=sent)\ndef correct(name): open(name, "a")',
        name="one file",
    ),
    case(
        "SM205",
        '@effect("irreversible", scope="order:/{id}", probe=sent)\n'
        'def close(id): db.execute("UPDATE orders SET open = 0 WHERE id = ?", (id,))\n'
        '@effect("read", scope="bill:/{id}")\n'
        'def is_open(id): return db.execute("SELECT open FROM orders WHERE id = ?", (id,))',
        'scope="order:/{id}"',
        '@effect("irreversible", scope="order:/{id}", probe=sent)\n'
        'def close(id): db.execute("UPDATE orders SET open = 0 WHERE id = ?", (id,))\n'
        '@effect("read", scope="order:/{id}")\n'
        'def is_open(id): return db.execute("SELECT open FROM orders WHERE id = ?", (id,))',
        line=4,
        name="one table, one of them reads",
    ),
    case(
        "SM205",
        '@effect("irreversible", scope="order:/{id}", probe=sent)\n'
        'def close(id): http.put(f"{SHOP}/orders/{id}/state", "closed")\n'
        '@effect("irreversible", scope="parcel:/{id}", probe=sent)\ndef drop(id): http.delete(f"{SHOP}/orders/{id}")',
        'scope="order:/{id}"',
        '@effect("irreversible", scope="order:/{id}", probe=sent)\n'
        'def close(id): http.put(f"{SHOP}/orders/{id}/state", "closed")\n'
        '@effect("irreversible", scope="order:/{id}", probe=sent)\ndef drop(id): http.delete(f"{SHOP}/orders/{id}")',
        name="one URL",
    ),
    case(
        "SM206",
        '@effect("reversible", may_touch="city:/*", undo=lambda: hotels.free(), probe=sent)\n'
        "def book_any(): hotels.any()",
        "refine=lambda result:",
        '@effect("reversible", may_touch="city:/*", refine=lambda result: f"city:/{result}", '
        "undo=lambda: hotels.free(), probe=sent)\ndef book_any(): hotels.any()",
    ),
    case(
        "SM207",
        '@effect("irreversible", scope="order:/{id}", probe=sent)\n'
        'def close(id): db.execute("UPDATE orders SET open = 0 WHERE id = ?", (id,))\n'
        '@effect("read")\ndef is_open(id): return db.execute("SELECT open FROM orders WHERE id = ?", (id,))',
        '"read", scope="order:/{id}"',
        '@effect("irreversible", scope="order:/{id}", probe=sent)\n'
        'def close(id): db.execute("UPDATE orders SET open = 0 WHERE id = ?", (id,))\n'
        '@effect("read", scope="order:/{id}")\n'
        'def is_open(id): return db.execute("SELECT open FROM orders WHERE id = ?", (id,))',
        line=4,
    ),
    case(
        "SM301",
        "import uuid\ndef sweep(state):\n    key = uuid.uuid4().hex\n    bank.wire(state.account, idempotency_key=key)",
        "idempotency_key=current_call().key",
        "def sweep(state):\n    key = derive(state.workflow_id, state.step)\n"
        "    bank.wire(state.account, idempotency_key=key)",
        line=5,
        name="a uuid, as in the paper",
    ),
    case(
        "SM301",
        "import requests, time\n"
        'def post(url): requests.post(url, headers={"Idempotency-Key": f"order-{time.time_ns()}"})',
        '"Idempotency-Key": current_call().key',
        'import requests, time\ndef post(url): requests.post(url, headers={"Idempotency-Key": current_call().key})',
        name="the clock, in a header",
    ),
    case(
        "SM301",
        "from datetime import datetime\nfrom secrets import token_hex\n"
        "def keys(): return token_hex() + str(datetime.now())\n"
        'def pay(bill):\n    headers = {}\n    headers["idempotency-key"] = keys()\n'
        "    http.post(bill, headers=headers)",
        '"idempotency-key": current_call().key',
        'def pay(bill):\n    headers = {}\n    headers["idempotency-key"] = current_call().key\n'
        "    http.post(bill, headers=headers)",
        name="chance, through a function and a header that is set",
    ),
    case(
        "SM301",
        'from uuid import uuid4\n@effect("irreversible", scope="mail:/{to}", keyed=True)\n'
        "def send_mail(to): smtp.send(to, key=str(uuid4()))",
        "key=current_call().key",
        'from uuid import uuid4\n@effect("irreversible", scope="mail:/{to}", keyed=True)\n'
        "def send_mail(to):\n    call = current_call()\n    smtp.send(to, key=call.key if call else str(uuid4()))",
        name="a makeshift for bare calls is none",
    ),
    case(
        "SM302",
        "from hashlib import sha256\ndef sweep(state):\n    amount = policy.sweep_amount(state.balances)\n"
        '    key = sha256(f"{state.run_date}:{state.account}:{amount}".encode()).hexdigest()\n'
        "    bank.wire(state.account, amount, idempotency_key=key)",
        "idempotency_key=current_call().key",
        "def sweep(state):\n    amount = policy.sweep_amount(state.balances)\n"
        "    bank.wire(state.account, amount, idempotency_key=current_call().key)",
        line=6,
        name="an amount, as in the paper",
    ),
    case(
        "SM302",
        'def post(order, rate: float): bank.pay(order, idempotency_key=f"{order}-{rate}")',
        "idempotency_key=current_call().key",
        'def post(order, rate: float): bank.pay(order, idempotency_key=f"{order}-refund")',
        name="a float",
    ),
    case(
        "SM302",
        'def post(order):\n    told = llm.invoke("name it")\n    bank.pay(order, idempotency_key=told)',
        "idempotency_key=current_call().key",
        'def post(order):\n    told = llm.invoke("name it")\n'
        "    bank.pay(order, told, idempotency_key=current_call().key)",
        name="what a model answered",
    ),
    case(
        "SM302",
        'def post(order, rate: float): bank.pay(order, idempotency_key=f"{order}-{rate}")',
        "idempotency_key=current_call().key",
        '@effect("irreversible", scope="order:/{order}", probe=sent)\n'
        'def post(order, rate: float): bank.pay(order, key=f"{order}-{rate}")',
        name="a key that may be one of something else",
    ),
    case(
        "SM401",
        '@effect("read", scope="room:/{hotel}")\n'
        'def look(hotel): db.execute("DELETE FROM rooms WHERE hotel = ?", (hotel,))',
        '"irreversible", scope="room:/{hotel}"',
        '@effect("read", scope="room:/{hotel}")\n'
        'def look(hotel): db.execute("SELECT * FROM rooms WHERE hotel = ?", (hotel,))',
        name="by its body",
    ),
    case(
        "SM401",
        'node = SequencedToolNode([pay], effects={"pay_bill": "read"})',
        '"irreversible"',
        'node = SequencedToolNode([pay], effects={"get_payment": "read"})',
        name="by its name",
    ),
    case(
        "SM402",
        'def regret(to): log.info("sorry")\n'
        '@effect("reversible", scope="mail:/{to}", undo=regret, probe=sent)\ndef send_mail(to): smtp.send(to)',
        '"irreversible", scope="mail:/{to}"',
        "def regret(to): smtp.recall(to)\n"
        '@effect("reversible", scope="mail:/{to}", undo=regret, probe=sent)\ndef send_mail(to): smtp.send(to)',
        line=3,
    ),
    case(
        "SM402",
        'def regret(to): return log.info("sorry")\n'
        '@effect("reversible", scope="mail:/{to}", undo=regret, probe=sent)\ndef send_mail(to): smtp.send(to)',
        '"irreversible", scope="mail:/{to}"',
        "def regret(bill): return bank.credit(bill)\n"
        '@effect("reversible", scope="bill:/{bill}", undo=regret, probe=sent)\ndef pay_bill(bill): bank.pay(bill)',
        line=3,
        name="what pays back takes no mail back",
    ),
    case(
        "SM402",
        'def regret(to): log.info("sorry")\n'
        '@effect("reversible", scope="mail:/{to}", undo=regret, probe=sent, cost="a stamp")\n'
        "def send_mail(to): smtp.send(to)",
        '"irreversible", scope="mail:/{to}"',
        'def regret(bill): log.info("sorry")\n'
        '@effect("reversible", scope="bill:/{bill}", undo=regret, probe=sent, cost="a fee")\n'
        "def pay_bill(bill): bank.pay(bill)",
        line=3,
        name="a mail that costs something is gone all the same",
    ),
    case(
        "SM403",
        '@effect("irreversible", scope="order:/{id}")\ndef get_order(id): return http.get(f"{SHOP}/orders/{id}")',
        '"read", scope="order:/{id}"',
        '@effect("read", scope="order:/{id}")\ndef get_order(id): return http.get(f"{SHOP}/orders/{id}")',
    ),
    case(
        "SM404",
        '@mcp.tool(annotations={"destructiveHint": True})\n@effect("read", scope="note:/{id}")\n'
        "def tidy(id): return notes.find(id)",
        '"irreversible", scope="note:/{id}"',
        '@mcp.tool(annotations={"readOnlyHint": True})\n@effect("read", scope="note:/{id}")\n'
        "def tidy(id): return notes.find(id)",
        line=3,
        name="MCP hints",
    ),
    case(
        "SM404",
        '@effect("reversible", scope="note:/{id}", undo=back, probe=sent)\n'
        'def tidy(id):\n    "Tidies up. This cannot be undone."\n    notes.tidy(id)',
        '"irreversible", scope="note:/{id}"',
        '@effect("irreversible", scope="note:/{id}", probe=sent)\n'
        'def tidy(id):\n    "Tidies up. This cannot be undone."\n    notes.tidy(id)',
        name="the docstring",
    ),
    case(
        "SM405",
        "from langchain_core.tools import tool\n@tool\ndef delete_user(user_id): users.delete(user_id)",
        'settlement.declare("delete_user", "irreversible", scope="user:/{user_id}")',
        'from langchain_core.tools import tool\n@tool\n@effect("irreversible", scope="user:/{user_id}", probe=sent)\n'
        "def delete_user(user_id): users.delete(user_id)",
    ),
    case(
        "SM501",
        '@effect("irreversible", scope="site:/{site}", probe=sent)\n'
        "def log_in(site, password): web.post(site, password)",
        'redact="password"',
        'settlement = Settlement("trip.db", redact=["*.token", "password"])\n'
        '@effect("irreversible", scope="site:/{site}", probe=sent)\n'
        "def log_in(site, password): web.post(site, password)",
    ),
    case(
        "SM501",
        '@effect("irreversible", scope="site:/{site}", probe=sent)\ndef log_in(site, api_key): web.post(site, api_key)',
        'redact="api_key"',
        '@effect("irreversible", scope="site:/{site}", probe=sent, redact=("api_key", "card.number"))\n'
        "def log_in(site, api_key): web.post(site, api_key)",
        name="in the declaration",
    ),
    case(
        "SM502",
        '@effect("irreversible",\n    scope="card:/{card_number}", probe=sent)\n'
        "def bill(card_number): shop.bill(card_number)",
        "a digest of this one",
        '@effect("irreversible", scope="customer:/{customer}", probe=sent)\ndef bill(customer): shop.bill(customer)',
        line=3,
    ),
]


@pytest.mark.parametrize(("code", "bad", "mend", "good", "line"), CASES)
def test_a_mistake_is_told_with_its_line_and_its_mend_and_the_mended_text_is_clean_of_it(
    found, code, bad, mend, good, line
):
    mistakes = found(bad, code)
    assert [each.rule for each in mistakes] == [code]
    (mistake,) = mistakes
    assert mend in mistake.mend
    assert mistake.tool in mistake.what or code == "SM101"
    assert mistake.line == (line or mistake.line)
    assert (mistake.name, mistake.severity) == (RULES[code].name, RULES[code].severity)
    assert found(good, code) == []


def test_there_is_a_case_for_every_rule():
    assert {param.values[0] for param in CASES} == set(RULES) - {"SM001"}


@pytest.mark.parametrize(
    "text",
    [
        # Nothing of these leaves the process, so nothing gets lost on the way.
        '@effect("irreversible", scope="mail:/{to}")\ndef send_mail(to): mails.append(to)\nmails = []',
        # A broad scope on purpose, of an argument that is no part of what is touched.
        ('@effect("irreversible", scope="hotel:/{city}/{trip}", probe=sent)\n'
        "def reserve(trip, city): hotels.book(trip, city)"),
        # Two tools, two things of one trip.
        ('@effect("irreversible", scope="hotel:/{trip}", probe=sent)\ndef hotel(trip): agency.book("hotel", trip)\n'
        '@effect("irreversible", scope="car:/{trip}", probe=sent)\ndef car(trip): agency.book("car", trip)'),
        # The makers of handlers are looked into.
        ('def cancel(kind):\n    def undo(id):\n        agency.cancel(kind, id)\n    return inverse(undo, id="id")\n'
        '@effect("reversible", scope="hotel:/{trip}", undo=cancel("hotel"), probe=sent)\n'
        'def hotel(trip): agency.book("hotel", trip)'),
        # A key that a function of the module asks for.
        ("def key():\n    call = current_call()\n    return None if call is None else call.key\n"
        '@effect("idempotent", scope="limit:/{account}")\ndef limit(account): bank.limit(account, key=key())'),
        # Marks that a tool keeps under its own key are nobody else's.
        ('@effect("irreversible", scope="a1:/{id}", probe=sent)\ndef one(id):\n    key = current_call().key\n'
        '    db.execute("INSERT INTO marks VALUES (?)", (key,))\n'
        '@effect("irreversible", scope="b1:/{id}", probe=sent)\ndef two(id):\n    key = current_call().key\n'
        '    db.execute("DELETE FROM marks WHERE key = ?", (key,))'),
        # Two that only put something new on one list.
        ('@effect("irreversible", scope="mail:/{to}", probe=sent)\n'
        'def mail(to): db.execute("INSERT INTO outbox VALUES (?)", (to,))\n'
        '@effect("irreversible", scope="letter:/{to}", probe=sent)\n'
        'def letter(to): db.execute("INSERT INTO outbox VALUES (?)", (to,))'),
        # Names that are no secrets.
        ('@effect("read", scope="list:/{name}")\n'
        'def pages(name, page_token, max_tokens, keyboard): return db.list(name)'),
        # A read that remembers what it found.
        ('@effect("read", scope="price:/{item}")\ndef price(item):\n    cache[item] = shop.price(item)\n'
        "    return cache[item]\ncache = {}"),
        # A search is sent by POST.
        ('@effect("read", scope="index:/{name}")\n'
        'def search(name, query): return http.post(f"{URL}/search", json=query)'),
        # A function names the scopes: nobody can say that it leaves something out.
        ('@effect("irreversible", scope=lambda path: f"file:/{path}", probe=sent)\n'
        'def write(path, text): open(path, "w").write(text)'),
        # Parts that are given elsewhere.
        '@effect("reversible", **PARTS)\ndef book(hotel): hotels.book(hotel)',
        "@effect(KIND, scope=SCOPE)\ndef book(hotel): hotels.book(hotel)",
    ],
)  # fmt: skip # a table of values
def test_what_is_right_or_cannot_be_known_is_not_found_fault_with(codes, text):
    assert codes(text) == []
