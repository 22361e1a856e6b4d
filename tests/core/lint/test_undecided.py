"""Which tools a file still marks as undecided, whatever else is written in it."""

from __future__ import annotations

from settlemark.lint._undecided import marked

TEXT = """
import settlemark.lint
from settlemark.lint import undecided

undecided("pay", "shop.py:7")
settlement.declare("pay", "irreversible")
settlemark.lint.undecided("mail")
if True:
    undecided("post")
undecided()
undecided(name)
undecided(tool="look")
decided("book")
shops[0]("sell")
"""


def test_those_that_are_named_are_marked_in_whatever_words_the_function_is_called():
    assert sorted(marked(TEXT)) == ["mail", "pay", "post"]


def test_of_what_is_no_python_nothing_is_marked():
    assert marked('undecided("pay"') == []
    assert marked("") == []
