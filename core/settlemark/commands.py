"""How to add a command to `settlemark`: an entry point of the group `settlemark.commands`.

Print only with `say`, `say_json`, `say_table` or `fail`, so that no name can steer a terminal.

>>> from settlemark.commands import say
>>> say("All is settled.")
All is settled.
"""

from __future__ import annotations

from settlemark._cli.commands.options import AsJson
from settlemark._cli.drawing import why_not
from settlemark._cli.terminal import console, fail, say, say_json, say_table, say_text, unmarked
from settlemark._report.sentences import add_row, new_table

__all__ = [
    "AsJson",
    "add_row",
    "console",
    "fail",
    "new_table",
    "say",
    "say_json",
    "say_table",
    "say_text",
    "unmarked",
    "why_not",
]
