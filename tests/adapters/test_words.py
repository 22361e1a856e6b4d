"""What no program can be given is refused where an adapter is made, and its value is not repeated."""

from __future__ import annotations

import pytest
from tests.adapters.git.repositories import repository

from settlemark_adapters.git import Git
from settlemark_adapters.shell import Shell

MADE = {
    ("Shell", "environment"): lambda folder, given: Shell(folder, environment=given),
    ("Shell", "secrets"): lambda folder, given: Shell(folder, secrets=given),
    ("Git", "environment"): lambda folder, given: Git(repository(folder), environment=given),
}
VARIABLES = {
    "a number": {"A": 5},
    "bytes": {"A": b"s3cret"},
    "none": {"A": None},
    "an end within it": {"A": "s3cret\0"},
    "half a character": {"A": "s3cret\ud800"},
    "a name that is none": {"": "s3cret"},
    "a name with a value in it": {"A=B": "s3cret"},
    "a name that is a number": {5: "s3cret"},
}
COMMANDS = ["make install", [], ["make", 5], ["make", "\0"], ["make", "\ud800"], None, 5, {"make": 1}]


@pytest.mark.parametrize("wrong", VARIABLES)
@pytest.mark.parametrize("made", MADE, ids=" ".join)
def test_a_variable_that_no_program_can_be_given_is_refused(tmp_path, made, wrong):
    with pytest.raises(ValueError, match=f"{made[1]}= has .*, which no program can be given") as refused:
        MADE[made](tmp_path, VARIABLES[wrong])
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("command", COMMANDS, ids=ascii)
def test_a_command_to_deploy_that_is_none_is_refused(tmp_path, command):
    with pytest.raises(ValueError, match=r"deploy\['live'\]=.*: give a command as a list of its words"):
        Git(repository(tmp_path), deploy={"live": command})
