"""Declaring what a tool does: `@effect` on its function, `declare` for a tool of others, `inverse` for its undo."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, ForwardRef, Literal, TypedDict, TypeVar, Unpack, cast

from settlemark._approvals.terms import ANYONE, Approval
from settlemark._edges.errors import DeclarationError, UsageError
from settlemark._edges.text import NAMESPACE, TOOL, VERSION, brief, identity, prose
from settlemark._edges.user_code import is_lazy_function
from settlemark._model.budget import Amount, amount_of
from settlemark._model.declaration import EXTRAS, Declaration, Handler, Price, Registry
from settlemark._model.effect_class import EffectClass, EffectName
from settlemark._model.fields import field_path
from settlemark._model.scope import Scope, ScopeTemplate

_F = TypeVar("_F", bound=Callable[..., Any])
_ATTRIBUTE = "__settlemark_declaration__"
_declared = Registry()


def inverse(function: Callable[..., Any], **fields: str) -> Callable[..., Any]:
    """Return a handler that calls `function` with fields of the effect's result as its arguments.

    Each keyword names an argument of `function` and the field of the result (a mapping) that fills it:

    >>> def cancel(id): return f"cancelled {id}"
    >>> inverse(cancel, id="confirmation")(result={"confirmation": "R7"})
    'cancelled R7'

    Raises:
        DeclarationError: `function` cannot be called.
    """
    if not callable(function):
        raise DeclarationError(
            f"inverse() was given a {type(function).__name__}, which cannot be called: pass the function that it wraps",
            tool=str(getattr(function, "name", function)),
        )

    def handler(*, result: Mapping[str, Any]) -> Any:
        return function(**{argument: result[name] for argument, name in fields.items()})

    async def async_handler(*, result: Mapping[str, Any]) -> Any:
        return await function(**{argument: result[name] for argument, name in fields.items()})

    chosen = async_handler if inspect.iscoroutinefunction(function) else handler
    chosen.__name__ = chosen.__qualname__ = getattr(function, "__name__", "inverse")
    chosen.__module__ = getattr(function, "__module__", __name__)
    return chosen


_FORMS = {"approve": "True, a function, or an Approval"}


def _handler(role: str, function: Callable[..., Any] | None, tool: str, names: frozenset[str] | None) -> Handler | None:
    if function is None:
        return None
    if not callable(function):
        raise DeclarationError(f"{role}= of {tool} is {function!r}: pass {_FORMS.get(role, 'a function')}", tool=tool)
    if role != "scope":  # a scope= generator may yield several scopes
        _refuse_lazy(f"{role}= of {tool}", function, tool)
    name = prose(f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}", 1_000)
    handler = Handler(function, name)
    _check_callable_by_name(role, handler, tool)
    missing = [] if names is None else [n for n in handler.required() if n not in names]
    if missing:
        raise DeclarationError(
            f"{role}={name} of {tool} asks for {', '.join(map(repr, missing))}, which {tool} does not take:"
            " name one of its arguments, `result` or `key`, or map a field of the result with inverse()",
            tool=tool,
        )
    return handler


def _refuse_lazy(what: str, function: Callable[..., Any], tool: str) -> None:
    if is_lazy_function(function):
        raise DeclarationError(
            f"{what} is a generator, so calling it does nothing: do the work in the function, and return its result",
            tool=tool,
        )


def _check_callable_by_name(role: str, handler: Handler, tool: str) -> None:
    try:
        parameters = inspect.signature(handler.function).parameters.values()
    except (ValueError, TypeError):  # some builtins have no signature
        raise DeclarationError(
            f"{role}={handler.name} of {tool} has no readable signature: wrap it in a function", tool=tool
        ) from None
    unnamed = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]
    if unnamed:
        raise DeclarationError(
            f"{role}={handler.name} of {tool} takes {', '.join(map(repr, unnamed))} by position only:"
            " handlers are called by name: wrap it in a function",
            tool=tool,
        )


class Parts(TypedDict, total=False):
    """What a declaration can say beside its tool and its class: see `effect` for what each part means."""

    scope: str | Callable[..., str | Scope | Iterable[str | Scope]] | None
    undo: Callable[..., Any] | None
    probe: Callable[..., Any] | None
    release: Callable[..., Any] | None
    check: Callable[..., Any] | None
    cost: str | None
    keyed: bool | None
    may_touch: tuple[str, ...] | str
    refine: Callable[..., Any] | None
    version: str
    unknown: Iterable[type[BaseException]] | type[BaseException]
    window: float | None
    aliases: tuple[str, ...] | str
    commutes: str | None
    versions: tuple[str, ...] | str
    live: Callable[..., Any] | None
    valid_for: float | None
    approve: bool | Callable[..., Any] | Approval
    redact: tuple[str, ...] | str
    spends: Mapping[str, Amount | Callable[..., Any]] | None
    spent: Mapping[str, Amount | Callable[..., Any]] | None
    expires: str | Callable[..., Any] | None
    then: str | Callable[..., Any] | None


_DEFAULTS: Mapping[str, Any] = dict.fromkeys(Parts.__annotations__) | {
    "may_touch": (),
    "version": "1",
    "unknown": (),
    "aliases": (),
    "versions": (),
    "approve": False,
    "redact": (),
}


def spells_out_parts(function: _F) -> _F:
    """Make `help()` of a function that takes the parts as `**parts` show each of them."""
    shown = inspect.signature(function)
    own = [each for each in shown.parameters.values() if each.kind is not each.VAR_KEYWORD]
    parts = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=_written(kind))
        for name, kind in Parts.__annotations__.items()
    ]
    function.__signature__ = shown.replace(parameters=[*own, *parts])  # type: ignore[attr-defined]
    return function


def _written(kind: object) -> str:
    return kind.__forward_arg__ if isinstance(kind, ForwardRef) else str(kind)


@spells_out_parts
def declare(
    tool: str,
    kind: EffectName | EffectClass,
    *,
    function: Callable[..., Any] | None = None,
    **parts: Unpack[Parts],
) -> Declaration:
    """Return a checked declaration; see `effect` for what each argument means.

    Raises:
        DeclarationError: the class is unknown, or the parts contradict each other.
        ScopeError: a template is malformed.
    """
    try:
        chosen = EffectClass(kind)
    except ValueError:
        classes = ", ".join(EffectClass)
        raise DeclarationError(f"{tool} is declared {kind!r}: choose one of {classes}", tool=tool) from None
    tool = identity(tool, "a tool's name", TOOL, error=DeclarationError, tool=brief(tool))
    _refuse_strange(parts, tool)
    version, aliases, versions = parts.get("version", "1"), _texts(parts, "aliases"), _texts(parts, "versions")
    for part, texts in (("version", (version,)), ("aliases", aliases), ("versions", versions)):
        for text in texts:
            most = TOOL if part == "aliases" else VERSION
            identity(text, f"{part}= of {tool}", most, error=DeclarationError, tool=tool)
    if function is not None:
        _refuse_lazy(tool, function, tool)
    names = _argument_names(function)
    broad = tuple(ScopeTemplate.parse(text) for text in _texts(parts, "may_touch"))
    keyed, cost, approve = parts.get("keyed"), parts.get("cost"), parts.get("approve", False)
    if keyed is not None and not isinstance(cast("object", keyed), bool):
        raise DeclarationError(f"keyed= of {tool} is {brief(keyed)}: say True or False", tool=tool)
    declaration = Declaration(
        tool=tool,
        kind=chosen,
        scope=_addressed(parts.get("scope"), tool, names),
        undo=_handler("undo", parts.get("undo"), tool, names),
        probe=_handler("probe", parts.get("probe"), tool, names),
        release=_handler("release", parts.get("release"), tool, names),
        check=_before("check", parts.get("check"), tool, names),
        cost=None if cost is None else prose(cost),
        keyed=chosen is EffectClass.IDEMPOTENT if keyed is None else keyed,
        may_touch=broad,
        refine=_refiner(parts.get("refine"), tool),
        version=version,
        unknown=_kinds(parts.get("unknown", ()), tool),
        window=parts.get("window"),
        aliases=aliases,
        commutes=_group(parts.get("commutes"), tool),
        versions=versions,
        live=_handler("live", parts.get("live"), tool, names),
        valid_for=parts.get("valid_for"),
        approve=_approval(approve, tool, names),
        approval=approve if isinstance(approve, Approval) else ANYONE,
        redact=_texts(parts, "redact"),
        spends=_prices("spends", parts.get("spends"), tool, names),
        spent=_prices("spent", parts.get("spent"), tool, names),
        expires=_expiry(parts.get("expires"), tool, names),
        then=_follower(parts.get("then"), tool),
        function=function,
    )
    _check(declaration, names)
    return declaration


def _texts(parts: Parts, name: Literal["may_touch", "aliases", "versions", "redact"]) -> tuple[str, ...]:
    given = parts.get(name, ())
    return (given,) if isinstance(given, str) else tuple(given)


def _kinds(given: object, tool: str) -> tuple[type[BaseException], ...]:
    """Return the exceptions after which nobody knows the outcome: one type, or several.

    Raises:
        DeclarationError: one is none. Else a call that has acted would find that out, in place of being in doubt.
    """
    said = brief(given)
    several = tuple(cast("Iterable[object]", given)) if isinstance(given, Iterable) else (given,)
    kinds = tuple(kind for kind in several if isinstance(kind, type) and issubclass(kind, BaseException))
    if len(kinds) < len(several):
        raise DeclarationError(
            f"unknown= of {tool} is {said}, and not all of it are types of exceptions: name them, as in"
            " unknown=(ReadTimeout,)",
            tool=tool,
        )
    return kinds


def _refiner(refine: Callable[..., Any] | None, tool: str) -> Callable[..., Any] | None:
    if refine is None:
        return None
    is_function = callable(cast("object", refine))
    if not is_function or inspect.iscoroutinefunction(refine):
        how = "async, but runs where nothing can be awaited" if is_function else brief(refine)
        raise DeclarationError(f"refine= of {tool} is {how}: pass a function of the result", tool=tool)
    return refine


def _prices(
    role: str, given: Mapping[str, Any] | None, tool: str, names: frozenset[str] | None
) -> tuple[tuple[str, Price], ...]:
    """Return what a call spends by unit: `{argument}`, an amount, or a function.

    Raises:
        DeclarationError: one of them is neither.
    """
    found: list[tuple[str, Price]] = []
    for unit, price in (given or {}).items():
        what = f"{role}= of {tool}"
        unit = identity(unit, f"a unit in {what}", NAMESPACE, error=DeclarationError, tool=tool)  # noqa: PLW2901 - as it is compared
        if callable(price):
            make = _before if role == "spends" else _handler
            found.append((unit, Price("", function=make(role, price, tool, names))))
        elif isinstance(price, str) and price.startswith("{") and price.endswith("}"):
            first = price[1:-1].split(".")[0]
            known = names is None or first in names or (role == "spent" and first == "result")
            if not first or not known:
                raise DeclarationError(f"{what} uses {price}, and {tool} does not take {first!r}", tool=tool)
            found.append((unit, Price(price)))
        else:
            try:
                found.append((unit, Price(str(price), amount=amount_of(price, f"{unit} in {what}"))))
            except UsageError as error:
                raise DeclarationError(f"{error}; or name an argument, as in '{{amount}}'", tool=tool) from None
    return tuple(found)


def _expiry(given: str | Callable[..., Any] | None, tool: str, names: frozenset[str] | None) -> Price | None:
    """Return where the time is found at which something lapses: in an argument, the result, or by a function."""
    if given is None:
        return None
    if callable(given):
        return Price("", function=_handler("expires", given, tool, names))
    if not isinstance(cast("object", given), str) or not given.startswith("{") or not given.endswith("}"):
        raise DeclarationError(
            f"expires={given!r} of {tool} names no time: name a field of the result, as in '{{result.hold_until}}'",
            tool=tool,
        )
    first = given[1:-1].split(".")[0]
    if first != "result" and names is not None and first not in names:
        raise DeclarationError(f"expires= of {tool} uses {given}, and {tool} does not take {first!r}", tool=tool)
    return Price(given)


def _follower(then: str | Callable[..., Any] | None, tool: str) -> str | None:
    """Return the name of the tool that is due when something has lapsed."""
    if then is None:
        return None
    if not callable(then):
        return identity(then, f"then= of {tool}", TOOL, error=DeclarationError, tool=tool)
    found = declaration_of(then)
    if found is None:
        raise DeclarationError(f"then= of {tool} has no declaration: put @effect on it, above {tool}", tool=tool)
    if found.kind is EffectClass.READ:
        raise DeclarationError(f"then= of {tool} is {found.tool}, a read, which gives nothing back", tool=tool)
    return found.tool


def taken_by(declaration: Declaration) -> frozenset[str] | None:
    """Return the names of the arguments that a tool takes; None: any, or nobody knows."""
    return _argument_names(declaration.function)


def _group(commutes: str | None, tool: str) -> str | None:
    if commutes is None:
        return None
    if not isinstance(cast("object", commutes), str) or not commutes:
        raise DeclarationError(
            f"commutes={commutes!r} of {tool} names no group: name the one that its effects share with those they"
            ' commute with, as in commutes="add"',
            tool=tool,
        )
    return identity(commutes, f"commutes= of {tool}", VERSION, error=DeclarationError, tool=tool)


def _refuse_strange(parts: Parts, tool: str) -> None:
    """Refuse an unknown keyword, as Python does where the keywords are spelled out."""
    for name in parts.keys() - Parts.__annotations__.keys():
        like = get_close_matches(name, Parts.__annotations__, 1)
        meant = f"; did you mean {like[0]}=?" if like else f": its parts are {', '.join(Parts.__annotations__)}"
        raise DeclarationError(f"{tool} is declared with {name}=, which no declaration has{meant}", tool=tool)


def _approval(
    approve: bool | Callable[..., Any] | Approval, tool: str, names: frozenset[str] | None
) -> Handler | Literal[True] | None:
    if isinstance(approve, Approval):
        approve = True if approve.when is None else approve.when
    if isinstance(approve, bool):
        return True if approve else None
    return _before("approve", approve, tool, names)


def _addressed(
    scope: str | Callable[..., Any] | None, tool: str, names: frozenset[str] | None
) -> ScopeTemplate | Handler | None:
    if scope is None:
        return None
    if not callable(scope):
        return ScopeTemplate.parse(scope)
    if inspect.iscoroutinefunction(scope):
        raise DeclarationError(
            f"scope= of {tool} is async, but runs where nothing can be awaited: name the scopes from the arguments"
            " alone, and look at the world in check=",
            tool=tool,
        )
    return _before("scope", scope, tool, names)


def _before(role: str, function: Callable[..., Any] | None, tool: str, names: frozenset[str] | None) -> Handler | None:
    handler = _handler(role, function, tool, names)
    early = [name for name in sorted(EXTRAS) if handler is not None and handler.takes(name)]
    if early and not set(early) <= (names or frozenset()):
        raise DeclarationError(
            f"{role}= of {tool} runs before the call, and cannot ask for {', '.join(map(repr, early))}: name"
            f" arguments of {tool}",
            tool=tool,
        )
    return handler


def _argument_names(function: Callable[..., Any] | None) -> frozenset[str] | None:
    if function is None:
        return None
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


def _check(declaration: Declaration, names: frozenset[str] | None) -> None:
    kind, tool = declaration.kind, declaration.tool
    if declaration.scope is None and not declaration.may_touch and kind not in (EffectClass.READ, EffectClass.OPAQUE):
        raise DeclarationError(
            f'{tool} is {kind} but names no scope: say which resource it acts on, as in scope="mail:/{{to}}"',
            tool=tool,
        )
    if kind is EffectClass.REVERSIBLE and declaration.undo is None:
        raise DeclarationError(
            f"{tool} is reversible but has no undo: give undo=, or declare it irreversible so that it is held",
            tool=tool,
        )
    if declaration.undo is not None and kind not in (EffectClass.REVERSIBLE, EffectClass.IDEMPOTENT):
        raise DeclarationError(
            f"{tool} is {kind}, which is never undone: drop undo=, or declare it reversible", tool=tool
        )
    if declaration.release is not None and not declaration.held:
        raise DeclarationError(f"{tool} is {kind}, which is never held: drop release=", tool=tool)
    if declaration.cost is not None and kind is not EffectClass.REVERSIBLE:
        raise DeclarationError(f"{tool} is {kind}: cost= says what undoing a reversible effect leaves", tool=tool)
    if declaration.window is not None and not _is_duration(declaration.window):
        raise DeclarationError(
            f"window={declaration.window!r} of {tool}: give the seconds for which the counterparty remembers a key,"
            " or leave it out if keys are never forgotten",
            tool=tool,
        )
    if declaration.approve is not None and kind in (EffectClass.READ, EffectClass.STAGED):
        why = "there is nothing to approve" if kind is EffectClass.READ else "it is its step's own until that settles"
        raise DeclarationError(
            f"{tool} is {kind}, so {why}: drop approve=, or declare it irreversible so that it waits for a yes",
            tool=tool,
        )
    _check_prices(declaration)
    _check_lapse(declaration)
    _check_commuting(declaration)
    _check_freshness(declaration)
    for field_named in declaration.redact:
        field_path(field_named)
    for template in declaration.templates:
        unknown = [name for name in template.fields if names is not None and name.split(".")[0] not in names]
        if unknown:
            raise DeclarationError(
                f"the scope of {tool} uses {', '.join(map(repr, unknown))}, which it does not take:"
                f" its arguments are {', '.join(sorted(names or ()))}",
                tool=tool,
            )


def _check_prices(declaration: Declaration) -> None:
    tool = declaration.tool
    if declaration.spends and declaration.kind is EffectClass.READ:
        raise DeclarationError(
            f"{tool} is a read, which records nothing before it runs: drop spends=, and charge what it costs with"
            " tx.charge(…)",
            tool=tool,
        )
    more = sorted(dict(declaration.spent).keys() - dict(declaration.spends).keys())
    if more:
        raise DeclarationError(
            f"spent= of {tool} tells of {', '.join(more)}, which spends= does not: say in spends= what to reserve",
            tool=tool,
        )


def _check_lapse(declaration: Declaration) -> None:
    tool = declaration.tool
    if (declaration.expires is None) != (declaration.then is None):
        missing, other = ("then", "expires") if declaration.then is None else ("expires", "then")
        raise DeclarationError(
            f"{tool} has {other}= and no {missing}=: say both, when it lapses and which tool is due then", tool=tool
        )
    if declaration.expires is not None and declaration.kind is EffectClass.READ:
        raise DeclarationError(
            f"{tool} is a read, which leaves nothing that could lapse: drop expires= and then=, or declare what it"
            " does",
            tool=tool,
        )


def _check_commuting(declaration: Declaration) -> None:
    """Let only effects commute that can be taken back, or kept back, while others of their group stand."""
    kind, tool = declaration.kind, declaration.tool
    if declaration.commutes is None:
        return
    why = _NEVER_COMMUTES.get(kind)
    if why is not None:
        raise DeclarationError(f"{tool} is {kind}: {why}", tool=tool)
    if declaration.cost is not None:
        raise DeclarationError(
            f"{tool} leaves a cost when it is undone, so it waits for every older holder of its scope and commutes with"
            " nothing: drop commutes=, or cost=",
            tool=tool,
        )
    if declaration.may_touch or declaration.refine is not None:
        raise DeclarationError(
            f"{tool} commutes on one exact scope: name that in scope=, and drop may_touch= and refine=", tool=tool
        )


_NEVER_COMMUTES = {
    EffectClass.READ: "reads wait for no other read as it is; drop commutes=",
    EffectClass.IDEMPOTENT: "an abort cannot take it back cleanly, so it commutes with nothing: drop commutes=, or"
    " declare it reversible with undo= and keyed=True",
    EffectClass.IRREVERSIBLE: "what cannot be taken back leaves in one order with everything on its scope: drop"
    " commutes=, or declare it staged if it may leave in any order",
    EffectClass.OPAQUE: "nothing is known of what it does, so it commutes with nothing: drop commutes=, or declare it"
    " reversible with undo=",
}


def _check_freshness(declaration: Declaration) -> None:
    kind, tool = declaration.kind, declaration.tool
    if declaration.live is None and declaration.valid_for is None:
        return
    if kind is not EffectClass.READ:
        raise DeclarationError(f"{tool} is {kind}: live= and valid_for= say how long a read holds", tool=tool)
    if declaration.scope is None and not declaration.may_touch:
        raise DeclarationError(
            f'{tool} is to be looked at again but names no scope: say what it reads, as in scope="price:/{{item}}"',
            tool=tool,
        )
    if declaration.valid_for is not None and not _is_duration(declaration.valid_for):
        raise DeclarationError(
            f"valid_for={declaration.valid_for!r} of {tool}: give the seconds for which its answer may be acted on",
            tool=tool,
        )


def _is_duration(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0


@spells_out_parts
def effect(kind: EffectName | EffectClass, *, name: str | None = None, **parts: Unpack[Parts]) -> Callable[[_F], _F]:
    """Return a decorator that declares what a tool does to the world; the tool itself is unchanged.

    On a class of tools, as LangChain and CrewAI have them, it says what a call of the method `_run` does.

    Args:
        kind: `read`, `idempotent`, `reversible`, `staged`, `irreversible` or `opaque`.
        scope: the resource the tool acts on, a template over its arguments: `"room:/{hotel}/{date}"`; or a function
            that gets the arguments it asks for and returns one scope's text or several. An exception refuses the call.
        undo: for `reversible`: called on abort with the arguments, `result` and `key` it asks for.
        probe: asks the counterparty whether the effect happened: returns its result, `None` for absent, or
            `settlemark.UNKNOWN`. `False` is none of these: it leaves the effect in doubt, and is logged.
        release: for held effects: runs at commit in the tool's place.
        check: called with the arguments it asks for before the call is recorded, again with the arguments of an edited
            approval, and not for a replayed call. An exception fails the call before anything is done: a held effect is
            refused here rather than at its release.
        cost: what an undo leaves behind (a fee), so that the effect is named in the residue and not called clean.
        keyed: the tool sends `current_call().key` to a counterparty that answers a repeat with the first outcome, so
            re-issuing is safe. True by default for `idempotent`.
        may_touch: broader scopes to hold until `refine` returns the real ones.
        refine: called with the result, returns the scope (or scopes) really touched.
        name: the tool's name in the ledger; the function's by default.
        version: the handlers' version, recorded with each effect: after a restart an effect is undone, probed and
            released only by handlers of its own version.
        unknown: exception types that leave the outcome unknown, beside timeouts and lost connections.
        window: seconds for which the counterparty remembers a key; for ever when left out. After that a call is never
            sent again, and a probe by `key` that finds nothing proves nothing.
        aliases: former names of the tool: effects recorded under them belong to it.
        versions: earlier versions whose effects these handlers also speak for.
        commutes: for `reversible` and `staged`: the name of a group, as in `"add"`. Effects of one group on one scope
            may happen, settle and be undone in any order among themselves: they never wait for each other. Reads and
            all other effects wait for them as for any claim. Effects on a parent and its child, or on a wildcard and
            what it matches, do not commute.
        live: for `read`: returns an ETag or digest of what the tool reads, from the arguments it asks for. Called
            before the read and again before anything settles on the read: `Stale` when the two differ.
        valid_for: for `read`: seconds after which nothing settles on the read any more.
        approve: True, a function over the tool's arguments that returns whether, or an `Approval`, which also says who
            may answer and by when: the call waits for a person's yes, which may come with other arguments. A framework
            asks in its own way, as LangGraph does with `interrupt`; in plain code `approver=` is asked, and without an
            approver an irreversible effect waits for `Settlement.approve`.
        redact: fields of the arguments or result that are never recorded or logged, as dotted paths ("card.number").
        spends: what the call spends, by unit: an argument (`{"usd": "{amount}"}`, or a field of one), an exact amount,
            or a function of the arguments it asks for. It is reserved of each `Budget` of that name before the call
            acts, or `OverBudget` refuses the call.
        spent: what it did spend, by unit, where its result tells: `{"usd": "{result.fee}"}`, or a function that asks
            for `result`. Without it what was reserved is charged; more than was reserved is charged too, as an overrun.
        expires: for holds and quotes that lapse: until when what the call got is good, `"{result.hold_until}"` or a
            function that asks for `result`: seconds since 1970, or a date and time with its zone; None: it does not
            lapse. From the commit on `then` is owed by that time: see `Settlement.obligations`.
        then: the tool that is due when it has lapsed, declared with `@effect` before: `release_hold`. A call of it with
            the same arguments, those of this call and the fields of its result by their names, fulfils what is owed;
            when it is due, that call is made, once, unless `Settlement.on_due` says otherwise.

    Raises:
        DeclarationError: the class is unknown, or the parts contradict each other.

    >>> @effect("irreversible", scope="mail:/{to}")
    ... def send_mail(to: str, body: str) -> None: ...
    >>> declaration_of(send_mail).kind.value
    'irreversible'
    """
    if callable(kind):
        raise DeclarationError(
            f"@effect stands bare on {getattr(kind, '__name__', kind)}: say what it does,"
            ' as in @effect("irreversible", scope="mail:/{to}")',
            tool=str(getattr(kind, "__name__", kind)),
        )

    def decorate(function: _F) -> _F:
        if not callable(function):
            raise _misplaced(function)
        tool = name or named_by(function)
        # A class of tools, as frameworks have them: a call runs its `_run`.
        runs = getattr(function, "_run", function) if isinstance(cast("object", function), type) else function
        declaration = declare(tool, kind, function=runs, **parts)
        try:
            bear(function, declaration)
        except (AttributeError, ValueError):
            raise _misplaced(function) from None
        _declared.add(declaration)
        return function

    return decorate


def named_by(function: object) -> str:
    """Return a tool's default name: its own name, or its `repr`, which may be long."""
    own: object = getattr(function, "__name__", None)
    return own if isinstance(own, str) else prose(repr(function), TOOL.characters)


def _misplaced(function: object) -> DeclarationError:
    tool = str(getattr(function, "name", None) or function)
    return DeclarationError(
        f"{tool} is a {type(function).__name__}, which takes no declaration: put @effect beneath its decorator, on the"
        " function itself",
        tool=tool,
    )


def declared_as(tool: str, version: str | None = None) -> Declaration | None:
    """Return this process's `effect` declaration of a tool, by its name or a former one; see `Registry`."""
    return _declared.find(tool, version)


def bear(function: object, declaration: Declaration) -> None:
    """Attach a declaration to a function for `declaration_of`; no registry knows the declaration by name.

    Raises:
        AttributeError, ValueError: the function takes no attributes.
    """
    setattr(function, _ATTRIBUTE, declaration)


def declaration_of(function: object) -> Declaration | None:
    """Return what `effect` declared of a function (or a bound method), or None.

    >>> declaration_of(print) is None
    True
    """
    found = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, Declaration) else None
