"""max_whisper/ray/_needs.py - packages that only clusters need, imported where they are used."""
from __future__ import annotations

import importlib
from typing import Any


class MissingPackage(ImportError):
    """A package that was asked for is not installed; the message is one line that says what to install."""


def need(module: str, what_for: str) -> Any:
    """The module, or a line that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        if error.name and error.name.split(".")[0] != package:   # it is there, but something it needs is not
            raise MissingPackage(f"{what_for} needs {package}, which needs {error.name}: "
                                 f"pip install 'max-whisper[ray]'") from error
        raise MissingPackage(f"{what_for} needs the package {package}: pip install 'max-whisper[ray]'") from error
