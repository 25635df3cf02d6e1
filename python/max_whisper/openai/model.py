"""max_whisper/openai/model.py - Whisper: a model with the attributes and methods of openai-whisper's class."""
from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any, NoReturn

import numpy as np

from .._model import Model, Precision
from ._arrays import device_of, tensor
from .decoding import decode as decode_function
from .decoding import detect_language as detect_language_function
from .decoding import prepare, windows_of
from .transcribe import transcribe as transcribe_function


@dataclass
class ModelDimensions:
    """The sizes of a model."""

    n_mels: int
    n_audio_ctx: int
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    n_vocab: int
    n_text_ctx: int
    n_text_state: int
    n_text_head: int
    n_text_layer: int


class Encoder:
    """The encoder by itself: encoder(mel) gives features."""

    def __init__(self, model: Whisper) -> None:
        self._model = model

    def __call__(self, mel: Any) -> Any:
        return self._model.embed_audio(mel)


class Whisper:
    """A model that is open. What the reference's class has of torch's modules it does not have: the weights are the
    engine's, in the engine's own form."""

    def __init__(self, name_or_path: str | os.PathLike[str], device: str = "auto", *, precision: Precision = "exact",
                 threads: int = 0, batch: int = 1, model_dir: str | os.PathLike[str] | None = None) -> None:
        self._settings: dict[str, Any] = {"precision": precision, "threads": threads, "batch": batch}
        self.model = Model(name_or_path, device=device, model_dir=model_dir, **self._settings)
        known = self.model.info["dims"]
        self.dims = ModelDimensions(**{item.name: int(known[item.name]) for item in fields(ModelDimensions)})
        self.encoder = Encoder(self)

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def device(self) -> Any:
        """torch.device in a program that uses torch, else its name."""
        return device_of(self.model.device)

    @property
    def is_multilingual(self) -> bool:
        """Whether it knows languages other than English."""
        return self.dims.n_vocab >= 51865

    @property
    def num_languages(self) -> int:
        """99 or 100."""
        return self.dims.n_vocab - 51765 - int(self.is_multilingual)

    # ---- where it is ---------------------------------------------------------------------------------------------

    def to(self, device: Any = None, **named: Any) -> Whisper:
        """Opens the model on another device, unless it is on it; the model itself, as of torch."""
        device = named.pop("device", device)
        if named or (device is not None and not _is_device(device)):
            raise TypeError(f"to: expected a device, not {named or device!r}; the precision is chosen by load_model()")
        wanted = self.model.device if device is None else f"cuda:{device}" if isinstance(device, int) else str(device)
        if wanted != self.model.device and wanted != self.model.device.partition(":")[0]:
            before = self.model
            self.model = Model(before.info["path"], device=wanted, **self._settings)
            before.close()
        return self

    def cpu(self) -> Whisper:
        return self.to("cpu")

    def cuda(self, device: int | None = None) -> Whisper:
        return self.to("cuda" if device is None else device)

    def eval(self) -> Whisper:
        """Nothing to do: there is no training here."""
        return self

    # ---- its parts -----------------------------------------------------------------------------------------------

    def embed_audio(self, mel: Any) -> Any:
        """Features [n, n_audio_ctx, n_audio_state] of log-mels [n, n_mels, 3000]; without n, of one."""
        items, encoded, single = windows_of(self, mel)
        if not encoded:
            with self.model.window() as window:
                items = np.stack([prepare(window, item, False) for item in items])
        return tensor(items[0] if single else items)

    def logits(self, tokens: Any, audio_features: Any) -> NoReturn:
        """Not offered: the engine chooses tokens where it computes their logits, which never leave the device."""
        raise NotImplementedError("logits: the engine gives no logits; decode() has tokens and log probabilities")

    def __call__(self, mel: Any, tokens: Any) -> NoReturn:
        self.logits(tokens, mel)

    @property
    def decoder(self) -> NoReturn:
        """Not offered, as logits()."""
        raise NotImplementedError("decoder: the engine's decoder is no module of torch; use decode()")

    @property
    def alignment_heads(self) -> NoReturn:
        """Not offered: the engine knows them, and uses them for word_timestamps."""
        raise NotImplementedError("alignment_heads: the engine keeps them to itself; use word_timestamps=True")

    def set_alignment_heads(self, dump: bytes) -> NoReturn:
        """Not offered: they come with the model."""
        raise NotImplementedError("set_alignment_heads: the heads are those of the model's file or of its size")

    detect_language = detect_language_function
    transcribe = transcribe_function
    decode = decode_function

    def __repr__(self) -> str:
        return f"Whisper({self.model.info['path']!r}, device={self.model.device!r})"


def _is_device(value: Any) -> bool:
    return isinstance(value, (str, int)) or type(value).__name__ == "device"
