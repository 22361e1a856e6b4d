"""The command: its parsers, its exits, and what single commands print."""

from __future__ import annotations

from settlemark._cli import main
from settlemark._cli.commands import doctor as doctor_command
from settlemark._cli.commands import options
from settlemark._cli.commands import show as show_command
from settlemark._cli.commands.export import export, lines
from settlemark._cli.commands.show import residue, show
from settlemark._cli.exits import FOUND, STATUS, Exit
from settlemark._cli.main import COMMANDS, GROUP, build, command_of

__all__ = [
    "COMMANDS",
    "FOUND",
    "GROUP",
    "STATUS",
    "Exit",
    "build",
    "command_of",
    "doctor_command",
    "export",
    "lines",
    "main",
    "options",
    "residue",
    "show",
    "show_command",
]
