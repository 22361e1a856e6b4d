"""What an optional part of the project says when the library it stands on is missing, or is not one it can use."""

from __future__ import annotations


def missing(what: str, extra: str, error: ImportError) -> ImportError:
    """Return the error that names the command to run.

    Args:
        what: who needs which library: "settlemark.telemetry needs OpenTelemetry".
        extra: the extra that brings it.
        error: why it could not be imported: it is not there, or it is there and too old, too new or broken.

    >>> print(missing("this needs mcp", "mcp", ModuleNotFoundError("No module named 'mcp'", name="mcp")))
    this needs mcp: pip install "settlemark[mcp]"
    >>> print(missing("this needs mcp", "mcp", ImportError("no X in mcp")))
    this needs mcp, and the one installed does not do (no X in mcp): pip install -U "settlemark[mcp]"
    """
    if isinstance(error, ModuleNotFoundError):
        return ImportError(f'{what}: pip install "settlemark[{extra}]"', name=error.name)
    return ImportError(
        f'{what}, and the one installed does not do ({error}): pip install -U "settlemark[{extra}]"', name=error.name
    )


__all__ = ["missing"]
