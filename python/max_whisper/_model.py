"""max_whisper/_model.py - Model: a Whisper model, ready to transcribe, shared by any number of threads."""
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, Unpack

import numpy as np
import numpy.typing as npt

from . import _native
from ._audio import AudioInput, open_recording
from ._errors import check_names
from ._live import Listening, Live
from ._options import TranscribeOptions, session_options
from ._transcription import Transcription
from ._types import Result
from ._window import FRAMES, Window, log_mel

Precision = Literal["exact", "f16", "int8", "f8"]
Engine = Literal["max", "cpu", "gpu"]


class Model:
    """A model that is open. Threads share it: with batch=N, N transcriptions, each on its thread, run together.

    name_or_path: a released name ("tiny.en", "large-v3"), OWNER/NAME of the hub, a file, or a folder.
    device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1". threads: 0, all that the process may use.
    precision: "exact"; "f16", faster on a GPU; "int8", faster and smaller on a CPU; "int8" or "f8", faster than "f16",
        on a GPU of compute capability 9.0.
    engine: "max", the compiled graph; "cpu" and "gpu" are its oracles.
    """

    def __init__(self, name_or_path: str | os.PathLike[str] = "tiny.en", *, device: str = "auto",
                 precision: Precision = "exact", threads: int = 0, batch: int = 1, engine: Engine = "max",
                 model_dir: str | os.PathLike[str] | None = None, **unknown: Any) -> None:
        check_names("Model", unknown, ("device", "precision", "threads", "batch", "engine", "model_dir"))
        self._native = _native.Model({
            "model": os.fspath(name_or_path), "device": device, "precision": precision, "threads": threads,
            "batch": batch, "engine": engine, "model_dir": None if model_dir is None else os.fspath(model_dir)})
        self._batch = batch
        self._info = self._native.info()

    # ---- transcription -------------------------------------------------------------------------------------------

    def transcribe(self, audio: AudioInput, **options: Unpack[TranscribeOptions]) -> Transcription:
        """An iterator of segments, with .info and .result(). audio: a path, bytes of a file, a binary file object, or
        an array of samples (any dtype; any rate with rate=). Options: openai-whisper's, and more (docs/python.md)."""
        made = session_options(options)
        recording = open_recording(audio, options.get("rate"), options.get("channel", 0), options.get("track", 0))
        if "start_s" not in made:
            made["start_s"] = recording.start()
        try:
            return Transcription(self._native, recording, made, dict(options))
        except BaseException:
            recording.close()
            raise

    async def transcribe_async(self, audio: AudioInput, **options: Unpack[TranscribeOptions]) -> Result:
        """The whole result, in an event loop; cancelling the task stops the work within a step."""
        return await self.transcribe(audio, **options).result_async()

    def transcribe_many(self, audios: Iterable[AudioInput], *, workers: int | None = None,
                        **options: Unpack[TranscribeOptions]) -> Iterator[Result]:
        """Results of many recordings in their order, `workers` of them at a time (default: the model's batch). The
        first that fails raises in its place; what follows it is cancelled."""
        n_workers = workers or self._batch
        waiting: list[Future[Result]] = []
        with ThreadPoolExecutor(n_workers, "max-whisper") as pool:
            try:
                for audio in audios:
                    waiting.append(pool.submit(lambda one: self.transcribe(one, **options).result(), audio))
                    if len(waiting) >= 2 * n_workers:
                        yield waiting.pop(0).result()
                while waiting:
                    yield waiting.pop(0).result()
            finally:
                for future in waiting:
                    future.cancel()

    # ---- streams -------------------------------------------------------------------------------------------------

    def live(self, **options: Any) -> Live:
        """A stream to feed by hand. Options: policy, pause_ms, step_ms, margin_ms, cut_s, start_pad_ms, announce_end,
        keep_result, and those of decoding, with the defaults of docs/live.md."""
        return Live(self._native, options)

    def listen(self, source: Any = "default", *, rate: int | None = None, **options: Any) -> Listening:
        """Events of a source while it speaks: iterate with for or async for. source: blocks of samples from any
        iterable or async iterable, or the name of a microphone."""
        return Listening(self.live(**options), source, rate)

    # ---- pieces --------------------------------------------------------------------------------------------------

    def log_mel(self, audio: AudioInput, padding: int = 0, rate: int | None = None) -> npt.NDArray[np.float32]:
        """Log-mel [n_mels, frames] with as many bins as the model wants."""
        return log_mel(audio, self.dims["n_mels"], padding, rate)

    def window(self, **options: Unpack[TranscribeOptions]) -> Window:
        """One window of 30 seconds at a time: features, languages, text, token times."""
        return Window(self._native, self.dims, dict(options))

    def detect_language(self, audio: AudioInput, rate: int | None = None) -> tuple[str, float, dict[str, float]]:
        """The most probable language of the first 30 seconds, its probability, and those of all, best first."""
        if not self.multilingual:
            return "en", 1.0, {"en": 1.0}
        mel = self.log_mel(audio, 480000, rate)[:, :FRAMES]
        with self.window() as window:
            window.hear(mel)
            all_of_them = window.languages()
        best = next(iter(all_of_them))
        return best, all_of_them[best], all_of_them

    def reserve(self, batch: int, **options: Unpack[TranscribeOptions]) -> None:
        """Allocates memory for so many transcriptions at once, before the first one; from then on the batch."""
        self._native.reserve(session_options(options, "reserve"), batch)
        self._batch = batch

    # ---- tokens --------------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; special tokens are not recognized in it."""
        return self._native.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids; special tokens are left out."""
        return self._native.decode(tokens)

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def info(self) -> dict[str, Any]:
        """Path, format, dims, device, engine, threads, ..."""
        return dict(self._info)

    @property
    def dims(self) -> dict[str, int]:
        """n_mels, n_audio_ctx, n_audio_state, ..., n_text_layer."""
        return dict(self._info["dims"])

    @property
    def device(self) -> str:
        """The device in use: "cpu", "cuda:0"."""
        return str(self._info["device"])

    @property
    def multilingual(self) -> bool:
        """Whether it knows languages other than English."""
        return bool(self._info["multilingual"])

    @property
    def batch(self) -> int:
        """How many transcriptions are computed together."""
        return self._batch

    def graph(self, which: Literal["encoder", "cross", "decoder", "force"] = "encoder") -> str:
        """A graph of the model as text, and what it was compiled to."""
        return self._native.graph(which)

    # ---- life ----------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._native.closed

    def close(self) -> None:
        """Frees the model as soon as the transcriptions that use it are done."""
        self._native.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Model cannot be pickled: open it in each process, by its name or path")

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return (f"Model({self._info['path']!r}, {self._info['size_name']}, device={self.device!r}, "
                f"threads={self._info['threads']}, batch={self._batch}{state})")
