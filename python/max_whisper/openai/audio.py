"""max_whisper/openai/audio.py - samples and log-mel spectrograms, as openai-whisper's module of this name has them."""
from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _window
from .._audio import decode_audio
from .._errors import Error
from ._arrays import float_array, is_tensor, tensor, torch_in_use
from .utils import exact_div

SAMPLE_RATE = 16000
N_FFT = 400
HOP_LENGTH = 160
CHUNK_LENGTH = 30
N_SAMPLES = CHUNK_LENGTH * SAMPLE_RATE
N_FRAMES = exact_div(N_SAMPLES, HOP_LENGTH)
N_SAMPLES_PER_TOKEN = HOP_LENGTH * 2   # the encoder's second convolution halves the frames
FRAMES_PER_SECOND = exact_div(SAMPLE_RATE, HOP_LENGTH)
TOKENS_PER_SECOND = exact_div(SAMPLE_RATE, N_SAMPLES_PER_TOKEN)


def load_audio(file: str | os.PathLike[str], sr: int = SAMPLE_RATE) -> npt.NDArray[np.float32]:
    """A file of any kind as mono samples in [-1, 1). RuntimeError if it cannot be read. sr: 16000, which is the rate
    of everything here."""
    if sr != SAMPLE_RATE:
        raise ValueError(f"sr: {sr}: the models hear {SAMPLE_RATE} samples a second, and nothing else is made")
    try:
        return decode_audio(file)
    except Error as error:
        raise RuntimeError(f"Failed to load audio: {error}") from error


def pad_or_trim(array: Any, length: int = N_SAMPLES, *, axis: int = -1) -> Any:
    """An array or tensor with so many items along an axis: cut, or with zeros added."""
    have = array.shape[axis]
    if have > length:
        return array[tuple(slice(length) if i == axis % array.ndim else slice(None) for i in range(array.ndim))]
    if have == length:
        return array
    if is_tensor(array):
        shape = list(array.shape)
        shape[axis] = length - have
        return torch_in_use().cat([array, array.new_zeros(shape)], dim=axis)
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, length - have)
    padded = np.pad(array, widths)
    return padded.view(type(array)) if isinstance(array, np.ndarray) else padded


def mel_filters(device: Any, n_mels: int) -> Any:
    """The bank of n_mels triangular filters over the spectrum: [n_mels, 201]"""
    if n_mels not in (80, 128):
        raise AssertionError(f"Unsupported n_mels: {n_mels}")
    return tensor(_window.mel_filters(n_mels), device)


def log_mel_spectrogram(audio: Any, n_mels: int = 80, padding: int = 0, device: Any = None) -> Any:
    """The log-mel spectrogram [n_mels, frames] of a file, or of samples at 16 kHz with so many zeros after them."""
    if n_mels not in (80, 128):
        raise AssertionError(f"Unsupported n_mels: {n_mels}")
    if isinstance(audio, (str, os.PathLike)):
        audio = load_audio(audio)
    samples = float_array(audio)
    if samples.ndim != 1:
        raise ValueError(f"audio: an array with {samples.ndim} axes; expected samples of one recording")
    return tensor(_window.log_mel(samples, n_mels, padding), device)
