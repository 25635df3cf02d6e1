"""max_whisper/_writers.py - results as files: every format that the library writes, by its own writers."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import _native
from ._errors import check_names

if TYPE_CHECKING:
    from ._types import Result


def _tuples(result: Result) -> tuple[tuple[Any, ...], list[Any], list[Any] | None]:
    """What the extension makes a result of: head, segments, regions."""
    times = result.times
    head = (result.language, result.language_probability, result.duration, result.n_windows,
            result.n_temperature_fallbacks, result.skipped, result.n_words_suspected, times.load_ms, times.compile_ms,
            times.audio_ms, times.mel_ms, times.encode_ms, times.decode_ms, times.words_ms, times.vad_ms,
            times.total_ms)
    return head, result.segments, result.regions


def write(result: Result, format: str, options: dict[str, Any]) -> bytes:
    """The bytes of a result in a format."""
    check_names(f"format {format}", options, _native.WRITE_OPTIONS)
    return _native.write(*_tuples(result), format, {"manifest": result.manifest, **options}, None)


def save(result: Result, path: str | os.PathLike[str], format: str | None, options: dict[str, Any]) -> None:
    """A file, complete or not at all."""
    name = os.fspath(path)
    format = format or os.path.splitext(name)[1][1:]
    if not format:
        raise ValueError(f"{name}: no format given, and the name has no ending that says it")
    check_names(f"format {format}", options, _native.WRITE_OPTIONS)
    _native.write(*_tuples(result), format, {"manifest": result.manifest, **options}, os.fsencode(name))
