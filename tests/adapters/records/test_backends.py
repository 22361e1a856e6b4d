"""What each kind of store has of its own: what damages it, who else writes to it, and what is left behind."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.adapters.records.places import NOTE, Place, fresh

from settlemark.testing import die, in_child
from settlemark_adapters.records import (
    Backend,
    BadRecord,
    Entity,
    FileBackend,
    GitBackend,
    ObjectBackend,
    OutcomeUnknown,
    Records,
    SqlBackend,
    StoreError,
)


def note(name, text="x"):
    return lambda tx: tx.create("Note", {"text": text}, name)


def left_behind(place):
    """Kill somebody who has written records and not committed them."""

    def play(_tell):
        def write(tx):
            tx.create("Note", {"text": "orphan"}, "orphan")
            die()

        place.books().transaction("never", write)

    assert in_child(play).killed


# ---- for all


def test_a_backend_is_a_backend(place):
    assert isinstance(place.open(), Backend)
    assert place.at.removeprefix("sqlite:///") in repr(place.open())


def test_who_has_seen_nothing_yet_is_shown_the_last_commit_also_where_the_last_seen_would_do(place):
    place.books().transaction("begin", note("one"))
    with place.open().view(fresh=False) as view:
        assert (view.head.number, view.row("data/Note/one.json") is not None) == (1, True)


@pytest.mark.parametrize("kind", ["files", "objects"])
def test_what_a_dead_transaction_has_staged_is_seen_by_nobody_and_swept_when_it_is_old(place_of, kind):
    place = place_of(kind)
    books = place.books(tenant="acme")
    books.transaction("begin", note("one"))
    before = place.stands()

    def play(_tell):
        place.books(tenant="acme").transaction("never", lambda tx: (note("orphan")(tx), die()))

    assert in_child(play).killed
    staged = [file for file in Path(place.at, "scratch").rglob("*") if file.is_file()]
    assert [json.loads(file.read_text()) for file in staged] == [{"text": "x"}]
    assert all(Path("scratch/acme") in file.relative_to(place.at).parents for file in staged)
    assert (place.stands(), len(place.books(tenant="acme").query_records("Note"))) == (before, 1)
    assert books.sweep(3600) == []
    for file in [*staged, *Path(place.at, "scratch", "acme").glob("*")]:
        os.utime(file, (0, 0))
    assert len(books.sweep(3600)) == 1
    assert [file for file in Path(place.at, "scratch").rglob("*") if file.is_file()] == []
    assert place.stands() == before


@pytest.mark.parametrize("kind", ["files", "objects"])
def test_a_process_that_begins_sweeps_what_is_old(place_of, kind):
    place = place_of(kind)
    left_behind(place)
    for file in Path(place.at, "scratch").rglob("*"):
        os.utime(file, (0, 0))
    place.books().transaction("begin", note("one"))
    assert [file for file in Path(place.at, "scratch").rglob("*") if file.is_file()] == []


@pytest.mark.parametrize("kind", ["files", "objects"])
def test_a_damaged_commit_is_named_and_nothing_is_written(place_of, kind):
    place = place_of(kind)
    place.books().transaction("begin", note("one", "true"))
    place.close()
    (damaged,) = Path(place.at).glob("commits/*/data/Note/one.json" if kind == "files" else "log/*.json")
    damaged.write_text(damaged.read_text().replace("true", "false"))
    if kind == "files":
        Path(place.at, "projection.db").unlink()
    for use in (
        lambda books: books.query_records("Note"),
        lambda books: books.transaction("more", note("two")),
    ):
        with pytest.raises(
            StoreError, match="is damaged: it is not what was committed as .* bring it back from a backup"
        ):
            use(place.books())
    assert len(place.messages()) == 1


@pytest.mark.parametrize("kind", ["files", "objects"])
def test_half_a_commit_is_damage(place_of, kind):
    place = place_of(kind)
    place.books().transaction("begin", note("one"))
    place.close()
    for file in Path(place.at).glob("commits/*/commit.json" if kind == "files" else "log/*.json"):
        file.write_text(file.read_text()[:40])
    if kind == "files":
        Path(place.at, "projection.db").unlink()
    with pytest.raises(StoreError, match="is damaged"):
        place.books().query_records("Note")


# ---- files


def test_the_projection_is_made_anew_when_it_is_lost(place_of):
    place = place_of("files")
    books = place.books()
    for name in ("one", "two"):
        books.transaction(name, note(name))
    place.close()
    for file in Path(place.at).glob("projection.db*"):
        file.unlink()
    assert [each["id"] for each in place.books().query_records("Note")] == ["one", "two"]


def test_the_projection_is_made_anew_when_the_log_is_another(place_of):
    place, other = place_of("files"), place_of("files")
    place.books().transaction("ours", note("ours"))
    for name in ("one", "two"):
        other.books().transaction(name, note(name))
    place.close()
    other.close()
    kept = Path(place.at, "projection.db").read_bytes()
    Path(other.at, "projection.db").write_bytes(kept)  # as from another backup
    assert [each["id"] for each in other.books().query_records("Note")] == ["one", "two"]


def test_queries_are_answered_from_where_it_is_said(place_of, tmp_path):
    place = place_of("files")
    records = Records(FileBackend(place.at, projection=f"sqlite:///{tmp_path / 'elsewhere.db'}"), entities=[NOTE])
    records.transaction("begin", note("one"))
    assert records.query_records("Note") == [{"id": "one", "text": "x"}]
    assert ((tmp_path / "elsewhere.db").exists(), Path(place.at, "projection.db").exists()) == (True, False)
    records.backend.close()


def test_a_projection_that_cannot_be_read_is_named(place_of):
    place = place_of("files")
    place.books().transaction("begin", note("one"))
    place.close()
    for file in Path(place.at).glob("projection.db*"):
        file.write_text("no database, for sure " * 100)
    with pytest.raises(StoreError, match="when it is removed, it is made anew from the log"):
        place.books().query_records("Note")


def test_a_commit_that_comes_second_is_made_of_what_it_was(place_of):
    place = place_of("files")
    books = place.books()
    books.transaction("begin", note("one"))

    class Late(Records):
        def before_commit(self, tx):
            if len(place.messages()) == 1:
                books.transaction("three", note("three"))

    def write(tx):
        note("two")(tx)
        note("gone")(tx)
        tx.delete("Note", "gone")
        tx.update("Note", "one", {"text": "other"})
        tx.update("Note", "one", {"text": "x"})

    Late(place.open(), entities=[NOTE]).transaction("two", write)
    assert [(message, list(contents)) for message, _, contents in place.log()] == [
        ("begin", ["data/Note/one.json"]),
        ("three", ["data/Note/three.json"]),
        ("two", ["data/Note/two.json"]),
    ]
    assert not list(Path(place.at, "commits/000000000003/data/Note").glob("[!t]*"))


def test_others_may_read_what_is_committed(place_of):
    place = place_of("files")
    place.books().transaction("begin", note("one"))
    (folder,) = Path(place.at, "commits").glob("*")
    assert folder.stat().st_mode == folder.parent.stat().st_mode


def test_a_directory_that_cannot_be_one_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot hold records: .* name a directory"):
        FileBackend(tmp_path / "file")


def test_a_transaction_whose_place_was_swept_writes_nothing(place_of):
    place = place_of("files")
    books = place.books()

    def slow(tx):
        note("one")(tx)
        place.open().sweep(0)
        note("two")(tx)

    with pytest.raises(StoreError, match="could not be written .* nothing was committed"):
        books.transaction("slow", slow)
    with pytest.raises(StoreError, match="nothing was committed"):
        books.transaction("slower", lambda tx: (note("one")(tx), place.open().sweep(0)))
    assert (place.stands(), books.query_records("Note")) == ({}, [])


def test_a_full_disk_leaves_nothing(place_of, monkeypatch):
    place = place_of("files")
    books = place.books()
    books.transaction("begin", note("one"))

    def full(_self, _target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(StoreError, match="No space left on device.*nothing was committed"):
        books.transaction("more", note("two"))
    monkeypatch.undo()
    assert list(Path(place.at, "scratch").glob("*/*")) == []
    assert [each["id"] for each in books.query_records("Note")] == ["one"]


# ---- objects


def test_a_store_that_cannot_put_only_where_there_is_none_is_refused():
    fsspec = pytest.importorskip("fsspec")
    with pytest.raises(StoreError, match="pass create=, a function of a path and data"):
        ObjectBackend(fsspec.filesystem("dir", path="/x", target_protocol="memory"), "books")
    with pytest.raises(StoreError, match="'nowhere://x' names no store of objects"):
        ObjectBackend("nowhere://x")


def remote(memory, protocols, **condition):
    """A file system as those of the large providers are, over one in memory."""

    class Remote:
        protocol = protocols

        def __getattr__(self, name):
            return getattr(memory, name)

        def pipe_file(self, path, data, **options):
            told.append(options)
            if options and memory.exists(path):
                raise FileExistsError(path)
            memory.pipe_file(path, data)

    def _pipe_file(self, path, data): ...

    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in condition]
    signature = inspect.signature(_pipe_file)
    _pipe_file.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *parameters])
    Remote._pipe_file = _pipe_file
    told = []
    return Remote(), told


@pytest.mark.parametrize(
    ("protocols", "condition"),
    [(("s3", "s3a"), {"mode": "create"}), (("gs", "gcs"), {"mode": "create"}), (("abfs", "az"), {"overwrite": False})],
)
def test_the_large_providers_are_asked_to_put_only_where_there_is_none(place_of, protocols, condition):
    place = place_of("memory")
    fs, told = remote(place.open().fs, protocols, **condition)
    one = Records(ObjectBackend(fs, place.at), entities=[NOTE])

    class Late(Records):
        def before_commit(self, tx):
            if len(place.messages()) == 1:
                one.transaction("three", note("three"))

    one.transaction("one", note("one"))
    Late(ObjectBackend(fs, place.at), entities=[NOTE]).transaction("two", note("two"))
    assert [each for each in told if each] == [condition, condition, condition, condition]
    assert place.messages() == ["one", "three", "two"]


def test_a_library_that_does_not_know_how_to_ask_is_refused(place_of):
    place = place_of("memory")
    fs, _ = remote(place.open().fs, ("s3", "s3a"))
    with pytest.raises(StoreError, match="pass create=, a function of a path and data"):
        ObjectBackend(fs, place.at)


def test_how_to_put_only_where_there_is_none_can_be_told(place_of):
    place = place_of("memory")
    plain = place.open()
    put = []

    def create(path, data):
        put.append(path)
        plain._create(path, data)

    records = Records(ObjectBackend(plain.fs, place.at, create=create), entities=[NOTE])
    records.transaction("begin", note("one"))
    assert put == [f"{place.at}/log/000000000001.json"]
    assert place.books().query_records("Note") == records.query_records("Note")


@pytest.mark.parametrize("happened", [False, True])
def test_a_put_that_is_not_answered_is_looked_for(place_of, happened):
    place = place_of("memory")
    plain = place.open()

    def create(path, data):
        if happened:
            plain._create(path, data)
        raise OSError("the connection is gone")

    records = Records(ObjectBackend(plain.fs, place.at, create=create), entities=[NOTE])
    if happened:
        records.transaction("begin", note("one"))
    else:
        with pytest.raises(OutcomeUnknown, match="did not say whether .* is committed"):
            records.transaction("begin", note("one"))
    assert len(place.books().query_records("Note")) == happened


def test_a_put_that_is_refused_is_no_doubt(place_of):
    place = place_of("memory")

    def create(path, data):
        raise PermissionError("read only")

    records = Records(ObjectBackend(place.open().fs, place.at, create=create), entities=[NOTE])
    with pytest.raises(StoreError, match="may not be written \\(read only\\): nothing was committed"):
        records.transaction("begin", note("one"))
    assert place.stands() == {}


def test_a_store_that_cannot_be_read_is_named(place_of, monkeypatch):
    place = place_of("memory")
    books = place.books()

    def gone(_path):
        raise OSError("503 slow down")

    monkeypatch.setattr(books.backend, "fs", type("Gone", (), {"cat_file": staticmethod(gone), "protocol": "memory"})())
    with pytest.raises(StoreError, match="could not be read \\(503 slow down\\): nothing was written"):
        books.transaction("begin", note("one"))
    assert place.stands() == {}


# ---- SQL


def test_an_engine_of_the_users_own_and_a_prefix_do(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path}/own.db")
    records = Records(SqlBackend(engine, prefix="books_"), entities=[NOTE])
    records.transaction("begin", note("one"))
    assert sorted(sa.inspect(engine).get_table_names()) == [
        "books_changes",
        "books_commits",
        "books_current",
        "books_fields",
    ]
    assert records.query_records("Note") == [{"id": "one", "text": "x"}]
    records.backend.close()
    with engine.connect() as connection:  # it is its owner's to close
        assert connection.execute(sa.text("SELECT count(*) FROM books_commits")).scalar() == 1
    engine.dispose()


@pytest.mark.parametrize("schema", [None, "books"])
def test_tables_that_another_process_has_just_made_are_used(tmp_path, monkeypatch, schema):
    engine = sa.create_engine(f"sqlite:///{tmp_path}/own.db")
    sa.event.listen(engine, "connect", lambda raw, _: raw.execute(f"ATTACH '{tmp_path}/books.db' AS books"))
    made = sa.MetaData.create_all

    def made_by_another(metadata, connection):
        made(metadata, connection)
        connection.commit()
        raise sa.exc.OperationalError("CREATE TABLE", {}, Exception("it exists"))

    monkeypatch.setattr(sa.MetaData, "create_all", made_by_another)
    records = Records(SqlBackend(engine, schema=schema), entities=[NOTE])
    records.transaction("begin", note("one"))
    assert records.query_records("Note") == [{"id": "one", "text": "x"}]
    assert "records_current" in sa.inspect(engine).get_table_names(schema=schema)
    engine.dispose()


def test_a_server_that_is_gone_is_named_and_one_that_goes_at_the_commit_leaves_a_doubt(private_postgres, tmp_path):
    place = Place("postgres", private_postgres.create_database())
    books = place.books()
    books.transaction("begin", note("one"))
    with pytest.raises(OutcomeUnknown, match="did not say whether .* is committed"):
        with pytest.MonkeyPatch.context() as patch:

            def stopped(connection):
                private_postgres.stop()
                sa.Connection._commit_impl(connection)

            patch.setattr(sa.Connection, "commit", stopped)
            books.transaction("more", note("two"))
    with pytest.raises(StoreError, match="could not be read: "):
        books.query_records("Note")
    private_postgres.start()
    assert [each["id"] for each in place.books().query_records("Note")] == ["one"]
    assert books.find("of nothing") is None
    place.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [("no url", "write for example 'sqlite:///books.db'"), ("sqlite:////no/such/folder/x.db", "could not be read")],
)
def test_a_database_that_is_none_is_named(url, said):
    with pytest.raises(StoreError, match=said):
        Records(SqlBackend(url), entities=[NOTE]).transaction("begin", note("one"))


def test_no_password_is_told():
    backend = SqlBackend("postgresql+psycopg://ada:secret@localhost:1/x")
    with pytest.raises(StoreError) as refused:
        Records(backend, entities=[NOTE]).query_records("Note")
    assert "secret" not in repr(backend) + str(refused.value) + repr(refused.value.data)


# ---- git


def committed_by_hand(place, **files):
    """Commit files to the branch as a person would, in a working copy."""
    with fresh("files") as home:
        work = f"{home.at}-work"
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
        who = ("-c", "user.name=Bob", "-c", "user.email=bob@b.example")
        subprocess.run(["git", "clone", "-q", "-b", "records", place.at, work], check=True, env=environment)
        for path, text in files.items():
            file = Path(work, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink() if text is None else file.write_text(text)
        subprocess.run(["git", "-C", work, "add", "-A"], check=True)
        subprocess.run(["git", "-C", work, *who, "commit", "-qm", "by hand\n\nand why"], check=True)
        subprocess.run(["git", "-C", work, "push", "-q"], check=True)


def test_git_itself_shows_one_commit_whose_decision_is_in_its_trailers(place_of):
    place = place_of("git")
    books = place.books()
    books.transaction("note two things", lambda tx: [note(name)(tx)["id"] for name in ("one", "two")], key="t#1/0")
    assert place.git("log", "--format=%an|%ae|%cn|%s", "--name-only", "records").split() == [
        "Ada|ada@a.example|Ada|note",
        "two",
        "things",
        "data/Note/one.json",
        "data/Note/two.json",
    ]
    trailers = place.git("log", "--format=%(trailers:only)", "records")
    assert 'Settlemark-Key: "t#1/0"\n' in trailers
    assert 'Settlemark-Result: ["one", "two"]\n' in trailers
    assert place.git("fsck", "--strict") == ""


def test_what_a_person_commits_is_read_like_any_other(place_of):
    place = place_of("git")
    books = place.books()
    books.transaction("begin", lambda tx: [note(name)(tx) for name in ("one", "two")], key="k")
    committed_by_hand(
        place,
        **{"data/Note/one.json": '{"text": "by hand"}', "data/Note/two.json": None, "README.md": "hello"},
    )
    assert books.query_records("Note") == place.books().query_records("Note") == [{"id": "one", "text": "by hand"}]
    entry = books.list_commits()[0]
    assert (entry["message"], entry["author"]) == ("by hand", "Bob <bob@b.example>")
    assert entry["paths"] == ["data/Note/one.json", "data/Note/two.json"]
    with pytest.raises(Exception, match="was changed by Bob <bob@b.example> in .* \\('by hand'\\)"):
        books.take_back("k")
    books.transaction("go on", note("three"))
    assert "README.md" in place.git("ls-tree", "-r", "--name-only", "records")


def test_what_is_no_record_is_named_when_it_is_read(place_of):
    place = place_of("git")
    books = place.books()
    books.transaction("begin", note("one"))
    committed_by_hand(place, **{"data/Note/one.json": "no json"})
    with pytest.raises(StoreError, match="data/Note/one.json holds no record"):
        books.get_record("Note", "one")
    assert books.query_records("Note", {"text": "x"}) == []


def test_a_branch_that_was_rewritten_is_read_anew(place_of):
    place = place_of("git")
    books = place.books()
    for name in ("one", "two", "three"):
        books.transaction(name, note(name), key=name)
    place.git("update-ref", "refs/heads/records", "records~1")
    assert [each["id"] for each in books.query_records("Note")] == ["one", "two"]
    assert (books.find("two") is not None, books.find("three")) == (True, None)
    books.transaction("four", note("four"))
    place.git("update-ref", "-d", "refs/heads/records")
    assert (books.query_records("Note"), books.list_commits()) == ([], [])


def test_a_copy_of_a_commit_is_nobodys_call(place_of):
    place = place_of("git")
    books = place.books()
    first = books.transaction("one", note("one"), key="k")
    books.transaction("remove", lambda tx: tx.delete("Note", "one"))
    body = place.git("log", "-1", "--format=%B", first.commit)
    tree = place.git("rev-parse", f"{first.commit}^{{tree}}").strip()
    copy = place.git("commit-tree", tree, "-p", "records", given=body).strip()
    place.git("update-ref", "refs/heads/records", copy)
    for each in (books, place.books()):
        assert (each.find("k")["commit"], len(each.list_commits())) == (first.commit, 3)
        assert each.query_records("Note") == [{"id": "one", "text": "x"}]


def test_a_branch_that_is_checked_out_is_refused(tmp_path):
    subprocess.run(["git", "init", "-q", "-b", "records", str(tmp_path)], check=True)
    with pytest.raises(StoreError, match="records is checked out in .* choose a branch that nobody works on"):
        GitBackend(tmp_path)
    assert GitBackend(tmp_path, "other").tip() is None


def test_where_a_commit_and_no_branch_is_checked_out_any_branch_may_be_written_to(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=Bob", "-c", "user.email=bob@b.example"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "begin"], ["checkout", "-q", "--detach"]):
        subprocess.run([*git, *command], check=True)
    records = Records(GitBackend(tmp_path), entities=[NOTE])
    records.transaction("begin", note("one"))
    assert records.query_records("Note") == [{"id": "one", "text": "x"}]


def test_a_directory_within_somebodys_repository_is_no_repository(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="not a git repository"):
        GitBackend(tmp_path / "folder")


@pytest.mark.parametrize("branch", ["-x", "a..b", "a b", "", "x.lock", "x/"])
def test_a_branch_is_named_as_git_allows(tmp_path, branch):
    with pytest.raises(StoreError, match="is no name of a branch") as told:
        GitBackend(tmp_path / "books", branch)
    assert (told.value.store, list(tmp_path.iterdir())) == (branch, [])


@pytest.mark.parametrize("author", ["<ada@a.example>", "Ada <a b>", "A<b"])
def test_an_author_that_git_cannot_write_is_refused_and_nothing_changes(place_of, author):
    place = place_of("git")
    with pytest.raises(BadRecord, match="write 'Ada' or 'Ada <ada@a.example>'; nothing was written"):
        place.books(author=author).transaction("begin", note("one"))
    assert place.stands() == {}


def test_nobodys_settings_and_hooks_take_part(place_of, monkeypatch, tmp_path):
    place = place_of("git")
    place.open()
    for hook in ("reference-transaction", "pre-commit", "commit-msg"):
        Path(place.at, "hooks").mkdir(exist_ok=True)
        Path(place.at, "hooks", hook).write_text("#!/bin/sh\nexit 1\n")
        Path(place.at, "hooks", hook).chmod(0o755)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    place.books().transaction("begin", note("one"))
    monkeypatch.undo()
    assert [(message, author) for message, author, _ in place.log()] == [("begin", "Ada <ada@a.example>")]


def test_objects_that_no_commit_points_at_are_swept_when_they_are_old(place_of):
    place = place_of("git")
    books = place.books()
    books.transaction("begin", note("one"))
    left_behind(place)
    assert (books.sweep(3600), place.stands()) == ([], {"data/Note/one.json": {"text": "x"}})
    (swept,) = books.sweep(0)
    assert "blob" in swept
    assert place.git("fsck", "--strict", "--full") == ""
    assert place.stands() == {"data/Note/one.json": {"text": "x"}}


def test_a_database_has_nothing_to_sweep(place_of):
    place = place_of("sqlite")
    left_behind(place)
    assert (place.books().sweep(0), place.messages()) == ([], [])


# ---- what is refused when it is made


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Entity("invoice", {}), "name it with letters and digits, a capital first"),
        (lambda: Entity("../X", {}), "the entity '../X'"),
        (lambda: Entity("Note", {"id": str}), "has a field 'id'"),
        (lambda: Entity("Note", {"when": object}), "choose one of str, int, float, bool, list, dict"),
        (lambda: Entity("Note", {"text": str}, computed=("sum",)), "has no field 'sum'; it has text"),
        (lambda: Records(SqlBackend("sqlite://"), store="a/b"), "store='a/b': use small letters"),
        (lambda: Records(SqlBackend("sqlite://"), tenant="../b"), "tenant='../b'"),
        (lambda: Records(SqlBackend("sqlite://"), author="a\nb"), "the author 'a\\nb'"),
        (lambda: Records(SqlBackend("sqlite://"), entities=[NOTE, Entity("NOTE", {})]), "two entities Note and NOTE"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(make, said):
    with pytest.raises(ValueError, match=".") as refused:
        make()
    assert said in str(refused.value)
