"""max_whisper/_errors.py - the exceptions: each has the library's one line, which names the file, option or tensor.

All of them are max_whisper.Error; those that have a counterpart in Python are that one, too.
"""
from __future__ import annotations

import difflib
from collections.abc import Iterable


class Error(RuntimeError):
    """A call of the library failed. `status` is its code: "E_FORMAT", "E_DEVICE", ..."""

    status: str = "E_INTERNAL"


class InvalidArgument(Error, ValueError):
    """An option or an argument is wrong."""


class NotFound(Error, FileNotFoundError):
    """There is no such file, model or device."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class OutOfMemory(Error, MemoryError):
    """Memory ran out, on the host or on a device."""


class Cancelled(Error):
    """The call was stopped with cancel()."""


_KINDS: dict[str, type[Error]] = {
    "E_ARGUMENT": InvalidArgument,
    "E_NOT_FOUND": NotFound,
    "E_MEMORY": OutOfMemory,
    "E_ABORTED": Cancelled,
}


def make(status: str, line: str) -> Error:
    """The exception for a status; the extension calls this."""
    error = _KINDS.get(status, Error)(line or status)
    error.status = status
    return error


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """TypeError for a name that is not known, with the nearest one that is."""
    known = list(known)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.6)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{what}: there is no option {name!r}{hint}")
