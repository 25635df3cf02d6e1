"""max_whisper/_log.py - the library's log through Python's logging: damaged recordings, times of stages."""
from __future__ import annotations

import logging

from . import _native

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)   # by the library's numbers


def log_to(logger: logging.Logger | None, level: int = logging.WARNING) -> None:
    """Sends messages of this level and the more severe ones to a logger; None turns them off. Whole process."""
    if logger is None:
        _native.set_log(0, None)
        return
    number = max((i for i, known in enumerate(_LEVELS) if known >= level), default=0)

    def report(severity: int, component: str, text: str) -> None:
        logger.log(_LEVELS[min(severity, len(_LEVELS) - 1)], "%s: %s", component, text)
    _native.set_log(number, report)
