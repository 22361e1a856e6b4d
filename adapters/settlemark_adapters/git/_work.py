"""The hidden refs: a transaction's work is a chain of commits, one a decision, that lands, or fails and is kept.

`refs/settlemark/work/<branch>/<transaction>` is the chain while its transaction is open; then it moves to `landed` or
`failed`. Each commit's trailers name its decision, transaction and cost. `git log` and `git branch` show none of it;
the objects are the repository's own, so a snapshot costs only what was touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, cast
from urllib.parse import quote, unquote

from settlemark_adapters.git._faults import GitFault
from settlemark_adapters.git._repository import Repository

ROOT = "refs/settlemark"
DAY = 86_400.0
MARKS = ("sent", "done", "refused")
_NONE = "none"
_LONGEST = 150
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%")
_PARTS = ("Decision", "Transaction", "Base", "Cost")
_FORMAT = "%x1f".join(
    (
        "%H",
        "%P",
        "%ct",
        *(f"%(trailers:key=Settlemark-{part},valueonly,separator=%x1e)" for part in _PARTS),
        "%an",
        "%s",
    )
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

Place = Literal["work", "landed", "failed", "landing"]
Edit = Callable[[str], str]
"""Makes a tree from a tree."""


@dataclass(frozen=True, slots=True)
class Step:
    """One commit of a chain, with its decisions and their cost."""

    commit: str
    parents: Sequence[str]
    at: int
    author: str
    subject: str
    decisions: Sequence[str]
    transaction: str
    base: str | None
    cost: dict[str, Any]


def quoted(text: str) -> str:
    """Return a text as one part of a ref's name.

    >>> quoted("fix-12/a b#1")
    'fix-12%2Fa%20b#1'
    """
    name = quote(text, safe="#=+!,").replace(".", "%2E").replace("~", "%7E")
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}%{sha256(text.encode()).hexdigest()[:32]}"


def trailers(**told: str | None) -> str:
    """Return the last paragraph of a message, which can be queried."""
    lines = (f"Settlemark-{part.capitalize()}: {value}" for part, value in told.items() if value is not None)
    return "\n".join(lines)


def message(text: str, last: str) -> str:
    """Return a commit's message, whose own last paragraph never counts as trailers."""
    return f"{_CONTROL.sub(' ', text).strip() or 'no message'}\n\n{last}\n"


def named(key: str) -> str:
    """Return a key as a trailer has it: on one line."""
    return quote(key, safe=_PLAIN)


def total(costs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several decisions cost together: their numbers, added up.

    >>> total([{"usd": 0.5, "tokens": 10, "model": "m"}, {"usd": 1.5}])
    {'usd': 2.0, 'tokens': 10}
    """
    found: dict[str, Any] = {}
    for cost in costs:
        for name, value in cost.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[name] = found.get(name, 0) + value
    return found


class Work:
    """The chains of one repository for one branch.

    Args:
        repository: their repository.
        branch: where they land.
    """

    def __init__(self, repository: Repository, branch: str) -> None:
        self.repository = repository
        self.branch = branch
        self.landing_ref = f"refs/heads/{branch}"

    def at(self, place: Place, name: str) -> str:
        """Return the ref of a transaction's chain."""
        return f"{ROOT}/{place}/{quoted(self.branch)}/{quoted(name)}"

    def head(self) -> str | None:
        """Return the branch's commit, or None: nothing was ever committed to it."""
        return self.repository.ref(self.landing_ref)

    def tip(self, name: str) -> str | None:
        """Return the last commit of a transaction that has not landed yet, or None."""
        return self.repository.ref(self.at("work", name))

    # ---- the chain

    def chain(self, tip: str | None) -> list[Step]:
        """Return the commits of a chain, the last one first."""
        if tip is None:
            return []
        (last,) = self.log(tip, "-n1")
        beginning = [] if last.base is None else [f"^{last.base}"]
        return self.log(tip, "--first-parent", *beginning)

    def log(self, revision: str, *options: str) -> list[Step]:
        """Return commits, the last one first, with what they say of decisions."""
        told = self.repository.git("log", "-z", f"--format={_FORMAT}", *options, revision, "--")
        return [_step(line) for line in told.decode(errors="replace").split("\0") if line]

    def found(self, name: str, key: str, *places: Place) -> Step | None:
        """Return the first commit of a decision in a transaction's chain, or None."""
        for place in places:
            steps = self.chain(self.repository.ref(self.at(place, name)))
            mine = [step for step in steps if named(key) in step.decisions]
            if mine:
                return mine[-1]
        return None

    def record(self, name: str, key: str, edit: Edit, text: str, cost: Mapping[str, Any] | None) -> str:
        """Add a decision to a transaction's chain, and return its commit; an existing one stays.

        What has landed on the branch meanwhile is merged in first, if without conflict.
        """
        before = self.found(name, key, "work")
        if before is not None:
            return before.commit
        made: list[str] = []

        def add(tip: str | None) -> str:
            head = self.head()
            base = head if tip is None else self.log(tip, "-n1")[0].base
            parent = self._caught_up(name, tip, head, base) or head
            tree = edit(self.repository.tree_of(parent))
            last = trailers(
                decision=named(key),
                transaction=named(name),
                base=base or _NONE,
                cost=None if cost is None else json.dumps(cost, sort_keys=True),
            )
            parents = [] if parent is None else [parent]
            made.append(self.repository.commit(tree, parents, message(text, last)))
            return made[-1]

        self.repository.swap(self.at("work", name), add, why=f"settlemark: {named(key)}")
        return made[-1]

    def put_aside(self, name: str, tip: str | None) -> None:
        """Keep another ledger's work under this name as failed, and forget that it landed."""
        landed = self.at("landed", name)
        if self.repository.ref(landed) is not None:
            self.repository.change_refs(f"delete {landed}")
        if tip is not None:
            self._fail(name, tip)
            self.repository.change_refs(f"delete {self.at('work', name)} {tip}")

    def _fail(self, name: str, tip: str) -> None:
        if not self.repository.move(self.at("failed", name), tip, None, why=f"settlemark: {name} failed"):
            self.repository.change_refs(f"update {self.at('failed', f'{name}@{tip[:8]}')} {tip}")

    def join(self, name: str, key: str, commit: str) -> str:
        """Continue a transaction's chain with a commit that was made elsewhere."""

        def joined(tip: str | None) -> str:
            if tip is None or self.repository.is_ancestor(tip, commit):
                return commit
            tree, conflicts = self.repository.merged(tip, commit)
            if tree is None:
                raise GitFault(
                    f"the work tree and what {name} has written beside it change the same lines of"
                    f" {', '.join(conflicts)}: nothing was committed; make them agree first",
                    paths=conflicts,
                )
            last = trailers(decision=named(key), transaction=named(name), base=self.log(tip, "-n1")[0].base or _NONE)
            return self.repository.commit(tree, [tip, commit], message(f"Merge the work tree into {name}", last))

        found = self.repository.swap(self.at("work", name), joined, why=f"settlemark: {named(key)}")
        return cast("str", found)

    def _caught_up(self, name: str, tip: str | None, head: str | None, base: str | None) -> str | None:
        if tip is None or head is None or self.repository.is_ancestor(head, tip):
            return tip
        tree, _ = self.repository.merged(tip, head)
        if tree is None:
            return tip  # its landing will report the conflict, and name the files
        last = trailers(transaction=named(name), base=base or _NONE)
        return self.repository.commit(tree, [tip, head], message(f"Merge {self.branch} into {name}", last))

    def drop(self, name: str, key: str) -> bool:
        """Remove a decision from the end of a chain that has not landed, and keep it as failed; False if absent."""
        tip = self.tip(name)
        steps = self.chain(tip)
        places = [number for number, step in enumerate(steps) if named(key) in step.decisions]
        if tip is None or not places:
            return False
        if any(step.decisions for step in steps[: places[0]]):
            raise GitFault(
                f"later work of {name} stands on this commit: undo that first", commit=steps[places[0]].commit
            )
        if self.repository.ref(self.at("failed", name)) is None:  # else the whole chain is there: others went before
            self._fail(name, tip)
        rest = steps[places[-1] + 1 :]
        if any(step.decisions for step in rest):
            self.repository.change_refs(f"update {self.at('work', name)} {rest[0].commit} {tip}")
        else:
            self.repository.change_refs(f"delete {self.at('work', name)} {tip}")
        return True

    # ---- what is kept, and for how long

    def kept(self) -> list[dict[str, Any]]:
        """Return the work of failed transactions that is still kept: its ref, how many decisions, its cost."""
        found: list[dict[str, Any]] = []
        for ref, tip in self.repository.refs(f"{ROOT}/failed/{quoted(self.branch)}").items():
            steps = self.chain(tip)
            costs = total([step.cost for step in steps])
            decisions = sum(len(step.decisions) for step in steps)
            found.append(
                {"transaction": unquote(steps[0].transaction), "ref": ref, "commit": tip, "decisions": decisions}
                | {"cost": costs, "at": steps[0].at}
            )
        return sorted(found, key=lambda each: (each["at"], each["ref"]))

    def expire(self, before: float) -> int:
        """Remove failed and landed chains, and marks, that are older than this; return how many."""
        told = self.repository.git("for-each-ref", "--format=%(refname) %(creatordate:unix)", ROOT).decode()
        gone = re.compile(f"{ROOT}/(failed|landed|{'|'.join(MARKS)})/")
        lines = (line.rsplit(" ", 1) for line in told.splitlines())
        old = [f"delete {ref}" for ref, at in lines if gone.match(ref) and float(at or 0) < before]
        if old:
            self.repository.change_refs(*old)
        return len(old)

    def trees(self) -> list[str]:
        """Return the names of the work trees that are open, or were left."""
        return [unquote(ref.rsplit("/", 1)[1]) for ref in self.repository.refs(f"{ROOT}/trees/{quoted(self.branch)}")]

    def squash(self, keep: int) -> int:
        """Squash all but the last `keep` decisions of each failed chain; return how many chains changed."""
        count = 0
        for ref, tip in self.repository.refs(f"{ROOT}/failed/{quoted(self.branch)}").items():
            steps = self.chain(tip)
            if len(steps) > keep + 1:
                count += self.repository.move(ref, self._squashed(steps, keep), tip, why="settlemark: compact")
        return count

    def _squashed(self, steps: Sequence[Step], keep: int) -> str:
        fine, coarse = steps[:keep], steps[keep:]
        base = coarse[-1].base
        decisions = [decision for step in reversed(coarse) for decision in step.decisions]
        last = "\n".join(
            [
                *(trailers(decision=decision) for decision in decisions),
                trailers(
                    transaction=coarse[0].transaction,
                    base=base or _NONE,
                    cost=json.dumps(total([step.cost for step in coarse]), sort_keys=True),
                ),
            ]
        )
        text = message(f"{len(coarse)} commits as one", last)
        made = self._remade(coarse[0], [] if base is None else [base], text)
        for step in reversed(fine):
            told = self.repository.git("log", "-n1", "--format=%B", step.commit, "--").decode(errors="replace")
            made = self._remade(step, [made], told)
        return made

    def _remade(self, step: Step, parents: Sequence[str], text: str) -> str:
        dates = {f"GIT_{role}_DATE": f"{step.at} +0000" for role in ("AUTHOR", "COMMITTER")}
        return self.repository.commit(self.repository.tree_of(step.commit), parents, text, variables=dates)


def _step(line: str) -> Step:
    # Texts by others come last, and may have anything in them.
    commit, parents, at, decisions, transaction, base, cost, author, subject = line.strip("\n").split("\x1f", 8)
    return Step(
        commit,
        parents.split(),
        int(at),
        author,
        subject,
        [part for part in decisions.split("\x1e") if part],
        transaction.split("\x1e")[0],
        None if base in ("", _NONE) else base.split("\x1e")[0],
        _cost(cost),
    )


def _cost(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:  # a commit by another author
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


__all__ = ["DAY", "ROOT", "Edit", "Step", "Work", "message", "named", "quoted", "total", "trailers"]
