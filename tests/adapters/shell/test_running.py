"""A command ends in time and leaves nothing running; of what it writes the first and the last is kept, no secret."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlemark_adapters._running import CommandTimeout, Kept, run

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def sh(text, where, *, timeout=10.0, most=1000, hidden=()):
    return run(["/bin/sh", "-c", text], where=where, environment=ENVIRONMENT, timeout=timeout, most=most, hidden=hidden)


def test_it_returns_the_exit_status_and_both_outputs(tmp_path):
    assert sh("echo out; echo err >&2; exit 3", tmp_path) == {
        "exit_code": 3,
        "stdout": "out\n",
        "stderr": "err\n",
        "truncated": False,
    }


def test_its_input_is_empty_and_its_environment_what_it_was_given(tmp_path):
    assert sh("cat; env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD=", tmp_path)["stdout"] == (
        f"PATH={ENVIRONMENT['PATH']}\n"
    )


def test_a_command_whose_time_is_over_is_killed_with_what_it_started_and_told_what_it_wrote(tmp_path):
    with pytest.raises(CommandTimeout) as late:
        sh("(sleep 60; touch late) & echo begun; sleep 60", tmp_path, timeout=0.3)
    assert late.value.stdout == "begun\n"
    assert list(tmp_path.iterdir()) == []


def test_what_it_leaves_running_ends_with_it_even_if_it_writes_for_ever(tmp_path):
    assert sh("yes >&2 & sleep 600 & echo done", tmp_path)["stdout"] == "done\n"


def test_one_that_closes_its_outputs_is_still_waited_for(tmp_path):
    assert sh("exec >&- 2>&-; sleep 0.1; touch made; exit 4", tmp_path)["exit_code"] == 4
    assert (tmp_path / "made").exists()


def test_what_it_writes_is_not_held_in_memory(tmp_path):
    tracemalloc.start()
    result = sh("head -c 30000000 /dev/zero | tr '\\0' x", tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
    assert (result["truncated"], result["stdout"]) == (
        True,
        f"{'x' * 500}\n[… {30_000_000 - 1000} bytes left out …]\n{'x' * 500}",
    )


def test_no_such_program_is_told_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        run(["no-such-program"], where=tmp_path, environment=ENVIRONMENT, timeout=1, most=10)


@given(st.lists(st.binary(max_size=30)), st.integers(0, 40))
def test_what_fits_is_kept_whole_and_what_does_not_says_how_much_is_missing(chunks, most):
    kept = Kept(most)
    for chunk in chunks:
        kept.add(chunk)
    whole = b"".join(chunks)
    assert kept.truncated == (len(whole) > most)
    if not kept.truncated:
        assert kept.text() == whole.decode(errors="replace")
    else:
        half = most // 2
        head, tail = whole[:half].decode(errors="replace"), whole[len(whole) - half :].decode(errors="replace")
        assert kept.text() == f"{head}\n[… {len(whole) - 2 * half} bytes left out …]\n{tail}"


@given(st.lists(st.sampled_from([b"hunter2!", b"a", b"hunter", b"bc"]), max_size=40), st.integers(0, 60), st.data())
def test_no_piece_of_a_secret_is_shown_wherever_it_is_cut(words, most, data):
    secret = b"HUNTER2!"
    whole = b"".join(words).replace(b"hunter2!", secret)
    kept = Kept(most, [secret])
    while whole:
        size = data.draw(st.integers(1, 20))
        kept.add(whole[:size])
        whole = whole[size:]
    assert not set(kept.text().replace("bytes left out", "")) & set("HUNTER2!") - set("0123456789")
