"""max_whisper/faster_whisper/vad.py - where somebody speaks, in samples, and recordings cut to that."""
from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from .. import vad as _vad

Samples = npt.NDArray[np.float32]
_RATE = 16000


class Chunk(TypedDict):
    """A stretch of speech: from sample `start` up to, but not including, `end`."""

    start: int
    end: int


@dataclass
class VadOptions:
    """Names and defaults of faster-whisper; neg_threshold None: threshold - 0.15, at least 0.01."""

    threshold: float = 0.5
    neg_threshold: float | None = None
    min_speech_duration_ms: int = 0
    max_speech_duration_s: float = float("inf")
    min_silence_duration_ms: int = 2000
    speech_pad_ms: int = 400


def get_speech_timestamps(audio: npt.NDArray[Any], vad_options: VadOptions | dict[str, Any] | None = None,
                          sampling_rate: int = _RATE, **kwargs: Any) -> list[Chunk]:
    """The stretches of speech in samples at 16 kHz. Options: a VadOptions, a dictionary, or keywords."""
    if sampling_rate != _RATE:
        raise NotImplementedError(f"sampling_rate: {sampling_rate}; the detector hears {_RATE} only")
    given = vad_options if isinstance(vad_options, VadOptions) else VadOptions(**(vad_options or {}), **kwargs)
    longest = None if math.isinf(given.max_speech_duration_s) else float(given.max_speech_duration_s)
    detector = _vad.Detector(threshold=given.threshold, neg_threshold=given.neg_threshold,
                             min_speech_ms=given.min_speech_duration_ms, max_speech_s=longest,
                             min_silence_ms=given.min_silence_duration_ms, pad_ms=given.speech_pad_ms,
                             cut_at_longest_pause=False)
    if len(audio):
        detector.feed(np.asarray(audio, np.float32))
    detector.finish()
    return [{"start": first, "end": end} for first, end in detector.samples()]


def collect_chunks(audio: npt.NDArray[Any], chunks: list[Chunk], sampling_rate: int = _RATE,
                   max_duration: float = float("inf")) -> tuple[list[npt.NDArray[Any]], list[dict[str, Any]]]:
    """Chunks put together to arrays of at most max_duration seconds, with what each is made of: offset and duration in
    the seconds of all chunks after one another, and its segments."""
    groups: list[list[Chunk]] = [[]]
    length = 0
    for chunk in chunks:
        own = chunk["end"] - chunk["start"]
        if length + own > max_duration * sampling_rate and groups[-1]:
            groups.append([])
            length = 0
        groups[-1].append(chunk)
        length += own
    arrays, about, offset = [], [], 0
    for group in groups:
        parts = [audio[chunk["start"]:chunk["end"]] for chunk in group]
        arrays.append(np.concatenate(parts) if parts else np.zeros(0, np.float32))
        n = sum(chunk["end"] - chunk["start"] for chunk in group)
        about.append({"offset": offset / sampling_rate, "duration": n / sampling_rate, "segments": group})
        offset += n
    return arrays, about


class SpeechTimestampsMap:
    """From the time in chunks after one another to the time in the recording."""

    def __init__(self, chunks: list[Chunk], sampling_rate: int, time_precision: int = 2) -> None:
        self.sampling_rate, self.time_precision = sampling_rate, time_precision
        self.chunk_end_sample: list[int] = []
        self.total_silence_before: list[float] = []
        heard = 0
        for chunk in chunks:
            self.total_silence_before.append((chunk["start"] - heard) / sampling_rate)
            heard += chunk["end"] - chunk["start"]
            self.chunk_end_sample.append(heard)

    def get_original_time(self, time: float, chunk_index: int | None = None, is_end: bool = False) -> float:
        """The time in the recording, rounded."""
        if chunk_index is None:
            chunk_index = self.get_chunk_index(time, is_end)
        return round(self.total_silence_before[chunk_index] + time, self.time_precision)

    def get_chunk_index(self, time: float, is_end: bool = False) -> int:
        """The chunk that a time lies in; with is_end the one that it ends."""
        sample = int(time * self.sampling_rate)
        if is_end and sample in self.chunk_end_sample:
            return self.chunk_end_sample.index(sample)
        return min(bisect.bisect(self.chunk_end_sample, sample), len(self.chunk_end_sample) - 1)


class SileroVADModel:
    """The detector's network: samples in, the probability of speech for each 512 of them out."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path
        _vad.Detector(model=path)   # is it there?

    def __call__(self, audio: npt.NDArray[Any], num_samples: int = 512,
                 context_size_samples: int = 64) -> npt.NDArray[np.float32]:
        assert audio.ndim == 1, "Input should be a 1D array"
        assert audio.shape[0] % num_samples == 0, "Input size should be a multiple of num_samples"
        if (num_samples, context_size_samples) != (512, 64):
            raise NotImplementedError("the network takes 512 samples and 64 before them")
        return _vad.probabilities(np.asarray(audio, np.float32), model=self.path)


@functools.lru_cache
def get_vad_model() -> SileroVADModel:
    """The detector's network, always the same."""
    return SileroVADModel()
