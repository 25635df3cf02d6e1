"""max_whisper/faster_whisper/_types.py - the dataclasses of a transcription: faster-whisper's fields in its order."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any
from warnings import warn

from .vad import VadOptions


def _as_dict(item: Any) -> dict[str, Any]:
    name = type(item).__name__
    warn(f"{name}._asdict() method is deprecated, use dataclasses.asdict({name}) instead", DeprecationWarning, 3)
    return asdict(item)


@dataclass
class Word:
    """A word with its times in seconds."""

    start: float
    end: float
    word: str
    probability: float

    def _asdict(self) -> dict[str, Any]:
        return _as_dict(self)


@dataclass
class Segment:
    """A stretch of text; ids count from 1."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: list[Word] | None
    temperature: float | None

    def _asdict(self) -> dict[str, Any]:
        return _as_dict(self)


@dataclass
class TranscriptionOptions:
    """How a recording is transcribed."""

    beam_size: int
    best_of: int
    patience: float
    length_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    log_prob_threshold: float | None
    no_speech_threshold: float | None
    compression_ratio_threshold: float | None
    condition_on_previous_text: bool
    prompt_reset_on_temperature: float
    temperatures: list[float]
    initial_prompt: str | Iterable[int] | None
    prefix: str | None
    suppress_blank: bool
    suppress_tokens: list[int] | tuple[int, ...] | None
    without_timestamps: bool
    max_initial_timestamp: float
    word_timestamps: bool
    prepend_punctuations: str
    append_punctuations: str
    multilingual: bool
    max_new_tokens: int | None
    clip_timestamps: Any
    hallucination_silence_threshold: float | None
    hotwords: str | None


@dataclass
class TranscriptionInfo:
    """What is known about a recording before its text."""

    language: str
    language_probability: float
    duration: float
    duration_after_vad: float
    all_language_probs: list[tuple[str, float]] | None
    transcription_options: TranscriptionOptions
    vad_options: VadOptions | None
