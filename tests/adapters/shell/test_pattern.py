"""What a pattern is filled with is never read as syntax, and what it says is recognized however it is spelled."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.extent import examples

from settlemark import DeclarationError
from settlemark_adapters._pattern import Pattern, Template, mentioned

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(WORDS, st.lists(WORDS))
def test_without_a_shell_each_hole_is_one_word(word, rest):
    filled = Template("tool --name={x} {x} *").fill({"x": word, "arguments": rest})
    assert filled.words == ["tool", f"--name={word}", word, *rest]


@settings(max_examples=examples(40))
@given(WORDS)
def test_with_one_too(word):
    filled = Template("printf %s:%s {x} $(printf %s {x} | wc -c)", sh=True).fill({"x": word})
    done = subprocess.run(filled.words, capture_output=True, check=True)
    assert done.stdout.rpartition(b":")[0] == word.encode()


@given(WORDS.filter(bool), st.lists(WORDS))
def test_what_it_is_filled_with_is_what_it_finds_again(word, rest):
    template = Template("tool -n {x} *")
    given_ = {"x": word, "arguments": rest}
    assert template.match(template.fill(given_).words) == given_


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("git status", {"arguments": []}),
        ("/usr/bin/git status --short", {"arguments": ["--short"]}),
        ("git stash", None),
        ("git", None),
        ("statusgit status", None),
    ],
)
def test_it_recognizes_its_own(command, found):
    assert Template("git status*").match(command.split()) == found


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "/usr/bin/git push origin main",
        "env A=1 git push",
        "git -C elsewhere push",
        "sh -c 'git push'",
        'sh -c "cd x && git push"',
        "sh -c 'sh -c \"git push\"'",
        "true;git push",
        "true&&(git push)",
        "echo $(git push)",
        "xargs git push",
        "g'i't pu\\sh",
    ],
)
def test_words_of_a_held_one_are_seen_wherever_they_stand(command):
    assert Template("git push *").is_mentioned(mentioned(command))


@pytest.mark.parametrize("command", ["git pull", "push git", "git status --pushed", "gitpush"])
def test_other_words_are_not_taken_for_them(command):
    assert not Template("git push *").is_mentioned(mentioned(command))


@pytest.mark.parametrize(
    ("text", "sh", "said"),
    [
        ("", False, "does not begin with a program's name"),
        ("{x} y", False, "does not begin with a program's name"),
        ("echo 'x", False, "cannot be split"),
        ('echo "{x}"', True, "in quotes"),
        ("echo 'a {x}'", False, "in quotes"),
        ('echo "a \\"{x}\\""', True, "in quotes"),
        ("echo 'a\\' '{x}'", True, "in quotes"),
        ("echo \\{x}", False, "in quotes"),
        ("echo ${x}", True, "behind a [$]"),
        ("echo `cat {x}`", True, "in which quotes do not hold"),
        ("cat <<E\n{x}\nE", True, "in which quotes do not hold"),
        ("echo $((1 + {x}))", True, "in which quotes do not hold"),
        ("rm * now", False, "not at its end"),
        ("echo {key}", False, "a hole named key"),
        ("echo {arguments} *", False, "a hole named arguments"),
        ("echo {1}", False, "a hole named 1"),
    ],
)
def test_a_template_that_cannot_be_filled_safely_is_refused(text, sh, said):
    with pytest.raises(DeclarationError, match=said):
        Template(text, sh)


@pytest.mark.parametrize("role", ["undo", "probe", "check"])
def test_another_command_may_ask_only_for_what_the_first_is_given(role):
    with pytest.raises(DeclarationError, match=f"{role}= of mkdir asks for 'other'"):
        Pattern("mkdir {path:path}", "reversible", **{role: "rmdir {other}"})
    with pytest.raises(DeclarationError, match=f"{role}= of mkdir asks for '[*]'"):
        Pattern("mkdir {path:path}", "reversible", **{role: "rmdir *"})


def test_its_tool_is_named_after_its_fixed_words_and_tells_what_it_takes():
    pattern = Pattern("git log -n 1 {file:path} *", "read")
    assert (pattern.tool, list(pattern.signature.parameters)) == ("git_log_n_1", ["file", "arguments"])
    assert pattern.doc == (
        "Run `git log -n 1 {file:path} *`.\n\nArgs:\n    file: a path under the root.\n    arguments: what follows."
    )
    assert Pattern("/usr/bin/uptime", "read").tool == "uptime"


def test_an_escaped_quote_is_none():
    filled = Template('printf %s \\" {x} "\\"" {x}', sh=True).fill({"x": "$(id)"})
    assert subprocess.run(filled.words, capture_output=True, check=True, text=True).stdout == '"$(id)"$(id)'
