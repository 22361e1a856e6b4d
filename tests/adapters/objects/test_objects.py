"""Objects change at once or at the commit, keep the version before until then, and never change twice."""

from __future__ import annotations

import importlib
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.objects.store import in_memory
from tests.extent import examples
from tests.rooms.adapters import Order, mark_of

from settlemark import KeyConflict, PartialCommit, PayloadError, ScopeError, Settlement, StateError, Tag
from settlemark.testing import die, in_child
from settlemark_adapters.objects import Objects


class Failed(Exception):
    """The step fails."""


ACTS = {
    "put an object that is there": ("put", {"path": "a", "content": "after"}),
    "put a new object": ("put", {"path": "x/y/new", "content": "after"}),
    "copy to a new object": ("copy", {"source": "a", "destination": "x/copy"}),
    "copy over an object": ("copy", {"source": "a", "destination": "d/b"}),
    "delete an object": ("delete", {"path": "d/b"}),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_a_transaction_did_stays_after_its_commit_and_is_gone_after_its_abort(store, act):
    method, arguments = ACTS[act]
    store.put("a", "d/b")
    before = store.look()
    with pytest.raises(Failed), store.settlement.transaction("fails") as tx:
        tx.call(getattr(store.objects, method), **arguments)
        during = store.look()
        raise Failed
    assert (store.look(), store.settlement.residue()) == (before, [])
    with store.settlement.transaction("works") as tx:
        tx.call(getattr(store.objects, method), **arguments)
    assert store.look() == during != before


_KEYS = st.sampled_from(["a", "b", "d/c", "d/e/f"])
_CALLS = st.one_of(
    st.tuples(st.just("put"), st.fixed_dictionaries({"path": _KEYS, "content": st.text(max_size=4)})),
    st.tuples(st.just("copy"), st.fixed_dictionaries({"source": _KEYS, "destination": _KEYS})),
    st.tuples(st.just("delete"), st.fixed_dictionaries({"path": _KEYS})),
)


@settings(max_examples=examples(60))
@given(first=st.lists(_CALLS, max_size=4), then=st.lists(_CALLS, max_size=8), staged=st.booleans())
def test_whatever_was_done_and_refused_an_abort_leaves_what_was_there(first, then, staged):
    with Settlement("memory:") as settlement:
        store = in_memory(settlement)
        objects = store.staged if staged else store.objects
        for method, arguments in first:
            _try(lambda method=method, arguments=arguments: getattr(objects, method)(**arguments))
        before = store.look()
        with pytest.raises(Failed), settlement.transaction("fails", on_failure="continue") as tx:
            for method, arguments in then:
                _try(lambda method=method, arguments=arguments: tx.call(getattr(objects, method), **arguments))
            raise Failed
        assert (store.look(), settlement.residue()) == (before, [])


@settings(max_examples=examples(60))
@given(calls=st.lists(_CALLS, max_size=8))
def test_staged_or_at_once_it_comes_to_the_same_and_a_step_reads_its_own(calls):
    ends = []
    for staged in (False, True):
        with Settlement("memory:") as settlement:
            store = in_memory(settlement)
            store.put("a", "d/c")
            objects = store.staged if staged else store.objects
            tools = {method: getattr(objects, method) for method in ("put", "copy", "delete")}
            with settlement.transaction("t", on_failure="continue") as tx:
                for method, arguments in calls:
                    _try(lambda tool=tools[method], arguments=arguments, tx=tx: tx.call(tool, **arguments))
                seen = [each["path"] for each in tx.call(objects.list_all)]
                read = {key: tx.call(objects.get, path=key) for key in seen}
            assert read == store.look()
            ends.append(read)
    assert ends[0] == ends[1]


def _try(act):
    try:
        act()
    except (OSError, ValueError):
        return


def test_objects_are_listed_with_their_sizes_without_what_is_kept_for_undoing(store):
    store.put("b", "d/a")
    with store.settlement.transaction("t") as tx:
        tx.call(store.objects.put, path="d/c", content="12")
    assert store.objects.list_all() == [
        {"path": "b", "bytes": 9},
        {"path": "d/a", "bytes": 11},
        {"path": "d/c", "bytes": 2},
    ]
    assert store.objects.list_all("d") == [{"path": "d/a", "bytes": 11}, {"path": "d/c", "bytes": 2}]
    assert store.objects.list_all("none") == []


def test_a_store_that_says_no_such_folder_has_nothing_in_it(store, monkeypatch):
    def refusing(path, **options):
        raise FileNotFoundError(path)

    monkeypatch.setattr(store.objects._bucket._store, "find", refusing)
    assert (store.objects.list_all(), store.objects.list_all("d"), store.objects.prune(days=0)) == ([], [], 0)


def test_bytes_go_as_base64_both_ways(store):
    assert store.objects.put("a", "AAH/", encoding="base64") == {"path": "a", "bytes": 3}
    assert store.objects.get("a", "base64") == "AAH/"


# ---- staged


def test_staged_nothing_is_there_before_the_commit_and_all_of_it_behind(store):
    store.put("a", "b")
    before = store.look()
    with store.settlement.transaction("t") as tx:
        tx.call(store.staged.put, path="a", content="after")
        tx.call(store.staged.copy, source="a", destination="d/copy")
        tx.call(store.staged.delete, path="b")
        assert (store.look(), tx.call(store.staged.get, path="d/copy")) == (before, "after")
        assert tx.call(store.staged.list_all) == [{"path": "a", "bytes": 5}, {"path": "d/copy", "bytes": 5}]
        with pytest.raises(FileNotFoundError):
            tx.call(store.staged.get, path="b")
        with pytest.raises(FileNotFoundError, match="list_objects tells which"):
            tx.call(store.staged.copy, source="b", destination="c")
    assert (store.look(), store.settlement.residue()) == ({"a": "after", "d/copy": "after"}, [])


def test_what_is_staged_keeps_no_version(store):
    store.put("a", "b")
    with store.settlement.transaction("t") as tx:
        tx.call(store.staged.put, path="a", content="after")
        tx.call(store.staged.delete, path="b")
    assert not any(text.startswith("before") for text in store.all().values())


def test_behind_what_has_left_it_is_a_partial_commit_that_is_named(store):
    store.put("b")
    with pytest.raises(PartialCommit, match="mend by hand"), store.settlement.transaction("t") as tx:
        tx.call(store.staged.put, path="a", content="after")
        tx.call(store.staged.delete, path="b")
        store.fs.rm_file(f"{store.root}/b")
    assert [left.tool for left in store.settlement.residue()] == ["later_delete_object"]


# ---- the three ways of use


def test_its_tools_say_what_they_do_to_a_model(store):
    tools = {tool.__name__: tool for tool in store.objects.tools()}
    assert list(tools) == ["get_object", "list_objects", "put_object", "copy_object", "delete_object"]
    assert all("Args:" in tool.__doc__ for tool in tools.values())


def test_called_bare_it_acts_at_once_and_keeps_nothing(store):
    store.objects.put("a", "one")
    store.objects.put("a", "two")
    store.objects.copy("a", "b")
    store.objects.delete("a")
    assert store.all() == {"b": "two"}


def test_a_function_of_the_users_own_is_undone_under_its_declaration(store):
    def upload(name: str) -> str:
        """Upload a report."""
        store.write(name, "theirs")
        return name

    upload = store.objects.declare("put_object", upload, path="name")
    store.put("a")
    before = store.look()
    with pytest.raises(Failed), store.settlement.transaction("fails") as tx:
        tx.call(upload, name="a")
        tx.call(upload, name="b")
        raise Failed
    assert (store.look(), store.settlement.residue()) == (before, [])


def test_one_that_raises_halfway_has_done_nothing(store):
    def upload(path: str) -> None:
        store.write(path, "half of")
        raise Failed

    upload = store.objects.declare("put_object", upload)
    store.put("a")
    before = store.look()
    with pytest.raises(Failed), store.settlement.transaction("fails") as tx:
        tx.call(upload, path="a")
    assert (store.look(), store.settlement.residue(), store.outcomes()) == (before, [], ["failed"])


@pytest.mark.parametrize("raises", [False, True])
def test_called_bare_it_keeps_nothing_and_one_that_raises_has_done_nothing(store, raises):
    def upload(path: str) -> None:
        store.write(path, "theirs")
        if raises:
            raise Failed

    store.put("a")
    before = store.all()
    with pytest.raises(Failed) if raises else nullcontext():
        store.objects.declare("put_object", upload)("a")
    assert store.all() == (before if raises else {"a": "theirs"})


# ---- lost answers and deaths


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_that_is_lost_is_found_and_nothing_is_done_twice(store, monkeypatch, act, when):
    method, arguments = ACTS[act]
    store.put("a", "d/b")
    lost = []
    bucket = store.objects._bucket

    def losing(change):
        def act(*keys):
            strikes = not keys[-1].startswith(".settlemark") and not lost
            if strikes and when == "before":
                lost.append(keys)
                raise TimeoutError("no answer")
            change(*keys)
            if strikes:
                lost.append(keys)
                raise TimeoutError("no answer")

        return act

    for name in ("move", "remove"):
        monkeypatch.setattr(bucket, name, losing(getattr(bucket, name)))
    with store.settlement.transaction("t") as tx:
        result = tx.call(getattr(store.objects, method), **arguments)
    assert (len(lost), store.settlement.residue(), store.outcomes()) == (1, [], ["confirmed"])
    assert result == {key: value for key, value in arguments.items() if key != "content"} | (
        {"bytes": 5} if method == "put" else {}
    )
    expected = {"a": "before, a", "d/b": "before, d/b"}
    expected |= {"put": {arguments.get("path"): "after"}, "copy": {arguments.get("destination"): "before, a"}}.get(
        method, {}
    )
    assert store.look() == ({"a": "before, a"} if method == "delete" else expected)


def test_whether_a_removal_happened_is_not_guessed_when_somebody_else_wrote_there(store, monkeypatch):
    store.put("a")
    bucket = store.objects._bucket
    remove = bucket.remove

    def overtaken(*keys):
        remove(*keys)
        if keys == ("a",):
            store.write("a", "somebody else's")
            raise TimeoutError("no answer")

    monkeypatch.setattr(bucket, "remove", overtaken)
    with pytest.raises(Exception, match="unknown"), store.settlement.transaction("t") as tx:
        tx.call(store.objects.delete, path="a")
    assert store.look() == {"a": "somebody else's"}
    assert [left.tag for left in store.settlement.residue()] == [Tag.UNRESOLVED]


def test_a_staged_step_whose_process_dies_between_two_releases_is_ended_by_the_next(tmp_path):
    (tmp_path / "store").mkdir()
    url, where = f"sqlite:///{tmp_path}/ledger.db", f"file://{tmp_path}/store"
    Objects(where).put("log", "before")

    def play(tell):
        with Settlement(url) as settlement:
            objects = Objects(where, settlement, staged=True)
            move, moved = objects._bucket.move, []

            def deadly(source, target):
                move(source, target)
                moved.append(target)
                if len([key for key in moved if not key.startswith(".settlemark")]) == 2:
                    die()

            objects._bucket.move = deadly
            with settlement.transaction("t") as tx:
                tx.call(objects.put, path="a", content="one")
                tx.call(objects.copy, source="log", destination="b")
                tx.call(objects.delete, path="log")

    assert in_child(play).killed
    assert {each["path"] for each in Objects(where).list_all()} == {"a", "b", "log"}
    with Settlement(url) as settlement:
        objects = Objects(where, settlement, staged=True)
        settlement.recover(keep_open=0.0)
        assert (settlement.residue(), settlement.in_doubt()) == ([], [])
    assert {each["path"]: objects.get(each["path"]) for each in objects.list_all()} == {"a": "one", "b": "before"}


def test_what_a_process_did_that_is_gone_is_undone_by_the_next(tmp_path):
    (tmp_path / "store").mkdir()
    url, where = f"sqlite:///{tmp_path}/ledger.db", f"file://{tmp_path}/store"
    Objects(where).put("a", "before")

    def play(tell):
        with Settlement(url) as settlement, settlement.transaction("t") as tx:
            objects = Objects(where, settlement)
            tx.call(objects.put, path="a", content="after")
            tx.call(objects.copy, source="a", destination="b")
            tx.call(objects.delete, path="a")
            die()

    assert in_child(play).killed
    with Settlement(url) as settlement:
        objects = Objects(where, settlement)
        settlement.recover(keep_open=0.0)
        assert settlement.residue() == []
    assert {each["path"]: objects.get(each["path"]) for each in objects.list_all()} == {"a": "before"}


# ---- what somebody else does


@pytest.mark.parametrize("act", ACTS)
def test_what_somebody_else_has_changed_since_is_left_as_it_is_and_named(store, act):
    method, arguments = ACTS[act]
    store.put("a", "d/b")
    with pytest.raises(Failed), store.settlement.transaction("fails") as tx:
        tx.call(getattr(store.objects, method), **arguments)
        store.write(arguments.get("destination") or arguments["path"], "somebody else's")
        theirs = store.look()
        raise Failed
    (left,) = store.settlement.residue()
    assert (left.tag, "by hand" in left.note, store.look()) == (Tag.UNRESOLVED, True, theirs)


def test_what_changes_while_it_is_replaced_is_not_replaced(store, monkeypatch):
    store.put("a")
    copy = store.objects._bucket.copy

    def overtaken(source, target):
        copy(source, target)
        store.write("a", "somebody else's, and longer")

    monkeypatch.setattr(store.objects._bucket, "copy", overtaken)
    with pytest.raises(OSError, match="was changed by another writer meanwhile"):
        with store.settlement.transaction("t") as tx:
            tx.call(store.objects.put, path="a", content="after")
    assert (store.look(), store.settlement.residue()) == ({"a": "somebody else's, and longer"}, [])


def test_nor_where_the_store_tells_no_versions_and_the_change_shows_in_the_copy_alone(store, monkeypatch):
    store.put("a")
    copy = store.objects._bucket.copy

    def overtaken(source, target):
        store.write("a", "somebody else's")
        copy(source, target)

    monkeypatch.setattr(store.objects._bucket, "copy", overtaken)
    monkeypatch.setattr(store.objects._bucket, "version", lambda key: None)
    with pytest.raises(OSError, match="was changed by another writer meanwhile"):
        with store.settlement.transaction("t") as tx:
            tx.call(store.objects.put, path="a", content="after")
    assert (store.look(), store.settlement.residue()) == ({"a": "somebody else's"}, [])


@pytest.mark.parametrize("act", ACTS)
def test_an_undo_that_was_cut_off_before_it_was_recorded_is_ended_by_the_next(store, monkeypatch, act):
    method, arguments = ACTS[act]
    store.put("a", "d/b")
    before = store.look()
    acts = store.objects._acts
    put_back, cut = acts._put_back, []

    def cut_off(mark, record):
        put_back(mark, record)
        if not cut:
            cut.append(store.look())
            raise ConnectionError("the store went away")

    monkeypatch.setattr(acts, "_put_back", cut_off)
    with pytest.raises(Failed), store.settlement.transaction("fails") as tx:
        tx.call(getattr(store.objects, method), **arguments)
        raise Failed
    assert (cut, store.look(), store.settlement.residue()) == ([before], before, [])


# ---- what is kept


def test_what_is_kept_may_be_pruned_and_then_an_undo_says_so(store):
    store.put("a")
    with pytest.raises(Failed), store.settlement.transaction("fails") as tx:
        tx.call(store.objects.put, path="a", content="after")
        assert (store.objects.prune(days=1), store.objects.prune(days=0), store.objects.prune(days=0)) == (0, 1, 0)
        raise Failed
    assert "it was pruned" in store.settlement.residue()[0].note
    assert store.all() == {"a": "after"}


def test_what_a_dead_process_was_writing_is_forgotten_too(tmp_path, settlement):
    objects = Objects(f"file://{tmp_path}", settlement)
    (tmp_path / ".settlemark").mkdir()
    (tmp_path / ".settlemark" / "0123.new.part").write_text("half")
    assert (objects.prune(days=0), objects.prune(days=0)) == (1, 0)
    assert list((tmp_path / ".settlemark").iterdir()) == []


def test_asked_again_under_its_key_it_answers_as_before_and_does_nothing_again(store):
    store.put("a")
    acts, bucket = store.objects._acts, store.objects._bucket
    order = Order("put_object", "a", "t#1/0", mark_of("t#1/0"), "digest", alone=False, keeps=True, scopes=None)
    filled = []

    def fill(key):
        filled.append(key)
        bucket.write(key, b"after")

    assert acts.put(order, "a", fill, {"bytes": 5}) == {"bytes": 5}
    store.write("a", "somebody else's")
    assert acts.put(order, "a", fill, {"bytes": 5}) == {"bytes": 5}
    assert (len(filled), store.look()) == (1, {"a": "somebody else's"})
    store.write("a", "after")
    acts.undo(order.mark, "a")
    with pytest.raises(StateError, match="was undone: its key is used up"):
        acts.put(order, "a", fill, {"bytes": 5})
    assert (len(filled), store.look()) == (1, {"a": "before, a"})


@pytest.mark.parametrize("act", ["put", "remove"])
def test_what_was_done_is_known_whatever_somebody_else_does_since(store, act):
    store.put("a")
    before = store.look()
    acts, bucket = store.objects._acts, store.objects._bucket
    order = Order(f"{act}_object", "a", "t#1/0", mark_of("t#1/0"), "digest", alone=False, keeps=True, scopes=None)
    if act == "put":
        acts.put(order, "a", lambda key: bucket.write(key, b"after"), {"bytes": 5})
    else:
        acts.remove(order, "a", {"bytes": 5})
    store.put("a")
    assert (store.look(), acts.probe(order.mark)) == (before, {"bytes": 5})
    if act == "remove":
        assert acts.remove(order, "a", {"bytes": 5}) == {"bytes": 5}
    assert store.look() == before


@pytest.mark.parametrize("store", ["unsteady"], indirect=True)
def test_it_is_known_too_where_a_store_goes_on_showing_what_was_moved_away(store, monkeypatch):
    acts, bucket = store.objects._acts, store.objects._bucket
    order = Order("put_object", "a", "t#1/0", mark_of("t#1/0"), "digest", alone=False, keeps=True, scopes=None)
    acts.put(order, "a", lambda key: bucket.write(key, b"after"), {"bytes": 5})
    store.write("a", "somebody else's")
    monkeypatch.setattr(bucket, "has", lambda key: True)  # as a listing that lags behind
    assert acts.probe(order.mark) == {"bytes": 5}


def test_what_is_kept_under_a_key_that_the_ledger_does_not_know_is_not_taken_for_its_own(tmp_path):
    (tmp_path / "store").mkdir()

    def put(url, content):
        with Settlement(url) as settlement, settlement.transaction("t") as tx:
            tx.call(Objects(f"file://{tmp_path}/store", settlement).put, path="a", content=content)

    put(f"sqlite:///{tmp_path}/one.db", "one")
    with pytest.raises(KeyConflict, match="another ledger"):
        put(f"sqlite:///{tmp_path}/two.db", "two")
    assert (tmp_path / "store/a").read_text() == "one"


# ---- bad input


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "./a", "../a", "a/../b", "a\\b", "a\0b", "e\u0301"])
def test_what_is_no_key_is_refused_and_nothing_changed(store, key):
    store.put("a")
    before = store.all()
    objects = store.objects
    for call in (
        lambda: objects.get(key),
        lambda: objects.put(key, "after"),
        lambda: objects.delete(key),
        lambda: objects.copy("a", key),
        lambda: objects.copy(key, "b"),
    ):
        with pytest.raises(ValueError, match=r"is no key|in Unicode's composed form"):
            call()
    with pytest.raises(ScopeError), store.settlement.transaction("t") as tx:
        tx.call(objects.put, path=key, content="after")
    assert (store.all(), store.outcomes()) == (before, [])


def test_what_is_kept_for_undoing_is_nobodys_to_touch(store):
    for key in (".settlemark/x.json", ".settlemark", ".Settlemark/x"):
        with pytest.raises(PermissionError, match="choose another key"):
            store.objects.put(key, "after")
    assert store.all() == {}


@pytest.mark.parametrize(
    ("method", "arguments", "error", "said"),
    [
        ("get", {"path": "none"}, FileNotFoundError, "list_objects tells which"),
        ("get", {"path": "a", "encoding": "utf-16"}, ValueError, "or base64"),
        ("put", {"path": "n", "content": "!", "encoding": "base64"}, ValueError, "no base64"),
        ("copy", {"source": "none", "destination": "b"}, FileNotFoundError, "list_objects tells which"),
        ("copy", {"source": "a", "destination": "a"}, ValueError, "copied to itself"),
        ("delete", {"path": "none"}, FileNotFoundError, "list_objects tells which"),
    ],
)
@pytest.mark.parametrize("way", ["bare", "eager", "staged"])
def test_what_cannot_be_done_is_a_clear_error_and_nothing_changed(store, way, method, arguments, error, said):
    store.put("a")
    before = store.all()
    with pytest.raises(error, match=said):
        if way == "bare":
            getattr(store.objects, method)(**arguments)
        else:
            with store.settlement.transaction("t") as tx:
                tx.call(getattr(store.objects if way == "eager" else store.staged, method), **arguments)
    assert (store.all(), store.settlement.residue()) == (before, [])
    assert store.outcomes() in ([], ["failed"])


def test_arguments_that_json_cannot_hold_are_refused_and_nothing_changed(store):
    with pytest.raises(PayloadError), store.settlement.transaction("t") as tx:
        tx.call(store.objects.put, path="a", content=b"bytes")
    assert (store.all(), store.outcomes()) == ({}, [])


def test_a_link_leads_nowhere(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "store/link").symlink_to("../secret")
    (tmp_path / "store/out").symlink_to("..")
    objects = Objects(f"file://{tmp_path}/store")
    for key in ("link", "out/secret", "out/new"):
        for call in (objects.get, objects.delete, lambda key: objects.put(key, "after")):
            with pytest.raises(PermissionError, match="goes through a link"):
                call(key)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret", "store"]
    assert (tmp_path / "secret").read_text() == "secret"


def test_one_place_has_one_scope_whichever_link_it_is_reached_through(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    one, two = (Objects(f"file://{tmp_path}/{name}") for name in ("real", "link"))
    two.put("a", "x")
    assert one.get("a") == "x"
    assert [objects._place("a") for objects in (one, two)] == [f"object:/file{tmp_path}/real/a"] * 2


def test_the_root_of_a_disk_is_no_folder_of_the_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("here")
    objects = Objects("file:///")
    with pytest.raises(FileNotFoundError):
        objects.get("a")
    assert objects.get(f"{tmp_path}/a"[1:]) == "here"


def test_where_a_store_has_folders_a_key_is_no_folder(tmp_path):
    objects = Objects(f"file://{tmp_path}")
    objects.put("a/b", "one")
    with pytest.raises(IsADirectoryError, match="choose another key"):
        objects.put("a", "two")
    with pytest.raises(OSError, match="b"):
        objects.put("a/b/c", "three")
    assert objects.list_all() == [{"path": "a/b", "bytes": 3}]


def test_an_address_that_is_none_is_refused():
    with pytest.raises(ValueError, match="is no address"):
        Objects("somewhere")


def test_without_fsspec_it_says_what_to_install(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r'pip install "settlemark\[objects\]"'):
        Objects("memory://x")


def test_what_logs_in_is_shown_nowhere(settlement):
    objects = Objects("memory://x", settlement, options={"token": "s3cr3t"})
    with pytest.raises(FileNotFoundError) as raised, settlement.transaction("t") as tx:
        tx.call(objects.delete, path="none")
    told = f"{objects!r} {raised.value!r} {settlement.show()} {objects.declarations()} {objects.tools()}"
    assert "s3cr3t" not in told
