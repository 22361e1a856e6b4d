"""Whatever a tool's act stands in, and however its address is written, the linter finds it, and no more than it."""

from __future__ import annotations

import pytest

ACT = 'db.execute("DELETE FROM rooms WHERE hotel = ?", (hotel,))'


@pytest.mark.parametrize(
    "body",
    [
        "{act}",
        "x = {act}",
        "x: int = {act}",
        "x = 1\n    x += {act}",
        "x, y = {act}, 1",
        "return {act}",
        "for _ in hotels: {act}",
        "for _ in {act}: pass",
        "for _ in hotels: pass\n    else: {act}",
        "while True: {act}",
        "if hotel: {act}",
        "if hotel: pass\n    else: {act}",
        "with lock: {act}",
        "with {act} as x: pass",
        "try: {act}\n    finally: pass",
        "try: go()\n    except ValueError: {act}",
        "try: go()\n    finally: {act}",
        "match hotel:\n        case 'Ada': {act}",
        "assert {act}",
        "raise ValueError({act})",
        "x = [{act} for _ in hotels]",
        "x = hotel and {act}",
        "x = f'{{{act}}}'",
        "async def inner(): {act}\n    await inner()",
        "async with lock: {act}",
        "async for _ in hotels: {act}",
        "await {act}",
    ],
)
def test_a_change_is_found_in_whatever_statement_it_stands(codes, body):
    text = f'@effect("read", scope="room:/{{hotel}}")\nasync def look(hotel):\n    {body.format(act=ACT)}'
    assert codes(text, "SM401") == [("SM401", "look")]


@pytest.mark.parametrize(
    "call",
    [
        'requests.put(f"https://shop/orders/{order_id}")',
        'requests.put(url=f"https://shop/orders/{order_id}")',
        'requests.request("PUT", f"https://shop/orders/{order_id}")',
        'requests.request("PUT", url=f"https://shop/orders/{order_id}")',
        'client.stream("PUT", f"https://shop/orders/{order_id}", job)',
    ],
)
def test_the_address_of_a_request_is_found_wherever_its_method_stands(found, call):
    text = f'@effect("irreversible", scope="job:/{{job}}", probe=sent)\ndef close_order(job, order_id): {call}'
    (finding,) = found(text, "SM201")
    assert "(https://shop/orders/{order_id})" in finding.what


@pytest.mark.parametrize(("method", "rules"), [("GET", []), ("PUT", ["SM401"])])
@pytest.mark.parametrize("given", ["{method}, {url}", "{method}, url={url}", "method={method}, url={url}"])
def test_a_request_whose_method_is_an_argument_is_a_read_or_a_change_by_that_method(codes, method, rules, given):
    arguments = given.format(method=repr(method), url='f"https://shop/orders/{order}"')
    text = f'@effect("read", scope="order:/{{order}}")\ndef look(order): return requests.request({arguments})'
    assert [rule for rule, _ in codes(text, "SM401")] == rules


TWO = (
    '@effect("irreversible", scope="hotel:/{{trip}}", probe=sent)\ndef close_it(trip): {0}\n'
    '@effect("irreversible", scope="tour:/{{trip}}", probe=sent)\ndef drop_it(trip): {1}\n'
)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ('agency.cancel("rooms", trip)', 'agency.cancel("rooms", trip)', "agency (rooms)"),
        ('agency.cancel("rooms", trip)', 'agency.cancel("cars", trip)', None),
        ("agency.cancel(trip)", "agency.cancel(trip)", "agency.cancel"),
        ("agency.cancel(whatever(), trip)", "agency.cancel(whatever(), trip)", None),
    ],
)
def test_two_tools_share_what_constants_in_their_calls_name_alike_and_nothing_that_nobody_knows(
    found, one, other, shared
):
    told = [each.what for each in found(TWO.format(one, other), "SM205")]
    assert [f" share {shared}: " in each for each in told] == ([True] if shared else [])


@pytest.mark.parametrize(
    ("table", "shared"),
    [
        # A dict of this process, whatever the item is, and an item of an outside object that an argument names.
        ("open_trips = {}", True),
        ("open_trips = connect()", True),
    ],
)
def test_two_tools_that_change_one_table_under_a_call_s_argument_share_it(found, table, shared):
    text = f"{table}\n" + TWO.format("open_trips[trip] = 0", "open_trips[trip] = 1")
    assert [" share open_trips: " in each.what for each in found(text, "SM205")] == [shared]


@pytest.mark.parametrize(("table", "shared"), [("open_trips = {}", [True]), ("open_trips = connect()", [])])
def test_items_under_keys_that_nobody_knows_are_shared_in_a_table_of_this_process_alone(found, table, shared):
    text = f"{table}\n" + TWO.format("open_trips[now()] = trip", "open_trips[now()] = trip")
    assert [" share open_trips: " in each.what for each in found(text, "SM205")] == shared


@pytest.mark.parametrize(
    "made",
    ["cancel", "again", "partial(cancel)", "maker()", "deeper()", "partial(partial(again))"],
)
def test_an_undo_that_does_nothing_is_found_behind_its_names_makers_and_partials(codes, made):
    text = (
        "def cancel(hotel): pass\nagain = cancel\nsame = again\n"
        "def maker(): return again\ndef deeper():\n    if LATER: return None\n    return maker()\n"
        f'@effect("reversible", scope="room:/{{hotel}}", undo={made}, probe=sent)\n'
        "def book(hotel): hotels.book(hotel)"
    )
    assert codes(text, "SM103") == [("SM103", "book")]


def test_a_long_chain_of_makers_is_followed_and_a_circle_of_them_ends(codes):
    chain = "def cancel(hotel): pass\n" + "".join(
        f"def maker_{each}(): return {f'maker_{each - 1}()' if each else 'cancel'}\n" for each in range(9)
    )
    tool = '@effect("reversible", scope="room:/{{hotel}}", undo={}, probe=sent)\ndef book(hotel): hotels.book(hotel)'
    assert codes(chain + tool.format("maker_8()"), "SM103") == [("SM103", "book")]
    circle = "def one(): return two()\ndef two(): return one()\nthree = four\nfour = three\n"
    assert codes(circle + tool.format("one()"), "SM103") == codes(circle + tool.format("three"), "SM103") == []


@pytest.mark.parametrize("call", ["retrying('read')(send_mail)", "retrying('x')('read')", "effects('read')(send_mail)"])
def test_a_call_of_what_a_call_returned_is_no_declaration_unless_effect_returned_it(codes, call):
    assert codes(f"def send_mail(to): smtp.send(to)\ntool = {call}") == []


@pytest.mark.parametrize(
    "declared",
    [
        "settlement.declare('look', 'read', scope='room:/{hotel}')",
        "node = SettledWorkbench(bench, effects={'look': {'kind': 'read', 'scope': 'room:/{hotel}'}})",
    ],
)
def test_what_is_declared_by_name_alone_is_judged_by_the_function_of_that_name_beside_it(found, declared):
    (finding,) = found(f"def look(hotel): {ACT}\n{declared}", "SM401")
    assert "DELETE FROM rooms" in finding.what


@pytest.mark.parametrize(("terms", "rules"), [(5, ["SM105"]), (500, [])])
def test_a_tool_that_is_nested_too_deeply_to_be_read_may_do_what_nobody_knows(codes, terms, rules):
    text = (
        '@effect("idempotent", scope="account:/{account}")\n'
        f"def set_limit(account):\n    bank.limit(account)\n    bank.note({' + '.join(['account'] * terms)})"
    )
    assert [rule for rule, _ in codes(text)] == rules


@pytest.mark.parametrize("parts", ["undo=lambda **_: None", "probe=lambda key: key in mails"])
def test_of_a_tool_whose_class_is_known_only_when_it_runs_no_handler_is_found_fault_with(codes, parts):
    assert codes(f'@effect(KIND, scope="room:/{{hotel}}", {parts})\ndef book(hotel): hotels.book(hotel)') == []


@pytest.mark.parametrize("scope", ["room:/{hotel}", "room:/{hotel}/*", "room:/*"])
def test_a_scope_that_may_be_touched_needs_no_refining_only_where_the_arguments_name_all_of_it(codes, scope):
    text = (
        f'@effect("irreversible", scope="trip:/{{trip}}", may_touch="{scope}", probe=sent)\n'
        "def book(trip, hotel): hotels.book(trip, hotel)"
    )
    assert codes(text, "SM206") == ([("SM206", "book")] if "*" in scope else [])


def test_of_several_scopes_none_needs_refining_since_the_call_names_them_itself(codes):
    text = (
        '@effect("irreversible", scope=["room:/{hotel}", "town:/*"], probe=sent)\ndef book(hotel): hotels.book(hotel)'
    )
    assert codes(text, "SM206") == []


@pytest.mark.parametrize(
    ("body", "empty"),
    [
        ("pass", True), ("...", True), ("return", True), ("return None", True), ("return hotel", True), ("hotel", True),
        ("'It is free.'", True), ("'It is free.'; return", True), ("'It is free.'; free(hotel)", False),
        ("free(hotel)", False), ("return free(hotel)", False), ("raise ValueError", False),
        ("pass; free(hotel)", False), ("del rooms[hotel]", False), ("return -hotel", False),
    ],
)  # fmt: skip # a table of values
def test_an_undo_does_nothing_only_when_none_of_its_statements_does(codes, body, empty):
    text = (
        f"def cancel(hotel): {body}\n"
        '@effect("reversible", scope="room:/{hotel}", undo=cancel, probe=sent)\ndef book(hotel): hotels.book(hotel)'
    )
    assert codes(text, "SM103") == ([("SM103", "book")] if empty else [])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("db.execute('DELETE FROM t'); smtp.send(to)", "its body writes (DELETE FROM t)"),
        ("requests.post(f'{URL}/mails', to); smtp.note(to); hotels.book(to)", "its body acts (hotels.book(to))"),
        ("requests.post(f'{URL}/mails', to)", "its body acts (requests.post(f'{URL}/mails', to))"),
        ("log.append(to); hotels.book(to)", "its body acts (hotels.book(to))"),
        ("sent.append(to)", "its body changes something (sent.append(to))"),
        ("go(to)", 'its name says "send"'),
    ],
)
def test_a_read_that_acts_is_told_by_the_strongest_of_what_it_does(found, body, why):
    (finding,) = found(f'sent = []\n@effect("read", scope="mail:/{{to}}")\ndef send_mail(to): {body}', "SM401")
    assert why in finding.what


@pytest.mark.parametrize("scope", ["room:/{hotel}/**", "room:/**", "room:/{hotel}", "room:/{hotel}/./seats"])
def test_a_read_is_proposed_the_scope_of_what_changes_it_as_it_is_written(found, scope):
    text = (
        f'@effect("irreversible", scope="{scope}", probe=sent)\n'
        'def book(hotel): db.execute("UPDATE rooms SET open = 0 WHERE hotel = ?", (hotel,))\n'
        '@effect("read")\ndef look(hotel): return db.execute("SELECT open FROM rooms WHERE hotel = ?", (hotel,))'
    )
    (finding,) = found(text, "SM207")
    assert f'scope="{scope}"' in finding.mend


@pytest.mark.parametrize(("arguments", "scope"), [("hotel", "room:/{hotel}"), ("hotel, date", "room:/{hotel}/{date}")])
def test_a_read_that_cannot_name_all_of_a_scope_is_proposed_as_much_as_it_can(found, arguments, scope):
    text = (
        '@effect("irreversible", scope="room:/{hotel}/{date}", probe=sent)\n'
        'def book(hotel, date): db.execute("UPDATE rooms SET open = 0 WHERE hotel = ?", (hotel,))\n'
        f'@effect("read")\ndef look({arguments}): return db.execute("SELECT open FROM rooms WHERE hotel = ?", (hotel,))'
    )
    (finding,) = found(text, "SM207")
    assert f'scope="{scope}"' in finding.mend


@pytest.mark.parametrize("described", ["f'Send it to {WHOM}.'", "DESCRIBED", "None", "'Send it.'"])
def test_a_tool_is_found_whatever_its_class_has_as_its_description(codes, described):
    text = (
        "class Send(BaseTool):\n    name: str = 'send_mail'\n"
        f"    description: str = {described}\n    def _run(self, to): smtp.send(to)"
    )
    assert codes(text) == [("SM405", "send_mail")]


@pytest.mark.parametrize(
    ("release", "rules"),
    [
        ("lambda to: smtp.send(to)", ["SM105"]),
        ("lambda to: smtp.send(to, key=current_call().key)", []),
        ("made_elsewhere", []),  # nobody can tell here what it sends
    ],
)
def test_a_key_that_the_release_sends_is_sent(codes, release, rules):
    text = f'@effect("staged", scope="mail:/{{to}}", keyed=True, release={release})\ndef write(to): smtp.draft(to)'
    assert [rule for rule, _ in codes(text, "SM105")] == rules


@pytest.mark.parametrize(
    "declared",
    [
        '@effect("read", scope="room:/{hotel}", valid_for=SECONDS)',
        '@effect("irreversible", scope="room:/{hotel}", window=WINDOW, probe=sent)',
        '@effect("reversible", scope="room:/{hotel}", undo=free, cost=COST, probe=sent)',
        '@effect("irreversible", scope="room:/{hotel}", approve=ASKED, probe=sent)',
        '@effect("irreversible", scope="room:/{hotel}", redact=SECRET, probe=sent)',
        '@effect("irreversible", scope="room:/{hotel}", may_touch=OTHERS, probe=sent)',
        '@effect("irreversible", scope=SCOPE, probe=sent)',
    ],
)
def test_a_part_that_is_known_only_when_it_runs_is_taken_for_right(codes, declared):
    assert codes(f"{declared}\ndef look(hotel): ...", "SM101") == []


@pytest.mark.parametrize(("taken", "rules"), [("hotel", []), ("hotle", ["SM101"])])
def test_a_function_that_names_the_scope_takes_what_the_tool_takes(codes, taken, rules):
    text = f'@effect("irreversible", scope=lambda {taken}: f"room:/{{{taken}}}", probe=sent)\ndef book(hotel): ...'
    assert [rule for rule, _ in codes(text, "SM101")] == rules


def test_of_a_tool_that_waits_for_neither_of_two_others_it_is_told_once(codes):
    tools = [
        f'@effect("irreversible", scope="{kind}:/{{id}}", probe=sent)\n'
        f'def {verb}(id): db.execute("UPDATE orders SET {verb} = 1 WHERE id = ?", (id,))\n'
        for kind, verb in (("order", "open_it"), ("order", "close_it"), ("parcel", "drop_it"))
    ]
    assert codes("".join(tools), "SM205") == [("SM205", "drop_it")]


@pytest.mark.parametrize("other", ["", ' db.execute("UPDATE guests SET seat = 1 WHERE guest = ?", (guest,))'])
def test_an_argument_by_which_another_row_is_changed_is_not_too_much_for_a_scope(codes, other):
    text = (
        '@effect("irreversible", scope="seat:/{seat}/{guest}", probe=sent)\ndef take(seat, guest):\n'
        f'    db.execute("UPDATE seats SET taken = 1 WHERE seat = ?", (seat,));{other}'
    )
    assert codes(text, "SM203") == ([] if other else [("SM203", "take")])


def test_the_arguments_of_a_scope_are_proposed_in_the_order_in_which_the_address_has_them(found):
    text = (
        '@effect("irreversible", scope="job:/{job}", probe=sent)\n'
        'def close(job, door_id, wing_id): requests.put(f"https://h/doors/{wing_id}/{door_id}", job)'
    )
    (finding,) = found(text, "SM201")
    assert "{wing_id}/{door_id}" in finding.mend


BROKEN = ["irreversible", "reversible", "idempotent", "opaque", "staged", "read"]


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize(
    "part",
    [
        "undo=free", "release=free", "probe=free", "live=free", "check=free", "cost=1", "cost=''", "window=-1",
        "valid_for=0", "scope='room'", "scope='{}'", "may_touch='x'", "redact='.'", "approve=3", "scope=None",
    ],
)  # fmt: skip # a table of values
def test_whatever_the_engine_refuses_of_a_declaration_is_told_with_a_mend(found, kind, part):
    scope = "" if part.startswith("scope") else ', scope="room:/{hotel}"'
    text = f'def free(everything): ...\n@effect("{kind}"{scope}, {part})\ndef book(hotel): hotels.book(hotel)'
    for finding in found(text, "SM101"):
        assert finding.mend, finding


@pytest.mark.parametrize("body", ["x = 1 if {act} else 2", "x = {act} if hotel else 2", "x = 1 if hotel else {act}"])
def test_a_change_is_found_in_each_part_of_a_choice(codes, body):
    text = f'@effect("read", scope="room:/{{hotel}}")\ndef look(hotel):\n    {body.format(act=ACT)}'
    assert codes(text, "SM401") == [("SM401", "look")]


@pytest.mark.parametrize(
    "handler",
    ["desk().cancel", "desk.rooms.cancel", "desks[0].cancel", '"x".join', "(lambda: cancel)()", "cancel or None"],
)
def test_a_handler_that_is_no_name_is_not_followed_and_the_rest_is_looked_at(codes, handler):
    text = f"""
    @effect("reversible", scope="room:/{{hotel}}", undo={handler})
    def book(hotel): {ACT}

    @effect("read", scope="room:/{{hotel}}")
    def look(hotel): {ACT}
    """
    assert codes(text, "SM401") == [("SM401", "look")]
