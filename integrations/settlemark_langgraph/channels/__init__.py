"""Channel contracts for a graph's state: annotate a key with one, and what two nodes write is not lost.

```python
class State(TypedDict):
    todos: Annotated[list[dict], reducers.merge_by_key("id")]
    balance: Annotated[int, reducers.add]
    plan: Annotated[reducers.Versioned, reducers.latest_by_version]
    verdict: Annotated[reducers.Owned, reducers.SingleWriter]
```

Each promises a channel contract, nothing lost (its docstring says precisely what), and no isolation level: a
node may still decide on what another node is replacing in the same step. Only `latest_by_version` stops writes
made from a superseded read.

What holds for all of them:

- Writes of a step are folded in LangGraph's task-path order (nodes by name, then `Send`s by position), never in the
  order in which nodes finish. So the same writes give the same state, in every run.
- They never change their arguments, and what they make is plain JSON wherever what was written is.
- None is "nothing written".
- The same reducer in two schemas is one channel; another one is refused by LangGraph when the graph is built.
- `Overwrite(value)` replaces what is there and bypasses the contract.
- Annotate with a plain type, `list[dict]` and not `list[dict] | None`: LangGraph stores the first write of a type
  that it cannot call without asking the reducer.
- A subgraph hands back all the keys it shares with its parent, changed or not. `dedupe_by_id`, `SingleWriter` and
  `latest_by_version` take that for no write; `append` and `add` count it again, and `keep_last` and `merge_by_key`
  put it over what a sibling wrote earlier in write order: give the subgraph an `output_schema` without the key.
"""

from __future__ import annotations

from settlemark_langgraph.channels._conflicts import (
    Conflict,
    WriteConflict,
    conflicts,
    propose,
    resolve,
    sign,
    value_of,
)
from settlemark_langgraph.channels._folds import add, append, dedupe_by_id, keep_last, merge_by_key
from settlemark_langgraph.channels._signing import signed
from settlemark_langgraph.channels._single_writer import Owned, SingleWriter
from settlemark_langgraph.channels._versions import Versioned, latest_by_version

__all__ = [
    "Conflict",
    "Owned",
    "SingleWriter",
    "Versioned",
    "WriteConflict",
    "add",
    "append",
    "conflicts",
    "dedupe_by_id",
    "keep_last",
    "latest_by_version",
    "merge_by_key",
    "propose",
    "resolve",
    "sign",
    "signed",
    "value_of",
]
