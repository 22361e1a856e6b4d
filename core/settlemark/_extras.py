"""What an optional part of the project says when the library it stands on is missing, or is not one it can use."""

from __future__ import annotations


def missing(what: str, extra: str, error: ImportError) -> ImportError:
    """Return the error that names the command to run.

    Args:
        what: who needs which library: "settlemark.telemetry needs OpenTelemetry".
        extra: the extra that brings it.
        error: why it could not be imported: it is not there, or it is there and too old, too new or broken.

    >>> print(missing("the shim needs Frame", "frame", ModuleNotFoundError("No module named 'frame'", name="frame")))
    the shim needs Frame: pip install "settlemark[frame]"
    >>> print(missing("the shim needs Frame", "frame", ImportError("no X in frame")))
    the shim needs Frame, and the one installed does not do (no X in frame): pip install -U "settlemark[frame]"
    """
    if isinstance(error, ModuleNotFoundError):
        return ImportError(f'{what}: pip install "settlemark[{extra}]"', name=error.name)
    return ImportError(
        f'{what}, and the one installed does not do ({error}): pip install -U "settlemark[{extra}]"', name=error.name
    )


__all__ = ["missing"]
