"""Records that are written together or not at all: one commit, one entry in the log, one thing to undo."""

from __future__ import annotations

import hashlib
import inspect
import time
import types
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from settlemark import Settlement, current_call
from settlemark.hosting import EffectName, Handler, declaration_of, json_text
from settlemark_adapters._adapter import Adapter, Operation, operation
from settlemark_adapters.records._backend import DAY, Backend
from settlemark_adapters.records._changes import fit_changes, made, scopes_of_changes
from settlemark_adapters.records._commit import Committed
from settlemark_adapters.records._entity import Entity, Place, by_name, checked_id, checked_line
from settlemark_adapters.records._errors import RecordError
from settlemark_adapters.records._projection import View
from settlemark_adapters.records._snapshot import Snapshot
from settlemark_adapters.records._store import Store, again
from settlemark_adapters.records._tool import Bound, RecordOperation, record_tool
from settlemark_adapters.records._tx import Naming, Overlay, Sight, Tx, known


@dataclass
class _Here:
    """The running call of a tool. Attribute `used`: it has made its commit."""

    records: Records
    naming: Naming
    request: str
    used: bool = False


_here: ContextVar[_Here | None] = ContextVar("settlemark_records_here", default=None)


class Records(Adapter):
    """Several records as one commit, over files, a database, objects or git.

    Tools: `commit_records`, `get_record`, `query_records`, `list_commits`; a subclass adds its own with `record_tool`.
    What writes is reversible: its undo is a commit that takes it back, as long as nobody else has written to these
    records since. With `staged=True` it is published when its step settles, and nobody else sees anything before.

    Args:
        backend: where the commits are: `FileBackend`, `SqlBackend`, `ObjectBackend`, `GitBackend`, or one's own.
        settlement: as for every adapter, and so are `name` and `effects`.
        entities: the kinds of records there are, beside those of the class (`ENTITIES`).
        author: who the log names, as `Ada <ada@a.example>`; never told by a model.
        store: what scopes call the store. Everybody who writes to one must call it the same.
        tenant: whose records these are: no tool of it sees or writes another's.
        staged: writing tools are staged.
        clock: seconds since 1970.

    Laws: what one call writes is one commit, with its message, author, paths and key; readers, queries and the log see
    all of it or nothing, after a crash too. A call that comes again under its key returns its first commit.

    >>> from settlemark_adapters.records import SqlBackend
    >>> settlement = Settlement("memory:")
    >>> notes = Records(SqlBackend("sqlite://"), settlement, entities=[Entity("Note", {"text": str})], author="Ada")
    >>> with settlement.transaction("monday") as tx:
    ...     changes = [{"do": "create", "entity": "Note", "fields": {"text": word}} for word in ("one", "two")]
    ...     done = tx.call(notes.commit_records, message="note two things", changes=changes)
    >>> [(entry["message"], entry["author"], len(entry["paths"])) for entry in notes.list_commits()]
    [('note two things', 'Ada', 2)]
    >>> notes.query_records("Note", {"text": "two"}) == [done["records"][1]]
    True
    """

    ENTITIES: ClassVar[tuple[Entity, ...]] = ()

    def __init__(
        self,
        backend: Backend,
        settlement: Settlement | None = None,
        *,
        entities: tuple[Entity, ...] | list[Entity] = (),
        author: str = "settlemark",
        store: str = "records",
        tenant: str = "",
        staged: bool = False,
        clock: Callable[[], float] = time.time,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
    ) -> None:
        self.backend = backend
        self.place = Place(store, tenant)
        self.author = checked_line(author, "author")
        mine = [each for kind in reversed(type(self).__mro__) for each in getattr(kind, "ENTITIES", ())]
        self.entities = by_name([*mine, *entities])
        self._store = Store(backend, self.place, self.entities, clock, self.before_commit)
        self._acts: dict[str, tuple[RecordOperation[Any], dict[str, str]]] = {}
        told: dict[str, Any] = dict(effects or {})
        for tool, found in self.operations().items() if staged else ():
            if isinstance(found, RecordOperation):
                said = told.get(tool, {})
                told[tool] = said if isinstance(said, str) else {"kind": "staged", **said}
        super().__init__(settlement, name=name, effects=told)

    # ---- for programs

    def transaction(
        self, message: str, fn: Callable[[Tx], Any], *, author: str | None = None, key: str | None = None
    ) -> Committed:
        """Run `fn(tx)` and return the outcome: its result, the one commit of all its writes, and those records.

        When `fn` raises, nothing was written. It is called again, on newer records, when its reads have changed before
        its commit; and not at all when there is a commit under its key.

        Args:
            message: why, in one line.
            fn: called with a `Tx`, which has `create`, `update`, `delete`, `get` and `query`; its result is stored as
                JSON.
            author: who, if not the one of these records.
            key: the same for every try of one decision; by default that of the running call.

        Raises:
            BadRecord: what it writes is invalid.
            KeyTaken: the key belongs to another call.
            OutcomeUnknown: the store did not say whether it is committed.
        """
        here = _here.get()
        if here is None or here.records is not self or key is not None:
            here = self._apart(self.key if key is None else key, checked_line(message, "message"))
        if here.used:
            raise RecordError(
                "a call makes one commit, and this one has made its: write all of it in one transaction, or give the"
                " others a key= of their own and a way to undo them",
                key=here.naming.key,
            )
        here.used = True
        try:
            done = self._store.commit(message, author or self.author, fn, naming=here.naming, request=here.request)
        except RecordError:
            here.used = False
            raise
        here.used = done.commit is not None
        return done

    @contextmanager
    def snapshot(self) -> Generator[Snapshot]:
        """Yield all records as they are at the last commit."""
        with self._store.snapshot() as snapshot:
            yield snapshot

    def before_commit(self, tx: Tx) -> None:
        """Refuse, by raising, what must not be committed as a whole; a subclass overrides this, and calls its parent.

        It is called at the state that the commit would follow: `tx.changed`, `tx.look` and `tx.peek` show the result.
        It is called for a commit that takes another one back, too.
        """

    def sweep(self, older_than: float = DAY) -> list[str]:
        """Remove what transactions of dead processes have left, and return the names; no reader could see it."""
        return self.backend.sweep(older_than)

    # ---- tools

    def _of_changes(self, **arguments: Any) -> list[str]:
        bucket = _request("commit_records", arguments)[:8]
        return scopes_of_changes(arguments.get("changes"), self.entities, self.place, bucket)

    def _fit_changes(self, message: str, changes: list[dict[str, Any]]) -> None:
        checked_line(message, "message")
        fit_changes(changes, self.entities)

    def _at(self, entity: str, record_id: str) -> str:
        return self.place.scope(known(self.entities, entity).name, checked_id(record_id, entity))

    def _all_of(self, entity: str) -> str:
        return self.place.scope(known(self.entities, entity).name)

    def _below(self, entity: str, record_id: str) -> str:
        return self._at(entity, record_id) if record_id else self._all_of(entity) if entity else self.place.scope()

    def _version(self, entity: str, record_id: str) -> str | None:
        with self.backend.view() as view:
            row = view.row(self.place.path(entity, record_id))
            return None if row is None else row.commit

    def _versions(self, entity: str, where: dict[str, Any] | None) -> list[list[str]]:
        with self.backend.view() as view:
            return [[row.path, row.commit] for row in view.rows(self.place.space(entity), where or {})]

    @record_tool("commit_records", scope=_of_changes, check=_fit_changes)
    def commit_records(  # noqa: D417 - a model reads this, which passes no tx
        self, tx: Tx, message: str, changes: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Write several records as one commit: all of them, or none.

        Args:
            message: Why, in one line, as the log will show it.
            changes: One object for each record, in order: {"do": "create", "entity": "Task", "fields": {...}}, or "do"
                "update" or "delete" with the record's "id". A new record gets an id of its own unless you give one;
                {"id_of": 0} as the value of a field stands for the id of the record of the first change. Fields that
                are computed are not given.
        """
        tx.message = message
        return {"records": made(tx, changes)}

    @operation("get_record", "read", scope=_at, live=_version)
    def get_record(self, entity: str, record_id: str) -> dict[str, Any] | None:
        """Return one record with its id and fields, or nothing when there is none.

        Args:
            entity: What kind of record it is.
            record_id: Its id.
        """
        with self._store.snapshot(self._with_staged) as snapshot:
            return snapshot.get(entity, record_id)

    @operation("query_records", "read", scope=_all_of, live=_versions)
    def query_records(self, entity: str, where: dict[str, Any] | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Find records of a kind, in the order they were created.

        Args:
            entity: What kind of records.
            where: Values that fields must have, as {"customer_id": "cus_001"}; all records when left out.
            limit: How many at most.
        """
        with self._store.snapshot(self._with_staged) as snapshot:
            return snapshot.query(entity, where, limit)

    @operation("list_commits", "read", scope=_below)
    def list_commits(self, entity: str = "", record_id: str = "", limit: int = 20) -> list[dict[str, Any]]:
        """List what was committed, the newest first: message, author, time, and the paths of the records.

        Args:
            entity: Only what changed records of this kind.
            record_id: Only what changed this record.
            limit: How many at most.
        """
        with self.snapshot() as snapshot:
            return snapshot.log(limit, entity, record_id)

    # ---- for operations made by `record_tool`

    def act(self, tool: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Do a tool's work in a transaction, and return its result with the commit's id."""
        act = self._operation(tool)
        return self.transaction(act.message, lambda tx: act.body(self, tx, *args, **kwargs)).answer

    @contextmanager
    def within(self, tool: str, arguments: Mapping[str, Any]) -> Generator[None]:
        """Run a tool: the transactions of these records within are the call's."""
        outer, key = _here.get(), self.key
        if outer is not None and outer.records is self and outer.naming.key == key:
            yield  # a user's function has called the tool that it is declared as: one call
            return
        declaration = declaration_of(self.tool(tool))
        covered = () if declaration is None else declaration.scopes(arguments)
        request = _request(tool, arguments)
        token = _here.set(_Here(self, Naming(key, request[:8], covered), request))
        try:
            yield
        finally:
            _here.reset(token)

    def check(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Refuse a call before it is recorded: by its arguments, or, if it is to be staged, by trying it out.

        Raises:
            KeyTaken: its key belongs to another call: two ledgers give the same names here.
            RecordError: the tool's own error.
        """
        act, call = self._operation(tool), current_call()
        given = _complete(act, arguments)
        if act.refuses is not None and given is not None:
            refuses = Handler(getattr(self, act.refuses.__name__), "check")
            refuses.function(**refuses.bind(given, result=None, key=""))
        declaration = declaration_of(self.tool(tool))
        held = declaration is not None and declaration.held and given is not None
        if call is None:
            return
        with self.backend.view() as view:
            earlier = view.of_key(call.key)
            if earlier is not None:
                again(view, earlier, _request(tool, arguments))
            elif held:
                self.before_commit(self._tried(act, arguments, call.key, self._with_staged(view)))

    def scopes_of(
        self, tool: str, arguments: Mapping[str, Any], creates: tuple[str, ...], touches: Mapping[str, Any]
    ) -> list[str]:
        """Return a call's scopes: for what it creates, everything with its part of an id; and the records it names."""
        bucket = _request(tool, arguments)[:8]
        found = [self.place.scope(known(self.entities, entity).name, bucket) for entity in creates]
        for entity, named in touches.items():
            if named == "*":
                found.append(self.place.scope(known(self.entities, entity).name))
                continue
            for name in (named,) if isinstance(named, str) else named:
                given: Any = arguments.get(name)
                found += [self._at(entity, one) for one in _several(given)]
        return found or [self.place.scope()]

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the result of the call under a key; None without a commit of it that still stands."""
        return self._store.find(key)

    def take_back(self, key: str) -> None:
        """Take back the commit under a key, by a commit that restores the previous records; once, even if repeated.

        Raises:
            Changed: another writer has written to one of its records since: nothing is taken back.
        """
        self._store.take_back(key, self.author)

    # ---- making

    def _made(self, known: Operation[Any, Any], function: Any, name: str, renamed: Mapping[str, str]) -> Any:
        if isinstance(known, RecordOperation):
            self._acts[name] = (known, {own: other for other, own in renamed.items()})
        return super()._made(known, function, name, renamed)

    def _bound(self, part: Any) -> Any:
        if isinstance(part, Bound):
            return types.MethodType(part.function, self)
        return super()._bound(part)

    def _operation(self, tool: str) -> RecordOperation[Any]:
        found = self.operations()[tool]
        assert isinstance(found, RecordOperation)
        return found

    def _apart(self, key: str, message: str) -> _Here:
        """Return a stand-in for a call where no tool of these records is running."""
        naming = Naming(key, hashlib.sha256(key.encode()).hexdigest()[:8])
        return _Here(self, naming, json_text.fingerprint(message))

    def _with_staged(self, view: View) -> Sight:
        sight: Sight = view
        call = current_call()
        for request in () if call is None else call.staged(self.place.scope()):
            if request.tool in self._acts and call is not None and request.key != call.key:
                act, back = self._acts[request.tool]
                arguments = {back.get(name, name): value for name, value in request.items()}
                if _complete(act, arguments) is not None:
                    sight = Overlay(sight, self._tried(act, arguments, request.key, sight).contents)
        return sight

    def _tried(self, act: RecordOperation[Any], arguments: Mapping[str, Any], key: str, sight: Sight) -> Tx:
        """Return what a call would write, without writing it."""
        naming = Naming(key, _request(act.tool, arguments)[:8])
        tx = self._store.begin(act.message, self.author, sight, naming)
        act.body(self, tx, **arguments)
        return tx


def _complete(act: RecordOperation[Any], arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return all arguments of a tool; None when a user's function, declared as it, takes fewer."""
    _, *parameters = inspect.signature(act.method).parameters.values()
    given = {each.name: arguments.get(each.name, each.default) for each in parameters}
    return None if inspect.Parameter.empty in given.values() else given


def _several(given: Any) -> list[str]:
    if given is None:
        return []
    return cast("list[str]", given) if isinstance(given, list) else [given]


def _request(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a digest of a call, independent of its caller."""
    return json_text.fingerprint(json_text.encode([tool, dict(arguments)]))


__all__ = ["Records"]
