"""max_whisper/faster_whisper/audio.py - audio files as samples; log-mel cut to a window."""
from __future__ import annotations

import os
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from .. import _audio

Samples = npt.NDArray[np.float32]


def decode_audio(input_file: str | os.PathLike[str] | bytes | BinaryIO, sampling_rate: int = 16000,
                 split_stereo: bool = False) -> Any:
    """Samples of the first audio track, float32; with split_stereo a pair, left and right (twice the same of a mono
    file). Only 16000 samples a second, which is what the models take."""
    if sampling_rate != _audio.RATE:
        raise NotImplementedError(f"sampling_rate: {sampling_rate}; audio is decoded at {_audio.RATE} only")
    if not split_stereo:
        return _audio.decode_audio(input_file)
    if hasattr(input_file, "read"):
        input_file = input_file.read()   # both channels are read from it
    left = _audio.decode_audio(input_file, channel=1)
    try:
        return left, _audio.decode_audio(input_file, channel=2)
    except ValueError as error:
        if "channel" not in str(error):
            raise
        return left, left.copy()


def pad_or_trim(array: npt.NDArray[Any], length: int = 3000, *, axis: int = -1) -> npt.NDArray[Any]:
    """Log-mel of exactly `length` frames: cut, or followed by zeros."""
    have = array.shape[axis]
    if have > length:
        return np.take(array, np.arange(length), axis=axis)
    if have == length:
        return array
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, length - have)
    return np.pad(array, widths)
