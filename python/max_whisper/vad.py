"""max_whisper/vad.py - where somebody speaks: Silero's network, for recordings and for streams.

    for region in max_whisper.vad.regions("talk.mp3"):
        print(region.start, region.end)

Option names are the library's: threshold, neg_threshold, min_speech_ms, max_speech_s, min_silence_ms, pad_ms,
min_silence_at_max_speech_ms, cut_at_longest_pause, model, model_dir, sample_rate. Defaults are those of silero-vad 6.
"""
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._audio import AudioInput, Samples, open_recording, read_all, samples_of
from ._errors import check_names
from ._types import Region

__all__ = ["Detector", "probabilities", "regions"]


class Detector:
    """A stream of speech detection: feed, then iterate over the regions that are known."""

    def __init__(self, **options: Any) -> None:
        check_names("vad", options, _native.VAD_OPTIONS)
        if options.get("model_dir") is not None:
            options["model_dir"] = os.fspath(options["model_dir"])
        self._native = _native.Vad(options)

    @property
    def chunk(self) -> int:
        """Samples for each probability: 512 at 16 kHz."""
        return self._native.chunk

    def feed(self, samples: npt.ArrayLike) -> None:
        """Mono samples at the rate of the options, in [-1, 1]."""
        self._native.feed(samples_of(samples))

    def finish(self) -> None:
        """No more samples."""
        self._native.finish()

    def reset(self) -> None:
        """As if new: another recording."""
        self._native.reset()

    def regions(self) -> Iterator[Region]:
        """The regions that are complete and were not given yet."""
        while item := self._native.next():
            yield Region(item[2], item[3])

    def samples(self) -> Iterator[tuple[int, int]]:
        """The same as (first sample, sample after the last)."""
        while item := self._native.next():
            yield item[0], item[1]

    def probabilities(self) -> npt.NDArray[np.float32]:
        """Those that were not read yet, one for each chunk."""
        parts: list[npt.NDArray[np.float32]] = []
        while True:
            part = np.empty(4096, np.float32)
            got = self._native.probabilities(part)
            parts.append(part[:got])
            if got < len(part):
                return np.concatenate(parts)


def _blocks(audio: AudioInput, rate: int | None) -> Iterable[Samples]:
    recording = open_recording(audio, rate)
    if recording.native:
        return [read_all(recording.native)]
    return [recording.samples] if recording.samples is not None else recording.blocks or ()


def regions(audio: AudioInput, *, rate: int | None = None, **options: Any) -> list[Region]:
    """The stretches of speech in a recording, in seconds."""
    detector = Detector(**options)
    for block in _blocks(audio, rate):
        detector.feed(block)
    detector.finish()
    return list(detector.regions())


def probabilities(audio: AudioInput, *, rate: int | None = None, **options: Any) -> npt.NDArray[np.float32]:
    """How probable speech is, for each chunk of 32 ms."""
    detector = Detector(**options)
    parts = []
    for block in _blocks(audio, rate):
        for at in range(0, len(block), 1 << 22):   # before more than an hour is waiting
            detector.feed(block[at:at + (1 << 22)])
            parts.append(detector.probabilities())
    detector.finish()
    parts.append(detector.probabilities())
    return np.concatenate(parts)
