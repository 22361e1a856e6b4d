"""The error for an optional part whose library is missing, too old or broken."""

from __future__ import annotations


def missing(what: str, extra: str, error: ImportError) -> ImportError:
    """Return the error that names the command to run.

    Args:
        what: which part needs which library: "settlemark.telemetry needs OpenTelemetry".
        extra: the extra that installs the library.
        error: the import's failure: the library is missing, or is there but too old, too new or broken.

    >>> print(missing("this needs mcp", "mcp", ModuleNotFoundError("No module named 'mcp'", name="mcp")))
    this needs mcp: pip install "settlemark[mcp]"
    >>> print(missing("this needs mcp", "mcp", ImportError("no X in mcp")))
    this needs mcp, and the installed one is unsuitable (no X in mcp): pip install -U "settlemark[mcp]"
    """
    if isinstance(error, ModuleNotFoundError):
        return ImportError(f'{what}: pip install "settlemark[{extra}]"', name=error.name)
    return ImportError(
        f'{what}, and the installed one is unsuitable ({error}): pip install -U "settlemark[{extra}]"', name=error.name
    )


__all__ = ["missing"]
