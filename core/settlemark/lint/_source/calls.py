"""What a call does: its library, the resource it addresses and writes, and the key it sends."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from typing import Protocol

from settlemark.lint._source.bindings import Bindings, Function, parameters
from settlemark.lint._source.facts import Address, Facts, SentKey, Way, Written
from settlemark.lint._source.sql import Statement
from settlemark.lint._source.values import Hole, Value, constant, joined, mixed
from settlemark.lint._source.words import Act, parts_of, verb_of, word_set

_CHANCE = {
    "uuid.uuid1": "uuid",
    "uuid.uuid4": "uuid",
    "uuid.uuid6": "uuid",
    "uuid.uuid7": "uuid",
    "os.urandom": "random",
    "email.utils.make_msgid": "random",
    "builtins.hash": "random",
    "builtins.id": "random",
    "time.time": "clock",
    "time.time_ns": "clock",
    "time.monotonic": "clock",
    "time.monotonic_ns": "clock",
    "time.perf_counter": "clock",
    "time.strftime": "clock",
    "time.localtime": "clock",
    "time.gmtime": "clock",
}
_BY_LAST_NAME = {
    "uuid4": "uuid",
    "uuid1": "uuid",
    "uuid7": "uuid",
    "ulid": "uuid",
    "nanoid": "uuid",
    "cuid": "uuid",
    "token_hex": "random",
    "token_urlsafe": "random",
    "utcnow": "clock",
    "make_msgid": "random",
}
_KEYS = re.compile(
    r"^(x-)?(idempot\w*-?(key|token|id)|idempotency|dedup\w*-?(key|id|token)|messagededuplicationid"
    r"|client-?(token|request-?id)|clientrequesttoken)$"
)
_MESSAGE_ID = frozenset({"message-id", "messageid"})
_SORTS = frozenset({"sorted", "min", "max", "sort", "groupby", "nlargest", "nsmallest"})
_REACHES_OUT = word_set(
    "os shutil subprocess socket smtplib ftplib imaplib poplib telnetlib nntplib urllib http sqlite3 ssl"
    " io tempfile dbm shelve"
    " xmlrpc socketserver multiprocessing webbrowser mailbox fileinput pty signal ctypes select selectors"
)
_PURE = (frozenset(sys.stdlib_module_names) - _REACHES_OUT) | word_set(
    "builtins settlemark langchain_core pydantic pydantic_ai numpy pandas yaml jinja2 dateutil"
)
_PURE_NAMES = ("os.path.", "os.environ", "os.getenv", "os.fspath", "os.getpid", "urllib.parse.", "email.", "os.sep")
_LOGS = word_set("log logs logger logging console print tracer span metrics")
_BOOKKEEPING = _LOGS | word_set("cache seen calls history trace stats counter memo counts events warm")
_HTTP = word_set("get post put patch delete head request urlopen options stream")
_HTTP_ROOTS = word_set("requests request httpx aiohttp urllib urllib3 http session client api rest")
_FILE_WRITES = word_set("write_text write_bytes unlink mkdir rename replace touch rmdir symlink_to chmod")
_FILE_READS = word_set("read_text read_bytes exists iterdir stat glob is_file is_dir")
_OS_WRITES = word_set(
    "os.remove os.unlink os.rename os.replace os.makedirs os.mkdir os.rmdir os.truncate os.chmod os.symlink shutil.copy"
    " shutil.copy2 shutil.copyfile shutil.copytree shutil.move shutil.rmtree"
)
_OS_READS = word_set("os.listdir os.stat os.scandir os.walk")
_SQL = word_set(
    "execute executemany executescript exec_driver_sql fetch fetchrow fetchval fetch_all fetch_one query scalar scalars"
    " read_sql"
)
_CHANGES = word_set(
    "append add remove discard pop popitem update clear insert extend setdefault appendleft popleft subtract"
)
_SENDS = word_set("send_message sendmail put_object delete_object publish send_email commit flush")
_GENERIC = word_set(
    "request call invoke ainvoke run execute act do perform query get post put patch delete open write"
    " read commit close"
    " flush connect cursor begin acquire release format join items keys values encode decode info debug warning error"
    " exception json send recv submit result wait start stop set add update"
)
_AMBIGUOUS = word_set("tell mark order open start apply move alert merge copy close schedule import")
_KEEPS_TEXT = word_set("strip lstrip rstrip lower upper removeprefix removesuffix as_posix resolve absolute")
_STR = (
    frozenset(dir(str)) | frozenset(dir(dict)) | frozenset(dir(list)) | frozenset({"hexdigest", "isoformat", "digest"})
)
_MODEL = re.compile(r"(^|[._])(llm|model|chat|completions?|gpt|claude|openai|anthropic)($|[._(])", re.IGNORECASE)


class Reading(Protocol):
    """A function being read: the current values of its names, and the findings."""

    bindings: Bindings
    facts: Facts
    env: dict[str, Value]

    def value(self, node: ast.expr) -> Value:
        """Return the value of an expression."""
        ...

    def enter(self, function: Function, given: dict[str, Value]) -> Value:
        """Read a function of the same module with its arguments, and return its result's value."""
        ...


class Calls:
    """Examines the calls, items and headers of one function, and records what they do."""

    def __init__(self, reader: Reading) -> None:
        self.reader = reader
        self.facts = reader.facts

    def is_own_key(self, node: ast.Attribute) -> bool:
        """Whether this is an adapter's `self.key`, the key of the running call."""
        if node.attr != "key" or not isinstance(node.value, ast.Name) or node.value.id != "self":
            return False
        return self.reader.bindings.function(node) is None

    def call(self, node: ast.Call) -> Value:
        """Record what a call does, and return its result's value."""
        reader, bindings = self.reader, self.reader.bindings
        qualified = bindings.qualified(node.func)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if last == "current_call":
            self.facts.asks_key = True
            return Value(origins=frozenset({"key"}))
        given, named = self._given(node)
        if last not in _SORTS:
            for name, value in named.items():
                self.key(name, value, node)
        everything = [*given, *named.values()]
        chance = _chance(qualified, last)
        if chance is not None:
            return Value(origins=frozenset({chance}))
        function = bindings.function(node.func)
        local = isinstance(node.func, ast.Name) and node.func.id in reader.env
        if function is not None and not local:
            return reader.enter(function, _bound(function, given, named, method=isinstance(node.func, ast.Attribute)))
        self.facts.used |= {name for value in everything for name in value.arguments}
        owner = reader.value(node.func.value) if isinstance(node.func, ast.Attribute) else Value()
        if self._text_of(qualified, last, owner, given) is not None:
            return self._text_of(qualified, last, owner, given) or Value()
        if self._is_file(node, qualified, last, owner, given):
            return Value(root="open()", origins=frozenset(o for v in (owner, *given[:1]) for o in v.origins))
        return self._object(node, qualified, last, owner, given, named)

    def _given(self, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
        given = [self.reader.value(each) for each in node.args]
        named = {each.arg or "**": self.reader.value(each.value) for each in node.keywords}
        return given, named

    # ---- plain data

    def _text_of(  # noqa: PLR0911 - a table of what makes a text of texts
        self, qualified: str, last: str, owner: Value, given: list[Value]
    ) -> Value | None:
        """Return the text that a call makes of texts; None if it does something else."""
        first = given[0] if given else Value()
        if qualified in {"pathlib.Path", "pathlib.PurePath"}:
            found = joined(*given, between="/")
            return Value(found.pieces, found.origins, path=True)
        if qualified in {"os.path.join", "urllib.parse.urljoin"}:
            return joined(*given, between="/")
        if qualified in {"builtins.str", "urllib.parse.quote", "builtins.int", "os.fspath", "sqlalchemy.text"}:
            return first
        if owner.root and not owner.path:
            return None
        if last in _KEEPS_TEXT and (owner.pieces or owner.path):
            return owner
        if last == "format" and owner.constant is not None:
            return joined(owner, *given)
        if owner.constant is not None and not owner.path:
            return mixed(*given).plain()  # whatever else a text's method makes, it does nothing outside
        if last in {"joinpath", "with_name", "with_suffix"} and owner.path:
            found = joined(owner, *given, between="/")
            return Value(found.pieces, found.origins, path=True)
        return None

    # ---- files

    def _is_file(self, node: ast.Call, qualified: str, last: str, owner: Value, given: list[Value]) -> bool:
        way: Way | None = None
        places: list[Value] = []
        if qualified in {"builtins.open", "io.open", "aiofiles.open"} or (last == "open" and owner.path):
            mode = self._mode(node, given[:1] if owner.path else given[1:2])
            way, places = ("write" if set(mode) & set("wax+") else "read"), [owner if owner.path else given[0]]
        elif qualified in _OS_WRITES | _OS_READS:
            way = "write" if qualified in _OS_WRITES else "read"
            places = given[:2] if way == "write" else given[:1]
        elif owner.path and last in _FILE_WRITES | _FILE_READS:
            way = "write" if last in _FILE_WRITES else "read"
            places = [owner, *(given[:1] if last in {"rename", "replace"} else [])]
        if way is None or not places:
            return False
        shown = ast.unparse(node)
        if way == "write":
            self.facts.written.append(Written(shown, "hard", node))
        self._outside(node)
        for place in places:
            holes = [piece for piece in place.pieces if isinstance(piece, Hole)]
            resource = ("file", "any") if holes and place.pieces == (holes[0],) else ("file", place.text)
            self.facts.addresses.append(Address("file", resource, place.arguments, way, node, shown))
        return True

    def _mode(self, node: ast.Call, given: list[Value]) -> str:
        named = next((self.reader.value(each.value) for each in node.keywords if each.arg == "mode"), None)
        found = named if named is not None else (given[0] if given else constant("r"))
        return found.constant or "r"

    # ---- objects of the world

    def _object(
        self, node: ast.Call, qualified: str, last: str, owner: Value, given: list[Value], named: Mapping[str, Value]
    ) -> Value:
        root = qualified or (f"{owner.root}.{last}" if owner.root else "")
        origins = frozenset(o for value in (owner, *given, *named.values()) for o in value.origins)
        if owner.container:
            return self._in_memory(node, last, owner, given)
        if qualified.startswith("builtins.") or _is_pure(root):
            return Value(origins=origins)
        if _LOGS & set(parts_of(root)):
            return Value()
        if not root and isinstance(node.func, ast.Attribute):
            if last in _STR:
                return Value(origins=origins)  # plain data
            root = f"?.{last}"
        elif not root:
            self.facts.uncertain = True
            self._outside(node)
            return Value(root=f"{last}()", origins=origins)
        if root.startswith("self.") and root.count(".") == 1:
            self.facts.uncertain = True  # a method of a base class
        self._outside(node)
        statement = next((found for each in given[:1] if last in _SQL and (found := Statement.read(each))), None)
        if statement is not None:
            self._sql(node, statement, given, named)
        elif not self._is_http(node, root, last, given, named):
            self._is_method(node, root, last, given)
        if _MODEL.search(root) and last in {
            "invoke",
            "ainvoke",
            "create",
            "complete",
            "generate",
            "predict",
            "run",
            "chat",
        }:
            origins |= {"model"}
        if qualified and "." in root and not isinstance(node.func, ast.Attribute) and root[0] == ".":
            self.facts.uncertain = True
        return Value(root=f"{root}()", origins=origins)

    def _outside(self, node: ast.Call) -> None:
        if self.facts.outside is None:
            self.facts.outside = node

    def _in_memory(self, node: ast.Call, last: str, owner: Value, given: list[Value]) -> Value:
        first = given[0] if given else Value()
        if last in _CHANGES and owner.root and not _is_bookkeeping(owner.root):
            self.facts.written.append(Written(ast.unparse(node), "memory", node))
            whole = last in {"pop", "remove", "discard"}
            way: Way = "write" if whole else "create"
            names = first.arguments if whole or last == "add" else ()
            self.facts.addresses.append(
                Address("object", ("object", owner.root), names, way, node, ast.unparse(node), whole)
            )
        elif last == "get" and owner.root and first.arguments:
            self._note_item(node, owner, first, "read")
        return Value(origins=frozenset(o for value in (owner, *given) for o in value.origins))

    def item(self, node: ast.Subscript, owner: Value, index: Value, *, writes: bool) -> None:
        """Record that an item of a list, dict or table in this process is read or written."""
        if not owner.root or index.constant is not None or _is_bookkeeping(owner.root):
            return
        if owner.container or index.arguments:
            if writes:
                self.facts.written.append(Written(ast.unparse(node), "memory", node))
            self._note_item(node, owner, index, "write" if writes else "read")

    def _note_item(self, node: ast.AST, owner: Value, index: Value, way: Way) -> None:
        self.facts.addresses.append(
            Address("object", ("object", owner.root), index.arguments, way, node, ast.unparse(node))
        )

    def attribute(self, node: ast.Attribute, owner: Value) -> None:
        """Record that an attribute of an outside object is set."""
        self.facts.written.append(Written(ast.unparse(node), "memory", node))
        del owner

    def _sql(self, node: ast.Call, statement: Statement, given: list[Value], named: Mapping[str, Value]) -> None:
        shown = statement.shown
        if statement.way != "read":
            self.facts.written.append(Written(shown, "hard", node))
        chosen = node.args[1:2]
        values = [self.reader.value(each) for each in getattr(chosen[0], "elts", node.args[1:])] if chosen else []
        by_name: dict[str, Value] = dict(named)
        if chosen and isinstance(chosen[0], ast.Dict):
            pairs = zip(chosen[0].keys, chosen[0].values, strict=True)
            by_name |= {str(k.value): self.reader.value(v) for k, v in pairs if isinstance(k, ast.Constant)}
        if any("key" in value.origins for value in (*values, *by_name.values())):
            return  # an entry under the call's own key belongs to the call
        names = statement.addressed(values, by_name)
        for table in statement.tables:
            self.facts.addresses.append(Address("table", ("table", table), names, statement.way, node, shown))
        del given

    def _is_http(self, node: ast.Call, root: str, last: str, given: list[Value], named: Mapping[str, Value]) -> bool:
        if last not in _HTTP:
            return False
        asked = named.get("method")
        at = int(last in {"request", "stream"} and asked is None and (len(given) > 1 or "url" in named))
        asked = given[0] if at and given else asked
        method = last if asked is None else (asked.constant or "get").lower()
        url = named.get("url", given[at] if len(given) > at else Value())
        owner = root.rpartition(".")[0]
        words = set(parts_of(owner.rpartition(".")[2]))
        if not (words & _HTTP_ROOTS or "/" in "".join(p for p in url.pieces if isinstance(p, str))):
            return False
        way: Way = "read" if method in {"get", "head", "options", "urlopen", "stream"} else "write"
        if way == "write":
            way = "create" if method == "post" else "write"
            self.facts.written.append(Written(ast.unparse(node), "post" if method == "post" else "hard", node))
        path = url.url_path
        whole = bool(url.pieces)
        resource = ("url", *path) if path else ("url", "any" if url.arguments else url.text)
        self.facts.addresses.append(
            Address("url", resource, url.arguments, way, node, url.text or ast.unparse(node), whole)
        )
        return True

    def _is_method(self, node: ast.Call, root: str, last: str, given: list[Value]) -> None:
        verb = verb_of(last)
        acts = verb is not None and verb[1] is not Act.READ and last not in _GENERIC | _AMBIGUOUS
        if last in _SENDS or acts:
            self.facts.written.append(Written(ast.unparse(node), "hard" if last in _SENDS else "soft", node))
        owner = root.rpartition(".")[0]
        if isinstance(node.func, ast.Name) or owner == "self":
            return  # a function, or a method of its own class: no outside object
        told = [value.constant for value in given if value.constant is not None]
        nobody_knows = any(value.constant is None and not value.arguments for value in given)
        if nobody_knows or not owner or set("(?") & set(owner) or (last in _GENERIC and not told):
            return
        resource = ("object", owner, *told) if told else ("object", root)
        self.facts.addresses.append(
            Address("object", resource, (), "write" if acts else "read", node, ast.unparse(node), whole=False)
        )

    # ---- keys

    def header(self, name: Value, value: Value, node: ast.AST) -> None:
        """Record a mapping's entry that may be a header."""
        if name.constant is not None:
            self.key(name.constant, value, node)

    def key(self, name: str, value: Value, node: ast.AST) -> None:
        """Record a value that is sent as a key, when its name says so."""
        plain = name.lower().replace("_", "-")
        sure = _KEYS.match(plain) is not None
        if sure or plain in _MESSAGE_ID or plain == "key":
            self.facts.keys.append(SentKey(name, value, node, sure))


def _chance(qualified: str, last: str) -> str | None:
    if qualified in _CHANCE:
        return _CHANCE[qualified]
    if qualified.startswith(("random.", "secrets.", "numpy.random.")):
        return "random"
    if qualified.startswith("datetime.") and last in {"now", "utcnow", "today"}:
        return "clock"
    return _BY_LAST_NAME.get(last) if qualified != f"builtins.{last}" else None


def _is_pure(root: str) -> bool:
    return root.partition(".")[0] in _PURE or root.startswith(_PURE_NAMES)


def _is_bookkeeping(root: str) -> bool:
    return bool(_BOOKKEEPING & set(parts_of(root)))


def _bound(function: Function, given: list[Value], named: Mapping[str, Value], *, method: bool) -> dict[str, Value]:
    names = [each.arg for each in parameters(function)]
    if method and names[:1] in (["self"], ["cls"]):
        names = names[1:]
    return {**dict(zip(names, given, strict=False)), **named}


__all__ = ["Calls"]
