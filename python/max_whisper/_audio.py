"""max_whisper/_audio.py - whatever a caller has as audio, made what a session takes.

In: a path, bytes of a file, a file object, a numpy array, or anything with the buffer or array interface. Out: an open
recording of the library, an array of float32 at 16 kHz, or blocks of it. Arrays of float32 at 16 kHz are not copied.
Containers are decoded by the FFmpeg module of the library where FFmpeg's libraries are on the system, else by PyAV
where that is installed, else WAV alone can be read; nothing else is tried after a file was refused for what is in it.
"""
from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import Error

RATE = 16000
Samples = npt.NDArray[np.float32]


class Readable(Protocol):
    """A binary file object."""

    def read(self, n: int, /) -> bytes: ...


AudioInput = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Readable, npt.NDArray[Any]]


class Recording:
    """Audio on its way into a session: exactly one of native, samples and blocks is there."""

    def __init__(self, source: str | None, native: _native.Audio | None = None, samples: Samples | None = None,
                 blocks: Iterator[Samples] | None = None) -> None:
        self.source, self.native, self.samples, self.blocks = source, native, samples, blocks

    def start(self) -> float:
        """Where it begins on its container's clock."""
        return self.native.info()[7] if self.native else 0.0

    def pour(self, feed: Callable[[Samples], object], feed_audio: Callable[[_native.Audio], object]) -> None:
        """All of it into a session, or whatever else has these two."""
        if self.native:
            feed_audio(self.native)
        elif self.samples is not None:
            feed(self.samples)
        else:
            for block in self.blocks or ():
                feed(block)

    def close(self) -> None:
        if self.native:
            self.native.close()


def mono(array: npt.NDArray[Any], channel: int = 0) -> npt.NDArray[Any]:
    """Samples of one channel, or the mean of all. Channels are the last axis (as of soundfile); the first (as of
    torchaudio) if that is the shorter one."""
    if array.ndim == 1:
        if channel > 1:
            raise ValueError(f"channel: {channel} of an array with one channel")
        return array
    if array.ndim != 2:
        raise ValueError(f"audio: an array with {array.ndim} axes; expected samples, or samples and channels")
    if array.shape[0] < array.shape[1]:
        array = array.T
    if channel > array.shape[1]:
        raise ValueError(f"channel: {channel} of an array with {array.shape[1]} channels")
    return array[:, channel - 1] if channel else array.mean(axis=1, dtype=np.float32)


def to_float(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers scaled to [-1, 1); floats as they are."""
    if array.dtype.kind == "f":
        return array
    if array.dtype == np.uint8:   # of WAV: silence is 128
        return (array.astype(np.float32) - 128) / 128
    if array.dtype.kind == "i":
        wide: npt.NDArray[Any] = array.astype(np.float32 if array.itemsize <= 2 else np.float64)
        wide /= -float(np.iinfo(array.dtype).min)
        return wide
    raise TypeError(f"audio: an array of {array.dtype}; expected floats or integers")


def samples_of(array: npt.ArrayLike, rate: int | None = None, channel: int = 0) -> Samples:
    """float32 at 16 kHz, mono; the array itself if it is that already."""
    values = np.asarray(array)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"audio: an array of {values.dtype}; expected floats or integers")
    if values.size == 0:
        return np.zeros(0, np.float32)
    values = mono(to_float(values), channel)
    values = np.ascontiguousarray(values, dtype=np.float32)
    return values if rate in (None, RATE) else resample(values, int(rate or RATE))


def wav_bytes(samples: Samples, rate: int) -> bytes:
    """A WAV file of float32 samples."""
    data = samples.tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", min(36 + len(data), 0xFFFFFFFF), b"WAVE", b"fmt ", 16, 3, 1, rate,
                       4 * rate, 4, 32, b"data", min(len(data), 0xFFFFFFFF))
    return head + data


def resample(samples: Samples, rate: int) -> Samples:
    """At 16 kHz, by the converter that files go through."""
    if not 1000 <= rate <= 768000:
        raise ValueError(f"rate: {rate} is not from 1000 to 768000 samples a second")
    if not np.isfinite(samples).all():
        raise ValueError("audio: the array has a value that is not finite")
    audio = _native.Audio(None, wav_bytes(samples, rate), None, "array", 0, 0, None, 0, 0)
    return read_all(audio)


def read_all(audio: _native.Audio) -> Samples:
    """Everything that is left in it."""
    blocks = []
    while True:
        block = np.empty(1 << 16, np.float32)
        got = audio.read_into(block)
        if not got:
            break
        blocks.append(block[:got])
    audio.close()
    return np.concatenate(blocks) if blocks else np.zeros(0, np.float32)


# ---- PyAV, where the library cannot open FFmpeg ----------------------------------------------------------------------

def _needs_ffmpeg(error: Error) -> bool:
    return error.status == "E_UNSUPPORTED" and "module ffmpeg" in str(error)


def _av_blocks(container: Any, track: int, channel: int) -> Iterator[Samples]:
    import av
    stream = container.streams.audio[max(track - 1, 0)]
    layout = "mono" if not channel else None
    resampler = av.AudioResampler(format="s16" if not channel else "s16p", layout=layout or stream.layout, rate=RATE)
    with container:
        frames = container.decode(stream)
        for frame in _then_none(frames):
            for made in resampler.resample(frame):
                planes = made.to_ndarray()
                picked = planes[max(channel - 1, 0)] if channel else planes.reshape(-1)
                yield picked.astype(np.float32) / np.float32(32768)


def _then_none(items: Iterator[Any]) -> Iterator[Any]:
    yield from items
    yield None


def _with_av(file: Any, name: str | None, track: int, channel: int, refused: Error) -> Recording:
    try:
        import av
    except ImportError:
        raise type(refused)(f"{refused}; and PyAV, which could read it, is not installed (pip install av)") from None
    try:
        container = av.open(file)
    except av.error.FFmpegError as error:
        made = Error(f"{name or 'audio'}: PyAV cannot read it: {error}")
        made.status = "E_FORMAT"
        raise made from None
    n_tracks = len(container.streams.audio)
    if n_tracks <= max(track - 1, 0):
        raise Error(f"{name or 'audio'}: " + (f"no audio track {track}" if n_tracks else "no audio in it"))
    return Recording(name, blocks=_av_blocks(container, track, channel))


# ---- any of them -----------------------------------------------------------------------------------------------------

def open_recording(audio: Any, rate: int | None = None, channel: int = 0, track: int = 0) -> Recording:
    """Opens what transcribe() was given, or raises FileNotFoundError, TypeError, ValueError, Error."""
    if isinstance(audio, (str, os.PathLike)):
        path = os.fspath(audio)
        name = os.fsdecode(path)
        try:
            return Recording(name, _native.Audio(os.fsencode(path), None, None, None, channel, track, None, 0, 0))
        except Error as error:
            if not _needs_ffmpeg(error):
                raise
            return _with_av(name, name, track, channel, error)
    if isinstance(audio, (bytes, bytearray, memoryview)):
        try:
            return Recording(None, _native.Audio(None, audio, None, "bytes", channel, track, None, 0, 0))
        except Error as error:
            if not _needs_ffmpeg(error):
                raise
            return _with_av(io.BytesIO(audio), None, track, channel, error)
    if hasattr(audio, "read"):
        return _open_file(audio, channel, track)
    if hasattr(audio, "__array__") or hasattr(audio, "__array_interface__") or isinstance(audio, (list, tuple)):
        return Recording(None, samples=samples_of(audio, rate, channel))
    raise TypeError(f"audio: expected a path, bytes, a file object or an array, not {type(audio).__name__}")


def _open_file(file: Any, channel: int, track: int) -> Recording:
    name = getattr(file, "name", None)
    name = name if isinstance(name, str) else None
    if isinstance(file, io.TextIOBase):
        raise TypeError("audio: a file opened as text; open it with 'rb'")
    try:
        return Recording(name, _native.Audio(None, None, file, name or "file object", channel, track, None, 0, 0))
    except Error as error:
        if not _needs_ffmpeg(error):
            raise
        if hasattr(file, "seek"):
            file.seek(0)
        return _with_av(file, name, track, channel, error)


def decode_audio(audio: AudioInput, rate: int | None = None, channel: int = 0, track: int = 0) -> Samples:
    """The samples that a model would hear: float32, 16 kHz, mono."""
    recording = open_recording(audio, rate, channel, track)
    if recording.native:
        return read_all(recording.native)
    if recording.samples is not None:
        return recording.samples
    blocks = list(recording.blocks or ())
    return np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
