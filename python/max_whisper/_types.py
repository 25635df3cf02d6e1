"""max_whisper/_types.py - what a transcription gives: plain dataclasses, which can be pickled, compared and changed.

The order of the fields of Word, Token, Segment, Region and Times is that of the tuples that the extension makes.
"""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import _notebook, _writers


@dataclass(slots=True)
class Word:
    """A word with its times in seconds; `word` has its punctuation and, in most languages, the space before it."""

    start: float
    end: float
    word: str
    probability: float = 1.0
    suspicion: float = 0.0
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.word


@dataclass(slots=True)
class Token:
    """A token that was chosen, with its log probability and what else was probable in its place (token_details)."""

    id: int
    logprob: float
    text: str
    alternatives: list[Token] = field(default_factory=list)


@dataclass(slots=True)
class Segment:
    """A stretch of text with its times in seconds."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int] = field(default_factory=list, repr=False)
    temperature: float = field(default=0.0, repr=False)
    avg_logprob: float = field(default=0.0, repr=False)
    compression_ratio: float = field(default=0.0, repr=False)
    no_speech_prob: float = field(default=0.0, repr=False)
    words: list[Word] | None = field(default=None, repr=False)
    language: str | None = None
    language_probability: float | None = field(default=None, repr=False)
    channel: int = field(default=0, repr=False)
    speaker: str | None = None
    suspicion: float = 0.0
    reasons: tuple[str, ...] = ()
    details: list[Token] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        speaker = f", speaker={self.speaker!r}" if self.speaker else ""
        words = f", {len(self.words)} words" if self.words else ""
        return f"Segment({self.start:.2f} to {self.end:.2f}, {self.text!r}{speaker}{words})"


@dataclass(slots=True)
class Region:
    """A stretch of speech, in seconds."""

    start: float
    end: float
    channel: int = 0
    language: str | None = None
    probability: float | None = None


@dataclass(slots=True)
class Times:
    """Where the time went, in milliseconds."""

    load_ms: float = 0.0
    compile_ms: float = 0.0
    audio_ms: float = 0.0
    mel_ms: float = 0.0
    encode_ms: float = 0.0
    decode_ms: float = 0.0
    words_ms: float = 0.0
    vad_ms: float = 0.0
    total_ms: float = 0.0


@dataclass(slots=True)
class Info:
    """What is known about a recording once its first window is done."""

    language: str | None
    language_probability: float | None
    duration: float
    source: str | None = None
    options: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class Progress:
    """How far a transcription is: `stage` is "audio", "languages" or "text"; seconds of the recording."""

    stage: str
    done: float
    total: float | None
    elapsed: float


@dataclass(slots=True)
class Result:
    """A whole transcription."""

    text: str
    segments: list[Segment]
    language: str | None = None
    language_probability: float | None = None
    duration: float = 0.0
    n_windows: int = 0
    n_temperature_fallbacks: int = 0
    times: Times = field(default_factory=Times)
    regions: list[Region] | None = None
    skipped: float = 0.0
    n_words_suspected: int = 0
    source: str | None = None
    manifest: str | None = field(default=None, repr=False)

    @property
    def words(self) -> list[Word]:
        """The words of all segments, in order; empty without word_timestamps."""
        return [word for segment in self.segments for word in segment.words or ()]

    def to(self, format: str, **options: Any) -> str:
        """The result in one of max_whisper.formats(): "srt", "vtt", "json", ... Options: max_line_width,
        max_line_count, max_words_per_line, highlight_words, for subtitles of results with words."""
        return _writers.write(self, format, options).decode()

    def save(self, path: str | os.PathLike[str], format: str | None = None, **options: Any) -> None:
        """Writes a file, which appears complete or not at all; the format is that of the name's ending unless given."""
        _writers.save(self, path, format, options)

    def as_dict(self) -> dict[str, Any]:
        """Everything as dictionaries and lists."""
        return dataclasses.asdict(self)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        text = self.text.strip()
        text = text if len(text) <= 60 else text[:59] + "…"
        return (f"Result({text!r}, {len(self.segments)} segments, language={self.language!r}, "
                f"duration={self.duration:.2f})")

    def _repr_html_(self) -> str:
        return _notebook.result_html(self)


def token_of(item: tuple[Any, ...]) -> Token:
    """A token from the extension's tuple."""
    return Token(item[0], item[1], item[2], [Token(*other) for other in item[3]] if len(item) > 3 else [])


def segment_of(item: tuple[Any, ...]) -> Segment:
    """A segment from the extension's tuple."""
    segment = Segment(*item)
    if segment.words is not None:
        segment.words = [Word(*word) for word in item[10]]
    if segment.details is not None:
        segment.details = [token_of(token) for token in item[17]]
    return segment


def result_of(item: tuple[Any, ...], segments: list[Segment], source: str | None) -> Result:
    """A result from the extension's tuple and the segments that came before."""
    text, language, probability, duration, windows, fallbacks, times, regions, skipped, suspected = item
    return Result(text, segments, language, probability, duration, windows, fallbacks, Times(*(times or ())),
                  None if regions is None else [Region(*region) for region in regions], skipped, suspected, source)
