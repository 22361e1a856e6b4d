"""Whatever becomes of policies and answers, what leaves is allowed, or has a yes, under the policy in force."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from settlemark import Policy, PolicyRule, Refused, Settlement, UsageError, effect

CLASSES = {"wire": "irreversible", "letter": "irreversible", "note": "staged", "room": "reversible"}
TABLES = st.fixed_dictionaries(dict.fromkeys(CLASSES, st.sampled_from([*["allow", "ask"] * 8, "deny"])))
CALLS = st.lists(st.sampled_from(sorted(CLASSES)), min_size=3, max_size=4, unique=True)
GATED = st.sets(st.sampled_from(["wire", "letter"]))


class Desk(RuleBasedStateMachine):
    """One transaction of some calls; policies come and go, people answer, and the process begins anew."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.left = Counter()
        self.wrong = []
        self.said = {}  # by tool, the versions of the policies under which a person has said yes
        self.versions = 0

    @initialize(calls=CALLS, gated=GATED, park=st.sampled_from(["keep", "split"]), table=TABLES)
    def begin(self, calls, gated, park, table):
        self.calls, self.gated, self.park = calls, gated, park
        self.tools = {
            tool: effect(
                kind,
                name=tool,
                scope=f"{tool}:/{{to}}",
                undo=(lambda to: self.left.subtract(["room"])) if kind == "reversible" else None,
                approve=True if tool in gated else None,
            )(self.acting(tool))
            for tool, kind in CLASSES.items()
        }
        self.open(table)
        self.enter()

    def acting(self, tool):
        def act(to):
            verdict, yes = self.table[tool], self.said.get(tool, set())
            if verdict == "deny" or (verdict == "ask" and self.version not in yes) or (tool in self.gated and not yes):
                self.wrong.append((tool, verdict, self.version, yes))
            self.left.update([tool])
            return to

        return act

    def policy(self, table):
        self.versions += 1
        self.table, self.version = table, f"v{self.versions}"
        return Policy(self.version, [PolicyRule(tool, verdict, tool=tool) for tool, verdict in table.items()])

    def open(self, table):
        self.settlement = Settlement(f"sqlite:///{Path(self.folder.name) / 'ledger.db'}", policy=self.policy(table))

    def enter(self):
        with suppress(Refused, UsageError), self.settlement.transaction("eod/1", park=self.park) as tx:
            for tool in self.calls:
                tx.call(self.tools[tool], to="ada")

    @rule()
    def the_name_is_entered_again(self):
        self.enter()

    @rule(table=TABLES)
    def another_policy_comes_into_force(self, table):
        self.settlement.enforce(self.policy(table))

    @rule(table=TABLES)
    def another_process_takes_over(self, table):
        self.settlement.close()
        self.open(table)

    @rule()
    def the_process_recovers(self):
        self.settlement.recover()

    @rule(which=st.integers(0, 3), arguments=st.sampled_from([None, None, {"to": "bo"}]))
    def somebody_says_yes(self, which, arguments):
        waiting = self.settlement.approvals()
        if waiting:
            asked = waiting[which % len(waiting)]
            self.yes([asked.tool], lambda: self.settlement.approve(asked.key, by="cy", arguments=arguments))

    @rule()
    def somebody_says_yes_to_all_of_it(self):
        waiting = self.settlement.approvals()
        if waiting:
            name = waiting[0].transaction
            asked = [one.tool for one in waiting if one.transaction == name]
            self.yes(asked, lambda: self.settlement.answer(name, approve=True))

    @rule(which=st.integers(0, 3))
    def somebody_says_no(self, which):
        waiting = self.settlement.approvals()
        if waiting:
            with suppress(Refused, UsageError):
                self.settlement.reject(waiting[which % len(waiting)].key, by="cy", because="no")

    def yes(self, tools, say):
        """Have somebody say yes, and once more where the policy in force has it asked about again."""
        for _ in range(2):
            for tool in tools:
                self.said.setdefault(tool, set()).add(self.version)
            try:
                say()
            except (Refused, UsageError) as error:
                if "asked about again" in str(error):
                    for tool in (tool for tool, verdict in self.table.items() if verdict == "ask"):
                        self.said.get(tool, set()).discard(self.version)
                    continue
            return

    @invariant()
    def nothing_has_left_that_was_not_to_leave(self):
        assert self.wrong == []
        assert all(count in (0, 1) for count in self.left.values())

    def teardown(self):
        if hasattr(self, "settlement"):
            self.settlement.close()
        self.folder.cleanup()


TestAnyCourse = Desk.TestCase
TestAnyCourse.settings = settings(stateful_step_count=8)
