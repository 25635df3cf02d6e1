"""max_whisper/_options.py - the options of a transcription: names, types, and Python's values made the library's.

Names and defaults are those of openai-whisper where it has them; docs/python.md lists all of them.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from . import _native
from ._errors import check_names
from ._types import Progress

ProgressOption = bool | Callable[[Progress], object] | None


class DecodeOptions(TypedDict, total=False):
    """How text is decoded; what is left out has its default."""

    task: Literal["transcribe", "translate"]
    language: str | None
    languages: str | Iterable[str] | None
    temperature: float | Sequence[float]
    temperature_increment: float | None
    temperatures: str | None
    best_of: int | None
    beam_size: int | None
    patience: float | None
    length_penalty: float | None
    repetition_penalty: float
    no_repeat_ngram_size: int
    suppress_tokens: str | Iterable[int] | None
    suppress_blank: bool
    initial_prompt: str | None
    carry_initial_prompt: bool
    prefix: str | None
    condition_on_previous_text: bool
    compression_ratio_threshold: float | None
    logprob_threshold: float | None
    no_speech_threshold: float | None
    sample_len: int | None
    without_timestamps: bool
    max_initial_timestamp: float | None
    seed: int
    speaker: str | None
    word_timestamps: bool
    prepend_punctuations: str
    append_punctuations: str
    hallucination_silence_threshold: float | None
    token_details: int
    clip_timestamps: str | Iterable[float]
    mel_reference: Literal["file", "running"]
    start_s: float
    vad: bool
    vad_model: str | None
    vad_threshold: float
    vad_min_silence_ms: float
    vad_min_speech_ms: float
    vad_max_speech_s: float | None
    vad_pad_ms: float
    parallel: int
    guard: Literal["off", "mark", "drop"]


class TranscribeOptions(DecodeOptions, total=False):
    """And how the recording is read."""

    rate: int | None
    channel: int
    track: int
    progress: ProgressOption
    on_window: Callable[[bytes], object] | None
    resume: Iterable[bytes]
    manifest: bool


# What transcribe() takes besides the session's options.
OWN = ("rate", "channel", "track", "progress", "on_window", "resume", "manifest")
DEFAULTS_FOR_NONE = {"beam_size": 0, "best_of": 5, "sample_len": 0, "suppress_tokens": ""}


def _temperatures(values: Sequence[float]) -> dict[str, float | str | None]:
    """A list of temperatures as the library has it: the first one and a step, up to 1; else a list."""
    numbers = [float(value) for value in values]
    if not numbers:
        raise ValueError("temperature: an empty list")
    if len(numbers) == 1:
        return {"temperature": numbers[0], "temperature_increment": None}
    step = numbers[1] - numbers[0]
    steady = step > 0 and all(abs(numbers[0] + i * step - value) < 1e-6 for i, value in enumerate(numbers))
    if not steady or not numbers[-1] <= 1.0 + 1e-6 < numbers[-1] + step:
        return {"temperature": numbers[0], "temperatures": ",".join(map(repr, numbers))}
    return {"temperature": numbers[0], "temperature_increment": step}


def _joined(value: Any) -> Any:
    """[1, 2] as "1,2"; anything else as it is"""
    if value is None or isinstance(value, str):
        return value
    return ",".join(str(item) if isinstance(item, str) else repr(item.item() if hasattr(item, "item") else item)
                    for item in value)


def session_options(given: Mapping[str, Any], what: str = "transcribe") -> dict[str, Any]:
    """The dictionary that the extension takes; names are checked."""
    check_names(what, given, (*_native.SESSION_OPTIONS, *OWN))
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name in OWN and name != "channel":
            continue
        if value is None and name in DEFAULTS_FOR_NONE:
            value = DEFAULTS_FOR_NONE[name]
        if name in ("suppress_tokens", "clip_timestamps", "languages"):
            value = _joined(value)
        if name == "temperature" and not isinstance(value, (int, float)) and hasattr(value, "__len__"):
            made.update(_temperatures(value))
            continue
        made[name] = value
    return made
