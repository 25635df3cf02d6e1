"""max_whisper.openai - the API of openai-whisper 20250625 over max_whisper's engine.

    import max_whisper.openai as whisper
    model = whisper.load_model("tiny.en")
    print(model.transcribe("talk.mp3")["text"])

The same calls, dictionaries and text; no torch. docs/python.md says what differs.
"""
from __future__ import annotations

import os
from typing import Any

from .. import _catalog
from .._errors import NotFound
from .._model import Precision
from . import timing as timing
from .audio import load_audio, log_mel_spectrogram, pad_or_trim
from .decoding import DecodingOptions, DecodingResult, decode, detect_language
from .model import ModelDimensions, Whisper
from .transcribe import transcribe
from .version import __version__

_MODELS = ("tiny.en", "tiny", "base.en", "base", "small.en", "small", "medium.en", "medium", "large-v1", "large-v2",
           "large-v3", "large", "large-v3-turbo", "turbo")

__all__ = ["DecodingOptions", "DecodingResult", "ModelDimensions", "Whisper", "__version__", "available_models",
           "decode", "detect_language", "load_audio", "load_model", "log_mel_spectrogram", "pad_or_trim", "transcribe"]


def available_models() -> list[str]:
    """The names of the released models."""
    return list(_MODELS)


def load_model(name: str, device: Any = None, download_root: str | None = None, in_memory: bool = False, *,
               precision: Precision = "exact", threads: int = 0, batch: int = 1) -> Whisper:
    """Opens a model: a released name, or the path of a checkpoint in any format that max_whisper reads.

    A released one that is not on this machine is downloaded, to download_root or max_whisper.model_dir(). device: None
    takes a GPU if there is one. in_memory is accepted: weights are always in memory. precision, threads and batch are
    max_whisper.Model's.
    """
    settings: dict[str, Any] = {"precision": precision, "threads": threads, "batch": batch}
    where = "auto" if device is None else str(device)
    if name not in _MODELS and not os.path.exists(name):
        raise RuntimeError(f"Model {name} not found; available models = {available_models()}")
    try:
        return Whisper(name, where, model_dir=download_root, **settings)
    except NotFound:
        if name not in _MODELS:
            raise
    path = _catalog.fetch(name, progress=True, **({} if download_root is None else {"model_dir": download_root}))
    return Whisper(path, where, **settings)
