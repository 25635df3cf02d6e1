"""max_whisper/_window.py - one window of 30 seconds at a time: log-mel, features, languages, text, token times.

What a transcription does inside, for programs that have a loop of their own.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._audio import AudioInput, decode_audio
from ._options import session_options

HOP = 160
FRAMES = 3000   # of a window
Floats = npt.NDArray[np.float32]


def log_mel(audio: AudioInput, n_mels: int = 80, padding: int = 0, rate: int | None = None) -> Floats:
    """Log-mel of samples and `padding` zeros after them, [n_mels, frames]: openai-whisper's log_mel_spectrogram."""
    samples = decode_audio(audio, rate)
    if padding < 0:
        raise ValueError(f"padding: {padding} is negative")
    mel = np.empty((n_mels, (len(samples) + padding) // HOP), np.float32)
    _native.log_mel(samples, padding, mel)
    return mel


def mel_filters(n_mels: int = 80) -> Floats:
    """The filter bank, [n_mels, 201]."""
    filters = np.empty((n_mels, 201), np.float32)
    _native.mel_filters(filters)
    return filters


@dataclass(slots=True)
class WindowText:
    """What was decoded from a window."""

    tokens: list[int] = field(repr=False)
    text: str
    language: str
    language_probability: float | None
    avg_logprob: float
    no_speech_prob: float
    temperature: float
    compression_ratio: float
    ended: bool


class Window:
    """encode() or set_features(), then languages(), decode(), align() as often as wanted. One thread at a time; windows
    of one model on several threads are batched. Options are those of transcribe(), for the window's life."""

    def __init__(self, model: _native.Model, dims: dict[str, int], options: dict[str, Any]) -> None:
        self._dims = dims
        self._native = _native.Window(model, session_options(options, "window"))

    def encode(self, mel: npt.ArrayLike) -> Floats:
        """Log-mel [n_mels, at most 3000 frames] to features [n_audio_ctx, n_audio_state], which are kept here, too."""
        frames = self._mel(mel)
        features = np.empty((self._dims["n_audio_ctx"], self._dims["n_audio_state"]), np.float32)
        self._native.encode(frames, features)
        return features

    def hear(self, mel: npt.ArrayLike) -> None:
        """encode() without giving the features back: batched with other windows."""
        self._native.encode(self._mel(mel), None)

    def _mel(self, mel: npt.ArrayLike) -> Floats:
        frames = np.ascontiguousarray(mel, dtype=np.float32)
        if frames.ndim != 2 or frames.shape[0] != self._dims["n_mels"]:
            raise ValueError(f"mel: a shape of {frames.shape}; expected ({self._dims['n_mels']}, at most {FRAMES})")
        return frames

    def set_features(self, features: npt.ArrayLike) -> None:
        """Features that an earlier encode() gave, of this model."""
        values = np.ascontiguousarray(features, dtype=np.float32)
        want = (self._dims["n_audio_ctx"], self._dims["n_audio_state"])
        if values.shape not in (want, (1, *want)):
            raise ValueError(f"features: a shape of {values.shape}; expected {want}")
        self._native.set_features(values)

    def languages(self) -> dict[str, float]:
        """The probability of each language that the model knows, best first."""
        pairs = zip((code for code, _ in _native.languages()), self._native.languages())
        return dict(sorted(((code, p) for code, p in pairs if p > 0), key=lambda pair: -pair[1]))

    def decode(self, prompt: Sequence[int] = (), *, language: str | None = None, temperature: float = 0.0,
               number: int = 0, begin: Sequence[int] = ()) -> WindowText:
        """The window's tokens after a prompt (tokens of the text before); number seeds the sampling; begin:
        tokens of text that the window begins with, which are not part of what it gives."""
        return WindowText(*self._native.decode(language, prompt, float(temperature), number, begin))

    def align(self, tokens: Sequence[int], n_frames: int = FRAMES, *,
              language: str | None = None) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Seconds at which each token of text begins, and the last ends; and the probability of each token."""
        times, probabilities = self._native.align(language, tokens, n_frames)
        return np.array(times, np.float64) * 0.02, np.array(probabilities, np.float64)

    def cancel(self) -> None:
        """Stops the call that runs, from any thread."""
        self._native.cancel()

    def close(self) -> None:
        """Frees it."""
        self._native.close()

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
