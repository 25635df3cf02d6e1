"""max_whisper/faster_whisper/feature_extractor.py - the log-mel spectrogram of samples, by the library."""
from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._window import log_mel, mel_filters

Floats = npt.NDArray[np.float32]
_FIXED = {"sampling_rate": 16000, "hop_length": 160, "n_fft": 400}


class FeatureExtractor:
    """Whisper's features: 16 kHz, frames of 10 ms, 80 or 128 bins; the clamp is that of the whole recording."""

    def __init__(self, feature_size: int = 80, sampling_rate: int = 16000, hop_length: int = 160,
                 chunk_length: int = 30, n_fft: int = 400) -> None:
        for name, value in (("sampling_rate", sampling_rate), ("hop_length", hop_length), ("n_fft", n_fft)):
            if value != _FIXED[name]:
                raise NotImplementedError(f"{name}: {value}; Whisper's is {_FIXED[name]}, and no other is computed")
        self.n_fft, self.hop_length, self.sampling_rate = n_fft, hop_length, sampling_rate
        self.chunk_length = chunk_length
        self.n_samples = chunk_length * sampling_rate
        self.nb_max_frames = self.n_samples // hop_length
        self.time_per_frame = hop_length / sampling_rate
        self.mel_filters = self.get_mel_filters(sampling_rate, n_fft, feature_size)

    @staticmethod
    def get_mel_filters(sr: int, n_fft: int, n_mels: int = 128) -> Floats:
        """The filter bank [n_mels, n_fft / 2 + 1]; for 16000 and 400 only."""
        if (sr, n_fft) != (_FIXED["sampling_rate"], _FIXED["n_fft"]):
            raise NotImplementedError(f"get_mel_filters: {sr} samples a second, {n_fft} points; only 16000 and 400")
        return mel_filters(int(n_mels))

    def __call__(self, waveform: npt.NDArray[Any], padding: int = 160, chunk_length: int | None = None) -> Floats:
        """[bins, frames] of samples and `padding` zeros. A chunk_length stays for later calls, as in faster-whisper."""
        if chunk_length is not None:
            self.n_samples = chunk_length * self.sampling_rate
            self.nb_max_frames = self.n_samples // self.hop_length
        return log_mel(np.asarray(waveform, np.float32), self.mel_filters.shape[0], padding or 0)
