"""The door for shims and adapters: what they need of core beside the public names of `settlemark`.

A shim stands on `settlemark.agents`; this module is for what is particular to a framework. `integrations/` and
`adapters/` import nothing else of core's rooms, which a contract checks.

- *Programs and their runners*: `Program` is a generator that yields requests (`Act`, `Wait`); `run_sync` carries one
  out in a thread, `run_async` in an event loop, `end_async` also when the task is being cancelled; `in_thread`,
  `in_event_loop`, `running_loop`, `Patience`, `uninterrupted`, `to_its_end`; `Once`.
- *Parts of a transaction*: `Turn` (an order that several turns keep), `Part`, `Attempt`; `inside_of(call)` is where in
  them a tool runs.
- *A person's answer*: `Approver`, `approval_of`, `approve`, `edit`, `reject`; `Park`. How a person is told: a `Channel`
  brings a `Notice`, whose `Occasion` says why; a `LinkChannel` brings one-time links.
- *A tool's own result*: `with_answer` is recorded where a framework answers with something else; `answer_in`, `own_of`.
- *Candidates*: `Choice`, `MARK`, `decisions_on`.
- *A settlement's workings*: `host_of(settlement)` is its `Host`: the `ledger`, the `tools` (a `Toolbox`), and programs
  that begin transactions and choices. The engine itself (`driver`) is core's alone, which a test checks.
- *Steering*: `hear` comes to a boundary of a run.
- *Declarations*: `declare`, `bear`, `declaration_of`, `declared_as`, `Handler`, `EffectName`, `HELD_CLASSES`, `escape`.
- *Words*: `in_words`, `kind_of`, `message_of` return an exception's text, whatever its own code does; `json_text`
  writes payloads; `discreet` and `shown` show a URL without its password.
- *A file that others use*: `patiently` tries again what needs SQLite's lock.

>>> from settlemark.hosting import escape, in_words
>>> in_words(ValueError("no room")), escape("a/b")
('ValueError: no room', 'a%2Fb')
"""

from __future__ import annotations

from settlemark._acts.current import Staged
from settlemark._acts.gate import Approver, approval_of, approve, edit, reject
from settlemark._acts.once import Once
from settlemark._acts.own_result import answer_in, own_of, with_answer
from settlemark._acts.perform import Program
from settlemark._acts.requests import Act, Wait
from settlemark._api.host import Host
from settlemark._api.per_settlement import OfSettlement
from settlemark._api.settlement import host_of
from settlemark._api.steered.hearing import hear
from settlemark._api.toolbox import Toolbox
from settlemark._approvals.channel import Channel, LinkChannel, Notice, Occasion
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Inside, Part, inside_of
from settlemark._attempt.turn import Turn
from settlemark._edges.extras import missing
from settlemark._edges.plain import joined
from settlemark._edges.private import make_private
from settlemark._edges.user_code import ended, outcome_of
from settlemark._edges.wording import in_words, kind_of, message_of
from settlemark._lifecycle.parking import Park
from settlemark._model import json_text
from settlemark._model.declaration import Handler
from settlemark._model.declare import bear, declaration_of, declare, declared_as
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import HELD_CLASSES, EffectName
from settlemark._model.guards import Order
from settlemark._model.identity import step_in
from settlemark._model.scope import escape
from settlemark._observe.logs import quote_of
from settlemark._protocol.holdings import Ticket, fire
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason
from settlemark._report.sentences import account, residue_values
from settlemark._runtime.aio import Patience, end_async, run_async, to_its_end, uninterrupted
from settlemark._runtime.call_context import in_event_loop, running_loop
from settlemark._runtime.choice import MARK, Choice, decisions_on
from settlemark._runtime.driver import Driver
from settlemark._runtime.sync import run_sync
from settlemark._runtime.threads import in_thread
from settlemark.ledger._sql.clocks import CLOCKS
from settlemark.ledger._sql.patience import patiently
from settlemark.ledger._urls import discreet, shown

__all__ = [
    "CLOCKS",
    "HELD_CLASSES",
    "MARK",
    "Act",
    "Approver",
    "Attempt",
    "Channel",
    "Choice",
    "Disposition",
    "Driver",
    "EffectName",
    "Handler",
    "Host",
    "Inside",
    "LinkChannel",
    "Notice",
    "Occasion",
    "OfSettlement",
    "Once",
    "Order",
    "Park",
    "Part",
    "Patience",
    "Program",
    "Protocol",
    "Reason",
    "Staged",
    "Ticket",
    "Toolbox",
    "Turn",
    "Wait",
    "account",
    "answer_in",
    "approval_of",
    "approve",
    "bear",
    "decisions_on",
    "declaration_of",
    "declare",
    "declared_as",
    "discreet",
    "edit",
    "end_async",
    "ended",
    "escape",
    "fire",
    "hear",
    "host_of",
    "in_event_loop",
    "in_thread",
    "in_words",
    "inside_of",
    "joined",
    "json_text",
    "kind_of",
    "make_private",
    "message_of",
    "missing",
    "outcome_of",
    "own_of",
    "patiently",
    "quote_of",
    "reject",
    "residue_values",
    "run_async",
    "run_sync",
    "running_loop",
    "shown",
    "step_in",
    "to_its_end",
    "uninterrupted",
    "with_answer",
]
