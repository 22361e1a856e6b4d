"""Text from anywhere, wherever it can come in: it is refused or stored legibly, and is nobody else's affair.

What names something and no store can hold is refused before anything runs; what people read is stored as an escape. In
either case the records of those who share its batches are what they would be without it.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import threading
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.core.places import public_parameters
from tests.extent import examples
from tests.rooms.model import decode

from settlemark import Injected, PayloadError, SettlemarkError, Settlement, UsageError, effect
from settlemark._edges.text import CALL_ID, DERIVED, KEY, NAME, NAMESPACE, TOOL, VERSION, WHO, prose, wrong_with
from settlemark.agents import Call, Shared, open_turn, run_sync, since_answered
from settlemark.hosting import host_of, reject

NEIGHBOURS = 24
PATIENCE = 60


class Text(str):
    """A text of a class of somebody's own, which says of itself what it likes."""

    __slots__ = ()

    def isascii(self):
        return True

    def encode(self, *_):
        return b""

    def __len__(self):
        return 1


class Mute(Text):
    """A text that cannot be had in the usual way."""

    __slots__ = ()

    def __str__(self):
        raise RuntimeError("no text")


# ---- what is written down of one inlet


@dataclass
class Told:
    """What became of one text at one inlet.

    Attributes:
        refused: the error that met it.
        acted: how often its tool ran.
        found: the texts of its record.
        same: what came back is what went in.
    """

    refused: Exception | None = None
    acted: int = 0
    found: list[str] = field(default_factory=list)
    same: bool = True


class Caller:
    """One agent with a text, and what it does with it."""

    def __init__(self, settlement, mark, text):
        self.settlement, self.text, self.mark = settlement, text, mark
        self.name = f"bad-{mark}"
        self.told = Told()

    def tool(self, kind="reversible", *, raises=None, result="done", **parts):
        if kind == "reversible":
            parts.setdefault("undo", lambda: None)

        @effect(kind, scope=f"bad:/{self.mark}", name=f"tool-{self.mark}", **parts)
        def tool(what=""):
            self.told.acted += 1
            if raises is not None:
                raise raises
            return result

        return tool

    def run(self, **options):
        self.settlement.run(self.name, lambda tx: tx.call(self.tool(), ""), **options)

    def doubt(self):
        """Return an effect of which nobody knows whether it happened."""
        with suppress(SettlemarkError):
            self.settlement.run(self.name, lambda tx: tx.call(self.tool("opaque", raises=TimeoutError())))
        self.told.acted = 0
        (found,) = [doubt for doubt in self.settlement.in_doubt() if doubt.transaction == self.name]
        return found

    def recorded(self):
        for found in self.settlement.transactions():
            if found.row.name.startswith(self.name):
                texts = [found.cause, found.waits_for, found.waits_on]
                texts += [t for e in found.effects for t in (e.row.rationale, e.error, e.note)]
                self.told.found += [text for text in texts if text]


def names(caller):
    caller.name = caller.text
    caller.run()


def runs(caller):
    caller.run(run=caller.text)


def acting(caller):
    caller.run(agent=caller.text)


def footprints(caller):
    caller.run(may_touch="foot:/" + caller.text)


def scopes(caller):
    with caller.settlement.transaction(caller.name) as tx:
        tx.read("addr:/" + caller.text)
        tx.staged("addr:/" + caller.text)
        caller.settlement.frontier("addr:/" + caller.text)


def holds(caller):
    with caller.settlement.hold(f"bad:/{caller.mark}", name=caller.text):
        pass


def ids(caller):
    with (
        Settlement("memory:", injected=Injected(ids=lambda: caller.text)) as settlement,
        settlement.transaction(run="r") as tx,
    ):
        tx.call(caller.tool())


def cancelled(caller):
    caller.text += caller.mark  # a name of another's is not to be meant
    caller.settlement.cancel(caller.text)


def tools(caller):
    caller.settlement.declare(caller.text, "idempotent", scope=f"bad:/{caller.mark}")
    caller.settlement.revoke(caller.text)
    caller.settlement.reinstate(caller.text)


def versions(caller):
    caller.settlement.declare(caller.name, "idempotent", scope=f"bad:/{caller.mark}", version=caller.text)
    caller.settlement.declare(caller.name, "idempotent", scope=f"bad:/{caller.mark}", versions=caller.text)


def aliases(caller):
    caller.settlement.declare(caller.name, "idempotent", scope=f"bad:/{caller.mark}", aliases=caller.text)


def groups(caller):
    caller.settlement.declare(caller.name, "staged", scope=f"bad:/{caller.mark}", commutes=caller.text)


def call_ids(caller):
    tool, settlement = caller.tool(), caller.settlement
    with settlement.transaction(caller.name) as tx:
        declaration = host_of(settlement).tools.of(tool)
        made = host_of(settlement).tools.effect_of(declaration, {"what": ""}, tool, run=tx.run, call_id=caller.text)
        tx._attempt.place(made)
        tx.turn().seat(made).run()


def keys(caller):
    caller.settlement.confirm(caller.text, None)


def operators(caller):
    doubt = caller.doubt()
    caller.settlement.resolve(doubt, "confirmed", by=caller.text)


def notes(caller):
    doubt = caller.doubt()
    caller.settlement.resolve(doubt, "give_up", by="ada", note=caller.text)


def rewound(caller):
    caller.run()
    caller.settlement.rewind(caller.name, by="ada", note=caller.text, dry_run=False)


def rewound_names(caller):
    caller.settlement.rewind(caller.text, by="ada", dry_run=False)


def rationales(caller):
    with caller.settlement.transaction(caller.name) as tx:
        tx.turn(because=caller.text).call(caller.tool())


def reasons(caller):
    with caller.settlement.transaction(caller.name) as tx:
        tx.call(caller.tool())
        tx.abort(caller.text)


def stops(caller):
    shared = Shared(caller.settlement, caller.name)
    part = run_sync(shared.enter(lambda: host_of(caller.settlement).begin(caller.name, run=caller.name)))
    turn = run_sync(open_turn(caller.settlement, None, run=caller.name, within=part))
    tool = caller.tool()
    [place] = run_sync(turn.place_all([Call("tool", {}, host_of(caller.settlement).tools.of(tool))]))
    run_sync(turn.perform(place, tool, {}))
    run_sync(turn.leave(place))
    run_sync(shared.stop(caller.text))


def errors_of_bodies(caller):
    def body(tx):
        tx.call(caller.tool())
        raise ZeroDivisionError(caller.text)

    with suppress(ZeroDivisionError):
        caller.settlement.run(caller.name, body)


def errors_of_tools(caller):
    tool = caller.tool(raises=ZeroDivisionError(caller.text))
    with suppress(ZeroDivisionError):
        caller.settlement.run(caller.name, lambda tx: tx.call(tool), on_failure="abort")


def errors_of_undos(caller):
    def undo():
        raise ZeroDivisionError(caller.text)

    with caller.settlement.transaction(caller.name) as tx:
        tx.call(caller.tool(undo=undo))
        tx.abort()


def errors_in_doubt(caller):
    with suppress(SettlemarkError):
        caller.settlement.run(caller.name, lambda tx: tx.call(caller.tool("opaque", raises=TimeoutError(caller.text))))


def errors_of_releases(caller):
    tool = caller.tool("irreversible", raises=ZeroDivisionError(caller.text))
    with suppress(SettlemarkError):
        caller.settlement.run(caller.name, lambda tx: tx.call(tool))


def vetoes(caller):
    with suppress(SettlemarkError):
        caller.run(before_commit=lambda _footprint: caller.text)


def rejections(caller):
    tool = caller.tool("irreversible", approve=True)
    with suppress(SettlemarkError):
        caller.settlement.run(caller.name, lambda tx: tx.call(tool), approver=lambda _gate: reject(caller.text))


def answers(caller):
    with caller.settlement.transaction(caller.name) as tx:
        tx.call(caller.tool())
        tx.park()
    with suppress(SettlemarkError):
        caller.settlement.answer(caller.name, approve=False, because=caller.text)


def costs(caller):
    with caller.settlement.transaction(caller.name) as tx:
        tx.call(caller.tool(cost=caller.text))
        tx.abort()


def arguments(caller):
    given = {caller.text: [caller.text, {"deep": caller.text}]}
    tool = caller.tool()
    caller.settlement.run(caller.name, lambda tx: tx.call(tool, given))
    (found,) = [t for t in caller.settlement.transactions() if t.row.name == caller.name]
    caller.told.same = decode(found.effects[0].row.arguments) == {"what": given}


def results(caller):
    result = {"text": [caller.text], caller.text: caller.mark}
    tool = caller.tool(result=result)
    first = caller.settlement.run(caller.name, lambda tx: tx.call(tool))
    again = caller.settlement.run(caller.name, lambda tx: tx.call(tool))
    # Two halves that belong together come back as the character that they are: JSON cannot tell them from it.
    caller.told.same = first == result and again == json.loads(json.dumps(result))


def words(caller):
    doubt = caller.doubt()
    caller.settlement.confirm(doubt.key, {"text": caller.text})


def approvals(caller):
    tool = caller.tool("irreversible", approve=True)
    with caller.settlement.transaction(caller.name, park="split") as tx:
        tx.call(tool)
    (asked,) = [found for found in caller.settlement.approvals() if found.transaction.startswith(caller.name)]
    return asked


def approvers(caller):
    caller.settlement.approve(approvals(caller), by=caller.text)
    caller.told.acted = 0  # it was approved, by somebody whose name can be kept


def approving_roles(caller):
    caller.settlement.approve(approvals(caller), by="ada", roles=caller.text)
    caller.told.acted = 0  # it was approved, by somebody whose role can be kept


def seen(caller):
    caller.settlement.approve(approvals(caller), by="ada", seen=caller.text)


def tokens(caller):
    caller.settlement.redeem(caller.text, "approve")


def refusals(caller):
    caller.settlement.reject(approvals(caller), because=caller.text, by="ada")


def approved_keys(caller):
    caller.settlement.approve(caller.text, by="ada")


def looked_up(caller):
    caller.settlement.transactions(run=caller.text)
    caller.settlement.residue(run=caller.text)
    caller.settlement.show(run=caller.text)


def since(caller):
    caller.told.same = since_answered(caller.settlement, [caller.text]) == {}


def namespaces(caller):
    Settlement("memory:", namespace=caller.text).close()


IDENTITY = {
    names: NAME, runs: NAME, acting: NAME, holds: NAME, ids: NAME, cancelled: NAME, tools: TOOL, versions: VERSION,
    aliases: TOOL, call_ids: CALL_ID, keys: KEY, operators: WHO, rewound_names: DERIVED, approvers: WHO,
    approved_keys: KEY,
    looked_up: DERIVED, namespaces: NAMESPACE, groups: VERSION, approving_roles: WHO, seen: KEY, tokens: KEY,
}  # fmt: skip # a table
"""What names something: refused before anything runs when no store can hold it."""
ADDRESSES = [scopes, footprints]
"""What names a resource: canonical, or refused."""
PROSE = [
    rationales, reasons, stops, errors_of_bodies, errors_of_tools, errors_of_undos, errors_in_doubt, errors_of_releases,
    vetoes, rejections, answers, costs, notes, rewound, refusals,
]  # fmt: skip # a list of names and values
"""What people read: never refused, and legible in the record."""
PAYLOADS = [arguments, words]
"""Refused before the effect, or the same when it is read."""
RESULTS = [results, since]
"""Never refused: they have happened, or are asked for by whoever kept them. The same when they are read."""
INLETS = [*IDENTITY, *ADDRESSES, *PROSE, *PAYLOADS, *RESULTS]

# ---- judging


def wrong_at(inlet, text, told):  # noqa: PLR0911 - a list of kinds
    """Return what is wrong with what became of a text, or None."""
    said = f"{inlet.__name__} with {text[:30]!r}…: {told.refused!r:.200}, {told.acted} acts, found {told.found!r:.300}"
    if told.refused is not None and not isinstance(told.refused, SettlemarkError):
        return f"a raw error at {said}"
    if inlet in IDENTITY:
        wrong = wrong_with(text, IDENTITY[inlet])
        known = told.refused is not None and "half a character" not in str(told.refused)
        if wrong is None:
            # It may name what is not there, which is told in the same way.
            return (
                None
                if told.refused is None or inlet in (keys, rewound_names, approved_keys, seen, tokens)
                else f"a good name refused at {said}"
            )
        unclear = wrong not in str(told.refused) and not (known and not text.strip())
        return f"not refused, or not clearly, or not in time, at {said}" if unclear or told.acted else None
    if inlet in ADDRESSES:
        return None if told.refused is None or isinstance(told.refused, UsageError) else f"a wrong error at {said}"
    if inlet in PAYLOADS:
        if told.refused is None:
            return None if told.same else f"changed at {said}"
        return None if isinstance(told.refused, PayloadError) and not told.acted else f"not refused in time at {said}"
    if told.refused is not None or not told.same:
        return f"refused or changed at {said}"
    legible = prose(str.__getitem__(text, slice(40)))
    return (
        None if inlet in RESULTS or not legible or any(legible in found for found in told.found) else f"lost at {said}"
    )


class Neighbour(threading.Thread):
    """Somebody whose record is to be as if he were alone."""

    def __init__(self, settlement, name, go):
        super().__init__(daemon=True)
        self.settlement, self.mark, self.go = settlement, name, go
        self.acted, self.error = [], None

    def run(self):
        @effect("irreversible", scope=f"good:/{self.mark}", name="send")
        def send(n):
            self.acted.append(n)
            return {"sent": n}

        @effect("reversible", scope=f"room:/{self.mark}", name="book", undo=lambda n: None)
        def book(n):
            self.acted.append(n)
            return {"booked": n}

        self.go.wait()
        try:
            with self.settlement.transaction(self.mark) as tx:
                turn = tx.turn(because=f"it is {self.mark}")
                turn.call(send, 2)
                turn.call(book, 1)
        except Exception as error:
            self.error = error

    def expected(self):
        return (
            self.mark,
            "committed",
            None,
            [
                ("send", "confirmed", '{"sent":2}', None, None, None, f"it is {self.mark}"),
                ("book", "confirmed", '{"booked":1}', None, None, None, f"it is {self.mark}"),
            ],
        )


def as_recorded(found):
    return (
        found.row.name,
        found.state.value,
        found.because,
        [(e.row.tool, e.outcome.value, e.result, e.error, e.tag, e.note, e.row.rationale) for e in found.effects],
    )


def play(settlement, texts, marks):
    """Have each inlet be given its text while 24 others work; return what is wrong."""
    callers = {inlet: Caller(settlement, f"{next(marks)}", text) for inlet, text in texts.items()}
    go = threading.Event()
    neighbours = [Neighbour(settlement, f"good-{next(marks)}", go) for _ in range(NEIGHBOURS)]

    def call(inlet, caller):
        go.wait()
        try:
            inlet(caller)
        except Exception as error:
            caller.told.refused = error

    beside = [threading.Thread(target=call, args=item, daemon=True) for item in callers.items()]
    for thread in (*beside, *neighbours):
        thread.start()
    go.set()
    for thread in (*beside, *neighbours):
        thread.join(PATIENCE)
    alive = [thread for thread in (*beside, *neighbours) if thread.is_alive()]
    records = {found.row.name: as_recorded(found) for found in settlement.transactions()}
    wrong = [f"{len(alive)} hang"] if alive else []
    for neighbour in neighbours:
        if neighbour.error is not None or neighbour.acted != [1, 2]:
            wrong.append(f"{neighbour.mark}: {neighbour.error!r}, did {neighbour.acted}")
        elif records.get(neighbour.mark) != neighbour.expected():
            wrong.append(f"{neighbour.mark} is recorded as {records.get(neighbour.mark)}")
    for inlet, caller in callers.items():
        if inlet in PROSE:
            caller.recorded()
        wrong += [said] if (said := wrong_at(inlet, caller.text, caller.told)) is not None else []
    return wrong


# ---- the texts

BAD = [
    "I will book \ud83d", "\udc80 file", "a NUL \0 within", "\0", "both \ud800\0\udfff", "\x1b[31m red",
    "\u202e turned", "\\ud83d is text", "half {\ud83d}", "é\u0301", "\U0001f600 whole", "line\nline\r\n",
    "\ufffe\uffff", "'; DROP", "%s %(x)s",
]  # fmt: skip # a list of names and values
texts = st.one_of(
    st.sampled_from(BAD),
    st.text(st.characters(codec=None), min_size=1, max_size=40),
    st.text(st.sampled_from("\ud83d\udc00\0a漢"), min_size=1, max_size=30),
    st.builds(
        lambda text, times: text * times, st.sampled_from(["x", "漢", "\ud83d", "\0", "\U0001f600"]), st.just(3_000)
    ),
)
every = st.fixed_dictionaries(dict.fromkeys(INLETS, texts))
once = settings(
    max_examples=examples(4),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)  # a failure names its inlet: there is nothing to shrink


@pytest.mark.every_store
def test_no_text_at_any_inlet_harms_another_and_each_is_refused_in_time_or_stored_legibly(url, open_settlement, caplog):
    caplog.set_level(logging.CRITICAL)
    settlement = open_settlement(url, on_failure="abort")
    host_of(settlement).driver.probing.on_doubt = None
    marks = itertools.count()

    @once
    @given(every)
    @example(dict.fromkeys(INLETS, BAD[0]))
    @example(dict.fromkeys(INLETS, BAD[2]))
    @example({inlet: "x" * 5_000_000 if inlet in PROSE else "漢" * 3_000 for inlet in INLETS})
    @example({inlet: Text("half \ud83d\0") for inlet in INLETS})
    @example({inlet: (str if inlet.__name__.startswith("errors") else Mute)("half \ud83d\0") for inlet in INLETS})
    def holds_for(drawn):
        assert play(settlement, drawn, marks) == []

    holds_for()


# ---- the table of inlets

NOT_GIVEN = {
    "Audit", "Decision", "Why", "Entity", "Lease", "LeaseRow", "Promise.__init__", "Settled",
    "PolicyCall", "PolicyVerdict",
    "Affected", "CurrentCall", "Doubt", "Erased", "Failure", "Gate", "Parked", "Residue", "Rewind", "Opening", "Effect",
    "Declaration", "PlacedCall", "Scope", "ScopeTemplate", "Since", "Hold.__init__", "TurnFace.__init__",
    "Encryption.open", "Encryption.seal", "Learned", "OpenQuestion", "ApprovalRecord", "Vote",
}  # fmt: skip # a table
"""What settlemark hands out and nobody is asked to make, or what is a name of a resource and refuses for itself."""
ADDRESS, ELSEWHERE = "scopes", "does not reach the ledger"
TABLE = {
    "AsyncTransaction.charge(budget)": ELSEWHERE,
    "AsyncTransaction.charge(key)": ELSEWHERE,
    "Approval.__init__(by)": ELSEWHERE,
    "Budget.__init__(agent)": ELSEWHERE,
    "Budget.__init__(name)": ELSEWHERE,
    "Budget.bucket(run)": ELSEWHERE,
    "ReadNames.__init__(names)": ELSEWHERE,
    "ReadNames.__init__(package)": ELSEWHERE,
    "ReadNames.__init__(tested)": ELSEWHERE,
    "ReadNames.__init__(values)": ELSEWHERE,
    "ReadNames.__init__(without)": ELSEWHERE,
    "ReadNames.missing(load)": ELSEWHERE,
    "Settlement.acharge(budget)": ELSEWHERE,
    "Settlement.acharge(key)": ELSEWHERE,
    "Settlement.acharge(run)": ELSEWHERE,
    "Settlement.budgets(budget)": ELSEWHERE,
    "Settlement.charge(budget)": ELSEWHERE,
    "Settlement.charge(key)": ELSEWHERE,
    "Settlement.charge(run)": ELSEWHERE,
    "Settlement.declare(spends)": ELSEWHERE,
    "Settlement.declare(spent)": ELSEWHERE,
    "Transaction.charge(budget)": ELSEWHERE,
    "Transaction.charge(key)": ELSEWHERE,
    "Settlement.declare(expires)": ELSEWHERE,
    "Settlement.declare(then)": ELSEWHERE,
    "effect(expires)": ELSEWHERE,
    "effect(then)": ELSEWHERE,
    "cannot_keep(told)": ELSEWHERE,
    "cannot_keep(what)": ELSEWHERE,
    "effect(spends)": ELSEWHERE,
    "effect(spent)": ELSEWHERE,
    "AsyncTransaction.abort(reason)": reasons,
    "AsyncTransaction.decide(because)": ELSEWHERE,
    "AsyncTransaction.decide(policy)": ELSEWHERE,
    "AsyncTransaction.decide(title)": ELSEWHERE,
    "AsyncTransaction.read(scope)": scopes,
    "AsyncTransaction.staged(scope)": scopes,
    "AsyncTransaction.turn(because)": rationales,
    "Encryption.__init__(dropped)": ELSEWHERE,
    "Encryption.__init__(namespace)": ELSEWHERE,
    "Encryption.__init__(tenant)": ELSEWHERE,
    "Hold.transaction(name)": names,
    "Settlement.__init__(history)": ELSEWHERE,
    "Injected.__init__(ids)": ids,
    "Settlement.__init__(namespace)": namespaces,
    "Settlement.__init__(on_residue)": ELSEWHERE,
    "Settlement.__init__(prevent)": ELSEWHERE,
    "Payloads.__init__(redact)": ELSEWHERE,
    "Payloads.__init__(tenant)": ELSEWHERE,
    "Settlement.__init__(url)": ELSEWHERE,
    "Settlement.aanswer(arguments)": arguments,
    "Settlement.aanswer(because)": answers,
    "Settlement.aanswer(name)": keys,
    "Settlement.aapprove(arguments)": arguments,
    "Settlement.aapprove(by)": approvers,
    "Settlement.aapprove(roles)": approving_roles,
    "Settlement.aapprove(seen)": seen,
    "Settlement.aapprove(which)": approved_keys,
    "Settlement.acancel(run)": cancelled,
    "Settlement.approve(arguments)": arguments,
    "Settlement.approve(by)": approvers,
    "Settlement.approve(roles)": approving_roles,
    "Settlement.approve(seen)": seen,
    "Settlement.approve(which)": approved_keys,
    "Settlement.areject(because)": refusals,
    "Settlement.areject(by)": approvers,
    "Settlement.areject(roles)": approving_roles,
    "Settlement.areject(which)": approved_keys,
    "Settlement.aredeem(arguments)": arguments,
    "Settlement.aredeem(because)": refusals,
    "Settlement.aredeem(token)": tokens,
    "Settlement.redeem(arguments)": arguments,
    "Settlement.redeem(because)": refusals,
    "Settlement.redeem(token)": tokens,
    "Settlement.reject(because)": refusals,
    "Settlement.reject(by)": approvers,
    "Settlement.reject(roles)": approving_roles,
    "Settlement.reject(which)": approved_keys,
    "Settlement.residue(run)": looked_up,
    "Host.resolving(key)": keys,
    "Settlement.show(run)": looked_up,
    "Settlement.show(state)": ELSEWHERE,
    "Settlement.transactions(run)": looked_up,
    "Settlement.transactions(state)": ELSEWHERE,
    "Settlement.aconfirm(key)": keys,
    "Settlement.aconfirm(note)": notes,
    "Settlement.advance(scope)": scopes,
    "Settlement.answer(arguments)": arguments,
    "Settlement.answer(because)": answers,
    "Settlement.answer(name)": keys,
    "Settlement.aresolve(by)": operators,
    "Settlement.aresolve(effect)": keys,
    "Settlement.aresolve(note)": notes,
    "Settlement.arewind(by)": operators,
    "Settlement.arewind(note)": rewound,
    "Settlement.arewind(overwrite)": keys,
    "Settlement.arewind(transactions)": rewound_names,
    "Host.begin(agent)": acting,
    "Host.begin(may_touch)": footprints,
    "Host.begin(name)": names,
    "Host.begin(run)": runs,
    "Settlement.cancel(run)": cancelled,
    "Host.choice(name)": names,
    "Host.choice(run)": runs,
    "Settlement.confirm(key)": keys,
    "Settlement.confirm(note)": notes,
    "Toolbox.of(tool)": tools,
    "Settlement.declare(tool)": tools,
    "Settlement.declared(tool)": ELSEWHERE,
    "Toolbox.effect_of(arguments)": arguments,
    "Toolbox.effect_of(call_id)": call_ids,
    "Toolbox.effect_of(run)": runs,
    "Host.epoch_for(superstep)": ELSEWHERE,
    "Settlement.frontier(scope)": scopes,
    "Settlement.hold(name)": holds,
    "Settlement.hold(scopes)": scopes,
    "Toolbox.know(tool)": ELSEWHERE,
    "Settlement.reinstate(tool)": tools,
    "Toolbox.remade(arguments)": arguments,
    "Toolbox.remade(run)": runs,
    "Settlement.audit(digest)": ELSEWHERE,
    "Settlement.audit(run)": ELSEWHERE,
    "Settlement.verdicts(run)": ELSEWHERE,
    "Settlement.why(key)": ELSEWHERE,
    "Settlement.resolve(by)": operators,
    "Settlement.resolve(effect)": keys,
    "Settlement.resolve(note)": notes,
    "Settlement.revoke(tool)": tools,
    "Settlement.rewind(by)": operators,
    "Settlement.rewind(note)": rewound,
    "Settlement.rewind(overwrite)": keys,
    "Settlement.rewind(transactions)": rewound_names,
    "Host.rewinding(barred)": rewound_names,
    "Host.rewinding(by)": operators,
    "Host.rewinding(note)": rewound,
    "Host.rewinding(overwrite)": keys,
    "Host.rewinding(transactions)": rewound_names,
    "Settlement.run(agent)": acting,
    "Settlement.run(may_touch)": footprints,
    "Settlement.run(name)": names,
    "Settlement.run(prevent)": ELSEWHERE,
    "Settlement.run(run)": runs,
    "Settlement.speculate(agent)": acting,
    "Settlement.speculate(may_touch)": footprints,
    "Settlement.speculate(name)": names,
    "Settlement.speculate(run)": runs,
    "Host.tell_once(text)": ELSEWHERE,
    "Host.tell_once(topic)": ELSEWHERE,
    "Settlement.transaction(agent)": acting,
    "Settlement.transaction(may_touch)": footprints,
    "Settlement.transaction(name)": names,
    "Settlement.transaction(prevent)": ELSEWHERE,
    "Settlement.transaction(run)": runs,
    "Transaction.abort(reason)": reasons,
    "Transaction.read(scope)": scopes,
    "Transaction.staged(scope)": scopes,
    "Transaction.decide(because)": ELSEWHERE,
    "Transaction.decide(policy)": ELSEWHERE,
    "Transaction.decide(title)": ELSEWHERE,
    "Transaction.turn(because)": rationales,
    "effect(aliases)": aliases,
    "effect(commutes)": groups,
    "effect(cost)": costs,
    "effect(may_touch)": footprints,
    "effect(name)": tools,
    "effect(redact)": ELSEWHERE,
    "effect(scope)": scopes,
    "effect(version)": versions,
    "effect(versions)": versions,
    "inverse(fields)": ELSEWHERE,
    "json_logs(level)": ELSEWHERE,
    # what a shim for a framework is made of: it calls what is above
    "AgentRun.__init__(may_touch)": footprints,
    "AgentRun.__init__(run)": runs,
    "AgentRun.forget_doubts(keys)": ELSEWHERE,
    "AgentRun.keep(name)": names,
    "AgentRun.recorded(name)": names,
    "AgentRun.work(agent)": acting,
    "AgentRun.work(name)": names,
    "AgentTurn.turn_down(why)": ELSEWHERE,
    "Call.__init__(arguments)": arguments,
    "Call.__init__(call_id)": call_ids,
    "Call.__init__(given)": arguments,
    "Call.__init__(refused)": ELSEWHERE,
    "Call.__init__(tool)": tools,
    "Declarations.__init__(effects)": tools,
    "Declarations.__init__(example)": ELSEWHERE,
    "Declarations.__init__(names)": ELSEWHERE,
    "Declarations.__init__(owner)": ELSEWHERE,
    "Declarations.learn(arguments)": ELSEWHERE,
    "Declarations.learn(name)": ELSEWHERE,
    "Declarations.of(tool)": tools,
    "Declarations.refuse_typos(names)": ELSEWHERE,
    "Declarations.refuse_typos(owner)": ELSEWHERE,
    "Gathering.__init__(name)": ELSEWHERE,
    "Names.__init__(prefix)": names,
    "Names.has(name)": ELSEWHERE,
    "Names.has_part(name)": ELSEWHERE,
    "Names.number(name)": ELSEWHERE,
    "Names.of(run)": runs,
    "Names.of(work)": names,
    "Names.of_whole(run)": runs,
    "OpenTurn.leave(failed)": ELSEWHERE,
    "keep_answered(answered)": ELSEWHERE,
    "not_taken(arguments)": ELSEWHERE,
    "not_taken(tool)": ELSEWHERE,
    "not_taken(wrong)": ELSEWHERE,
    "open_questions(keys)": ELSEWHERE,
    "open_questions(run)": ELSEWHERE,
    "OpenTurn.perform(arguments)": arguments,
    "OpenTurn.perform(because)": rationales,
    "Said.__init__(message)": ELSEWHERE,
    "Said.__init__(model)": ELSEWHERE,
    "Said.__init__(text)": rationales,
    "Said.__init__(tools)": ELSEWHERE,
    "OpenTurn.perform(given)": arguments,
    "OpenTurn.place(arguments)": arguments,
    "OpenTurn.place(call_id)": call_ids,
    "OpenTurn.place(given)": arguments,
    "Settlement.declare(aliases)": aliases,
    "Settlement.declare(commutes)": groups,
    "Settlement.declare(cost)": costs,
    "Settlement.declare(may_touch)": footprints,
    "Settlement.declare(redact)": ELSEWHERE,
    "Settlement.declare(scope)": scopes,
    "Settlement.declare(version)": versions,
    "Settlement.declare(versions)": versions,
    "Host.choices_left(run)": ELSEWHERE,
    "Host.chosen(record)": ELSEWHERE,
    "Host.of_run(run)": ELSEWHERE,
    "Host.options(agent)": acting,
    "Host.options(may_touch)": footprints,
    "Host.options(name)": names,
    "Host.options(prevent)": ELSEWHERE,
    "Host.options(run)": runs,
    "Host.resolving(by)": operators,
    "Host.resolving(note)": notes,
    "Shared.__init__(what)": ELSEWHERE,
    "Shared.left(name)": ELSEWHERE,
    "Shared.stop(cause)": stops,
    "SteeredRun.step(agent)": acting,
    "SteeredRun.step(may_touch)": ELSEWHERE,
    "SteeredRun.step(name)": ELSEWHERE,
    "Steering.__init__(before)": ELSEWHERE,
    "Steering.__init__(by)": ELSEWHERE,
    "Steering.__init__(keys)": ELSEWHERE,
    "Steering.__init__(rewound)": ELSEWHERE,
    "Steering.__init__(run)": ELSEWHERE,
    "Steering.__init__(scopes)": ELSEWHERE,
    "Steering.__init__(state)": ELSEWHERE,
    "Steering.__init__(text)": ELSEWHERE,
    "Steering.__init__(told)": ELSEWHERE,
    "Pause.__init__(because)": ELSEWHERE,
    "Pause.__init__(before)": ELSEWHERE,
    "Pause.__init__(by)": ELSEWHERE,
    "Pause.__init__(ended_by)": ELSEWHERE,
    "Pause.__init__(owner)": ELSEWHERE,
    "Pause.__init__(run)": ELSEWHERE,
    "Pause.__init__(stands)": ELSEWHERE,
    "Pause.__init__(state)": ELSEWHERE,
    "Settlement.adiscard(by)": ELSEWHERE,
    "Settlement.adiscard(run)": ELSEWHERE,
    "Settlement.ago_on(by)": ELSEWHERE,
    "Settlement.ago_on(run)": ELSEWHERE,
    "Settlement.ahand_over(by)": ELSEWHERE,
    "Settlement.ahand_over(run)": ELSEWHERE,
    "Settlement.ahand_over(to)": ELSEWHERE,
    "Settlement.apause(because)": ELSEWHERE,
    "Settlement.apause(by)": ELSEWHERE,
    "Settlement.apause(run)": ELSEWHERE,
    "Settlement.discard(by)": ELSEWHERE,
    "Settlement.discard(run)": ELSEWHERE,
    "Settlement.go_on(by)": ELSEWHERE,
    "Settlement.go_on(run)": ELSEWHERE,
    "Settlement.hand_over(by)": ELSEWHERE,
    "Settlement.hand_over(run)": ELSEWHERE,
    "Settlement.hand_over(to)": ELSEWHERE,
    "Settlement.pause(because)": ELSEWHERE,
    "Settlement.pause(by)": ELSEWHERE,
    "Settlement.pause(run)": ELSEWHERE,
    "Toolbox.known(tool)": ELSEWHERE,
    "Toolbox.recorded_as(tool)": ELSEWHERE,
    "Toolbox.recorded_as(version)": ELSEWHERE,
    "Toolbox.tell_once(text)": ELSEWHERE,
    "Toolbox.tell_once(topic)": ELSEWHERE,
    "Work.__init__(name)": names,
    "Work.single(answered)": ELSEWHERE,
    "Work.turn(answered)": ELSEWHERE,
    "AsyncTransaction.owe(fulfilled_by)": ELSEWHERE,
    "AsyncTransaction.owe(matching)": ELSEWHERE,
    "AsyncTransaction.owe(scope)": ELSEWHERE,
    "AsyncTransaction.owe(text)": ELSEWHERE,
    "AsyncTransaction.owe(to)": ELSEWHERE,
    "Obligation.__init__(effect)": ELSEWHERE,
    "Obligation.__init__(fulfilled_by)": ELSEWHERE,
    "Obligation.__init__(id)": ELSEWHERE,
    "Obligation.__init__(matching)": ELSEWHERE,
    "Obligation.__init__(note)": ELSEWHERE,
    "Obligation.__init__(run)": ELSEWHERE,
    "Obligation.__init__(scope)": ELSEWHERE,
    "Obligation.__init__(text)": ELSEWHERE,
    "Obligation.__init__(to)": ELSEWHERE,
    "Obligation.__init__(transaction)": ELSEWHERE,
    "Obligation.__init__(waived_by)": ELSEWHERE,
    "Gathering.turn_down(why)": ELSEWHERE,
    "Halt.covers(agents)": ELSEWHERE,
    "Halt.covers(run)": ELSEWHERE,
    "Halt.is_of(agent)": ELSEWHERE,
    "Halt.is_of(run)": ELSEWHERE,
    "Settlement.ahalt(agent)": ELSEWHERE,
    "Settlement.ahalt(because)": ELSEWHERE,
    "Settlement.ahalt(by)": ELSEWHERE,
    "Settlement.ahalt(run)": ELSEWHERE,
    "Settlement.ahalt(scope)": ELSEWHERE,
    "Settlement.halt(agent)": ELSEWHERE,
    "Settlement.halt(because)": ELSEWHERE,
    "Settlement.halt(by)": ELSEWHERE,
    "Settlement.halt(run)": ELSEWHERE,
    "Settlement.halt(scope)": ELSEWHERE,
    "Settlement.asteer(by)": ELSEWHERE,
    "Settlement.asteer(run)": ELSEWHERE,
    "Settlement.asteer(scope)": ELSEWHERE,
    "Settlement.asteer(text)": ELSEWHERE,
    "Settlement.steer(by)": ELSEWHERE,
    "Settlement.steer(run)": ELSEWHERE,
    "Settlement.steer(scope)": ELSEWHERE,
    "Settlement.steer(text)": ELSEWHERE,
    "Settlement.steering(run)": ELSEWHERE,
    "Settlement.steered(run)": ELSEWHERE,
    "Settlement.aresume(by)": ELSEWHERE,
    "Settlement.resume(by)": ELSEWHERE,
    "Settlement.awaive(by)": ELSEWHERE,
    "Settlement.awaive(note)": ELSEWHERE,
    "Settlement.awaive(obligation)": ELSEWHERE,
    "Settlement.aend_lease(because)": ELSEWHERE,
    "Settlement.aend_lease(by)": ELSEWHERE,
    "Settlement.aend_lease(scope)": ELSEWHERE,
    "Settlement.end_lease(because)": ELSEWHERE,
    "Settlement.end_lease(by)": ELSEWHERE,
    "Settlement.end_lease(scope)": ELSEWHERE,
    "Settlement.alease(by)": ELSEWHERE,
    "Settlement.alease(scope)": ELSEWHERE,
    "Settlement.entity(scope)": ELSEWHERE,
    "Settlement.lease(by)": ELSEWHERE,
    "Settlement.lease(scope)": ELSEWHERE,
    "Claim.__init__(key)": ELSEWHERE,
    "Claim.__init__(matching)": ELSEWHERE,
    "Claim.__init__(mentions)": ELSEWHERE,
    "Claim.__init__(scope)": ELSEWHERE,
    "Claim.__init__(text)": ELSEWHERE,
    "Claim.__init__(tool)": ELSEWHERE,
    "Claim.__init__(verb)": ELSEWHERE,
    "ClaimCheck.ahold(run)": ELSEWHERE,
    "ClaimCheck.ahold(text)": ELSEWHERE,
    "ClaimCheck.guard(argument)": ELSEWHERE,
    "ClaimCheck.hold(run)": ELSEWHERE,
    "ClaimCheck.hold(text)": ELSEWHERE,
    "ClaimCheck.outcomes(text)": ELSEWHERE,
    "HeldClaim.__init__(keys)": ELSEWHERE,
    "Settlement.aclaims(run)": ELSEWHERE,
    "Settlement.aclaims(said)": ELSEWHERE,
    "Settlement.claims(run)": ELSEWHERE,
    "Settlement.claims(said)": ELSEWHERE,
    "Primer.__init__(run)": ELSEWHERE,
    "Primers.__init__(run)": ELSEWHERE,
    "Primers.text(agent)": ELSEWHERE,
    "Primer.__init__(text)": ELSEWHERE,
    "Settlement.aprimer(run)": ELSEWHERE,
    "Settlement.primer(run)": ELSEWHERE,
    "Policy.__init__(agent)": ELSEWHERE,
    "Policy.__init__(version)": ELSEWHERE,
    "PolicyRule.__init__(agent)": ELSEWHERE,
    "PolicyRule.__init__(amount)": ELSEWHERE,
    "PolicyRule.__init__(name)": ELSEWHERE,
    "PolicyRule.__init__(run)": ELSEWHERE,
    "PolicyRule.__init__(scope)": ELSEWHERE,
    "PolicyRule.__init__(tool)": ELSEWHERE,
    "PolicyRule.__init__(transaction)": ELSEWHERE,
    "PromiseCheck.ahold(run)": ELSEWHERE,
    "PromiseCheck.ahold(text)": ELSEWHERE,
    "PromiseCheck.aowed_as(promise)": ELSEWHERE,
    "PromiseCheck.astrike(by)": ELSEWHERE,
    "PromiseCheck.astrike(note)": ELSEWHERE,
    "PromiseCheck.astrike(promise)": ELSEWHERE,
    "PromiseCheck.astrike(run)": ELSEWHERE,
    "PromiseCheck.commitments(text)": ELSEWHERE,
    "PromiseCheck.guard(argument)": ELSEWHERE,
    "PromiseCheck.hold(run)": ELSEWHERE,
    "PromiseCheck.hold(text)": ELSEWHERE,
    "PromiseCheck.owed_as(promise)": ELSEWHERE,
    "PromiseCheck.refunds(text)": ELSEWHERE,
    "PromiseCheck.strike(by)": ELSEWHERE,
    "PromiseCheck.strike(note)": ELSEWHERE,
    "PromiseCheck.strike(promise)": ELSEWHERE,
    "PromiseCheck.strike(run)": ELSEWHERE,
    "Settlement.obligations(run)": ELSEWHERE,
    "Settlement.obligations(state)": ELSEWHERE,
    "Settlement.obligations(to)": ELSEWHERE,
    "Settlement.on_due(tool)": ELSEWHERE,
    "Settlement.undo_again(which)": ELSEWHERE,
    "Settlement.undo_again(by)": ELSEWHERE,
    "Settlement.undo_again(note)": ELSEWHERE,
    "Settlement.settle_by_hand(which)": ELSEWHERE,
    "Settlement.settle_by_hand(by)": ELSEWHERE,
    "Settlement.settle_by_hand(note)": ELSEWHERE,
    "Settlement.aundo_again(which)": ELSEWHERE,
    "Settlement.aundo_again(by)": ELSEWHERE,
    "Settlement.aundo_again(note)": ELSEWHERE,
    "Settlement.asettle_by_hand(which)": ELSEWHERE,
    "Settlement.asettle_by_hand(by)": ELSEWHERE,
    "Settlement.asettle_by_hand(note)": ELSEWHERE,
    "Stuck.__init__(run)": ELSEWHERE,
    "Stuck.__init__(transaction)": ELSEWHERE,
    "StuckEffect.__init__(key)": ELSEWHERE,
    "StuckEffect.__init__(note)": ELSEWHERE,
    "StuckEffect.__init__(scopes)": ELSEWHERE,
    "StuckEffect.__init__(tool)": ELSEWHERE,
    "Remedy.__init__(id)": ELSEWHERE,
    "Remedy.__init__(keys)": ELSEWHERE,
    "Remedy.__init__(plan)": ELSEWHERE,
    "Remedy.__init__(told)": ELSEWHERE,
    "Remedy.__init__(why)": ELSEWHERE,
    "Settlement.waive(by)": ELSEWHERE,
    "Settlement.waive(note)": ELSEWHERE,
    "Settlement.waive(obligation)": ELSEWHERE,
    "Transaction.owe(fulfilled_by)": ELSEWHERE,
    "Transaction.owe(matching)": ELSEWHERE,
    "Transaction.owe(scope)": ELSEWHERE,
    "Transaction.owe(text)": ELSEWHERE,
    "Transaction.owe(to)": ELSEWHERE,
    "aowe(fulfilled_by)": ELSEWHERE,
    "aowe(matching)": ELSEWHERE,
    "aowe(scope)": ELSEWHERE,
    "aowe(text)": ELSEWHERE,
    "aowe(to)": ELSEWHERE,
    "owe(fulfilled_by)": ELSEWHERE,
    "owe(matching)": ELSEWHERE,
    "owe(scope)": ELSEWHERE,
    "owe(text)": ELSEWHERE,
    "owe(to)": ELSEWHERE,
    "open_turn(agent)": acting,
    "open_turn(may_touch)": footprints,
    "open_turn(name)": names,
    "open_turn(run)": runs,
    "refuse_bad_options(alone)": ELSEWHERE,
    "refuse_bad_options(among)": ELSEWHERE,
    "refuse_unasked(fix)": ELSEWHERE,
    "refuse_unknown_choice(unsettled)": ELSEWHERE,
    "since_answered(keys)": since,
    "still_open(run)": ELSEWHERE,
    "take_up(name)": ELSEWHERE,
    "too_late(tool)": ELSEWHERE,
    "too_late(transaction)": ELSEWHERE,
    "undo_left(cause)": reasons,
    "undo_left(name)": names,
    "undo_left(run)": runs,
}
"""Every public parameter that takes a text, and the inlet above that shows what becomes of it."""


def public_texts():
    """Yield every parameter with a text in its type, of all that is public."""
    for called, parameter in public_parameters():
        if not {called, called.partition(".")[0]} & NOT_GIVEN and re.search(r"\bstr\b", str(parameter.annotation)):
            yield f"{called}({parameter.name})"


def test_every_public_parameter_that_takes_a_text_is_in_the_table():
    assert sorted(set(public_texts())) == sorted(TABLE)


def test_every_entry_of_the_table_has_an_inlet_that_is_played():
    assert {inlet for inlet in TABLE.values() if inlet != ELSEWHERE} <= set(INLETS)
