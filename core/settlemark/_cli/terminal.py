"""The one output of all commands: every character is visible, and steers no terminal.

Every command, those of the integrations too, prints with these functions; none calls `print`, `typer.echo` or a rich
console of its own. A line stays one line, whatever names and messages are in it: see `settlemark._edges.plain`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from settlemark._cli.exits import Exit
from settlemark._edges.plain import plain, plain_json, plain_lines, plain_traceback
from settlemark._edges.wording import at_terminal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment


_NARROW = 80
_WIDE = 10_000
"""Width for files and pipes, where breaking words helps nobody."""


def say(*lines: object, err: bool = False) -> None:
    """Print lines; a line break inside a name breaks no line."""
    for line in lines:
        _echo(plain(line), err=err)


def say_text(text: str) -> None:
    """Print a text of several lines that are plain already, such as those of `sentences`."""
    _echo(plain_lines(text))


def say_json(values: Any) -> None:
    """Print JSON for people and programs."""
    _echo(plain_json(json.dumps(values, indent=2, ensure_ascii=False)))


def json_line(value: Any) -> str:
    """Return a JSON value as a line of JSON Lines."""
    return plain_json(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) + "\n"


def say_table(table: RenderableType) -> None:
    """Print a rich table: at full width, unless it goes to a terminal."""
    shown = console()
    if not shown.is_terminal and "COLUMNS" not in os.environ:
        shown.width = _WIDE
    shown.print(table)


def fail(text: object, *, code: Exit = Exit.FAILED) -> NoReturn:
    """Say what is wrong, and exit."""
    say(f"settlemark: {text if isinstance(text, str) else plain(text)}", err=True)
    raise typer.Exit(code)


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a rich console that prints plain text: for tables, and for a progress bar."""
    from rich.console import Console

    class PlainConsole(Console):
        """A console that makes every text plain."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                # Segments with a control code are rich's own: they redraw a progress bar.
                yield segment if segment.control else segment._replace(text=plain_lines(segment.text))

        def on_broken_pipe(self) -> None:
            drop_unwritten(self.file)  # rich itself would exit with 1, which means a finding

    with suppress(AttributeError, ValueError):  # a replaced stream may have no encoding
        stream: Any = sys.stderr if stderr else sys.stdout
        stream.reconfigure(errors="backslashreplace")
    made = PlainConsole(stderr=stderr, quiet=quiet)
    if not made.width:  # as COLUMNS=0 stands for "not known"
        made.width = _NARROW
    return made


@contextmanager
def progress(doing: str, total: int, *, shows: bool = True) -> Generator[Callable[[int], None]]:
    """Show a bar on a terminal's standard error while something long is done; yield what is told how far it is."""
    from rich.progress import Progress

    shown_to = console(stderr=True)
    with Progress(console=shown_to, transient=True, disable=not (shows and shown_to.is_terminal)) as bars:
        bar = bars.add_task(unmarked(doing), total=total)
        yield lambda done: bars.update(bar, completed=done)


def unmarked(text: str) -> str:
    """Return a progress bar's title with rich's markup escaped: a name may be `[red]`."""
    from rich.markup import escape

    return escape(plain(text))


class PlainGroup(TyperGroup):
    """A group of commands that shows errors in its arguments safely."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run; an unexpected exception is printed with its traceback, and exits with 2, since 1 means a finding."""
        _fill_closed()
        if options.get("standalone_mode") is False:
            return super().main(*args, **options)
        try:
            return super().main(*args, **options)
        except Exception as error:
            # An error of a file to be opened names the file; an error of the output does not.
            unwritten = isinstance(error, OSError) and error.filename is None
            told = (
                f"settlemark: {plain(error)}: not all of it could be printed" if unwritten else plain_traceback(error)
            )
            with suppress(OSError):  # the error itself may be unwritable
                typer.echo(told, err=True)
            drop_unwritten(sys.stdout)  # Python would try again at exit, and change the exit status
            sys.exit(Exit.FAILED)

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the arguments."""
        with _shown():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Parse the command's arguments, and run it."""
        with _shown(), at_terminal():
            return super().invoke(ctx)


def drop_unwritten(stream: Any) -> None:
    """Drop what a stream could not write, and all that follows."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _echo(text: str, *, err: bool = False) -> None:
    """Print a text. Who closes the pipe has read enough: the command goes on, and its exit status stays true."""
    try:
        typer.echo(text, err=err)
    except BrokenPipeError:
        drop_unwritten(sys.stderr if err else sys.stdout)


def _fill_closed() -> None:
    """Give a process that was started with a closed output, as by `>&-`, one that takes everything."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - a device


@contextmanager
def _shown() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:  # of a help text, or of what a command talks to: click would exit with 1
        drop_unwritten(sys.stdout)
        raise typer.Exit(Exit.FAILED) from None
    except Exception as error:
        # A usage error of any copy of click; click itself would print the arguments unescaped.
        if hasattr(error, "format_message") and isinstance(getattr(error, "message", None), str):
            for name in ("message", "option_name"):
                if isinstance(value := getattr(error, name, None), str):
                    setattr(error, name, plain(value))
        raise


__all__ = [
    "PlainGroup",
    "console",
    "drop_unwritten",
    "fail",
    "json_line",
    "progress",
    "say",
    "say_json",
    "say_table",
    "say_text",
    "unmarked",
]
