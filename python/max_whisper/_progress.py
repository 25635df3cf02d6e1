"""max_whisper/_progress.py - progress of long work: tqdm's bar where it is installed, or a function of the caller."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from ._types import Progress


class _Bar:
    """A bar of tqdm over the seconds of a recording."""

    def __init__(self, make: Any, label: str | None) -> None:
        self._make, self._label, self._bar = make, label, None

    def __call__(self, stage: str, done: float, total: float | None, elapsed: float) -> None:
        if stage != "text":
            return
        if self._bar is None:
            self._bar = self._make(total=round(total or 0, 2), unit="s", desc=self._label, dynamic_ncols=True,
                                   bar_format="{l_bar}{bar}| {n:.1f}/{total:.1f} s [{elapsed}<{remaining}]")
        bar: Any = self._bar
        bar.update(max(round(done, 2) - bar.n, 0))

    def close(self) -> None:
        if self._bar is not None:
            bar: Any = self._bar
            bar.close()


class _Lines:
    """Without tqdm: one line on standard error, written over."""

    def __init__(self, label: str | None) -> None:
        self._label, self._written = label or "audio", False

    def __call__(self, stage: str, done: float, total: float | None, elapsed: float) -> None:
        if stage == "text" and total:
            print(f"\r{self._label}: {100 * done / total:3.0f} %", end="", file=sys.stderr, flush=True)
            self._written = True

    def close(self) -> None:
        if self._written:
            print(file=sys.stderr)
        self._written = False


def reporter(option: Any, source: str | None) -> Callable[[str, float, float | None, float], object] | None:
    """What the extension calls: None, a bar, or the caller's function with a Progress."""
    if option is None or option is False:
        return None
    if callable(option):
        return lambda *numbers: option(Progress(*numbers))
    if option is not True:
        raise TypeError(f"progress: expected True, False or a function, not {type(option).__name__}")
    label = os.path.basename(source) if source else None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Lines(label)
    return _Bar(tqdm, label)


def byte_reporter(option: Any, label: str) -> Callable[[str | None, int, int], object] | None:
    """The same for a transfer: bytes of all files together."""
    if option is None or option is False:
        return None
    if callable(option):
        return lambda file, done, total: option(Progress("fetch", done, total or None, 0.0))
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    bar = tqdm(unit="B", unit_scale=True, unit_divisor=1024, desc=label)

    def report(file: str | None, done: int, total: int) -> None:
        if total:
            bar.total = total
        bar.update(max(done - bar.n, 0))
        if total and done >= total:
            bar.close()
    return report
