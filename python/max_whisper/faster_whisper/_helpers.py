"""max_whisper/faster_whisper/_helpers.py - small functions that both ways of transcribing share."""
from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _audio
from .._progress import reporter
from ._types import Segment
from .audio import decode_audio
from .tokenizer import Tokenizer
from .vad import Chunk, SpeechTimestampsMap

COMPATIBILITIES = ("openai", "faster-whisper")


def samples_from(audio: Any) -> npt.NDArray[np.float32]:
    """The samples of a path, a file, bytes or an array."""
    if isinstance(audio, np.ndarray) or hasattr(audio, "__array__"):
        return _audio.samples_of(np.asarray(audio))
    if isinstance(audio, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(audio, "read"):
        samples: npt.NDArray[np.float32] = decode_audio(audio)
        return samples
    raise TypeError(f"audio: {type(audio).__name__}; expected a path, a file, bytes or an array")


def get_compression_ratio(text: str) -> float:
    """Bytes of the text over bytes of its zlib compression."""
    data = text.encode("utf-8")
    return len(data) / len(zlib.compress(data))


def get_suppressed_tokens(tokenizer: Tokenizer, suppress_tokens: Iterable[int]) -> tuple[int, ...]:
    """All tokens that are never chosen: -1 stands for the symbols that are not spoken."""
    given = [int(token) for token in suppress_tokens or ()]
    chosen = {token for token in given if token >= 0}
    if -1 in given:
        chosen.update(tokenizer.non_speech_tokens)
    chosen.update((tokenizer.transcribe, tokenizer.translate, tokenizer.sot, tokenizer.sot_prev, tokenizer.sot_lm,
                   tokenizer.no_speech))
    return tuple(sorted(chosen))


def restore_speech_timestamps(segments: Iterable[Segment], speech_chunks: list[Chunk],
                              sampling_rate: int) -> Iterator[Segment]:
    """Segments of the speech alone, with the times of the recording; a word lies in one chunk."""
    times = SpeechTimestampsMap(speech_chunks, sampling_rate)
    for segment in segments:
        if segment.words:
            for word in segment.words:
                chunk = times.get_chunk_index((word.start + word.end) / 2)
                word.start = times.get_original_time(word.start, chunk)
                word.end = times.get_original_time(word.end, chunk)
            segment.start, segment.end = segment.words[0].start, segment.words[-1].end
        else:
            segment.start = times.get_original_time(segment.start)
            segment.end = times.get_original_time(segment.end, is_end=True)
        yield segment


class Bar:
    """The progress of log_progress=True: seconds that are done, of all."""

    def __init__(self, shown: bool, total: float) -> None:
        self._report = reporter(bool(shown), None)
        self._total, self._done = total, 0.0

    def add(self, seconds: float) -> None:
        self._done = min(self._done + seconds, self._total)
        if self._report:
            self._report("text", self._done, self._total, 0.0)

    def close(self) -> None:
        close = getattr(self._report, "close", None)
        if close:
            close()


def check_decoding(n_prompt: int, max_new_tokens: int | None, max_length: int) -> None:
    """ValueError if a prompt and max_new_tokens do not fit into the model's text."""
    if max_new_tokens is not None and n_prompt + max_new_tokens > max_length:
        total = n_prompt + max_new_tokens
        raise ValueError(f"The length of the prompt is {n_prompt}, and the `max_new_tokens` {max_new_tokens}. Thus, "
                         f"the combined length of the prompt and `max_new_tokens` is: {total}. This exceeds the "
                         f"`max_length` of the Whisper model: {max_length}.")
