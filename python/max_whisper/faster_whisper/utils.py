"""max_whisper/faster_whisper/utils.py - names of models, fetching them, times as text."""
from __future__ import annotations

import logging
import os
import shutil
from typing import Any

from .. import _catalog

try:
    from tqdm.auto import tqdm as _tqdm
except ImportError:   # progress bars are all that it is for
    _tqdm = object

# Names and the repositories of the hub that faster-whisper takes them from.
_MODELS = {
    **{name: f"Systran/faster-whisper-{name}" for name in (
        "tiny.en", "tiny", "base.en", "base", "small.en", "small", "medium.en", "medium", "large-v1", "large-v2",
        "large-v3")},
    "large": "Systran/faster-whisper-large-v3",
    "distil-large-v2": "Systran/faster-distil-whisper-large-v2",
    "distil-medium.en": "Systran/faster-distil-whisper-medium.en",
    "distil-small.en": "Systran/faster-distil-whisper-small.en",
    "distil-large-v3": "Systran/faster-distil-whisper-large-v3",
    "distil-large-v3.5": "distil-whisper/distil-large-v3.5-ct2",
    "large-v3-turbo": "mobiuslabsgmbh/faster-whisper-large-v3-turbo",
    "turbo": "mobiuslabsgmbh/faster-whisper-large-v3-turbo",
}
_RELEASED = {"large": "large-v3", "turbo": "large-v3-turbo"}   # the others are called the same here


def available_models() -> list[str]:
    """The names that WhisperModel and download_model take."""
    return list(_MODELS)


def get_assets_path() -> str:
    """The folder assets, which is empty here."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "assets")


def get_logger() -> logging.Logger:
    """The logger "faster_whisper"."""
    return logging.getLogger("faster_whisper")


def check_name(size_or_id: str) -> None:
    """ValueError unless it is one of the names, or OWNER/NAME."""
    if "/" not in size_or_id and size_or_id not in _MODELS:
        raise ValueError(f"Invalid model size '{size_or_id}', expected one of: {', '.join(_MODELS)}")


def find_model(size_or_id: str, model_dir: str | None = None) -> str | None:
    """A copy of the model on this machine, of any program, or None."""
    name = _RELEASED.get(size_or_id, size_or_id)
    own = os.path.join(model_dir or _catalog.model_dir(), name)
    if "/" in name:
        return own if os.path.isdir(own) else None
    return next((entry.path for entry in _catalog.models(model_dir) if entry.name == name), None)


def download_model(size_or_id: str, output_dir: str | None = None, local_files_only: bool = False,
                   cache_dir: str | None = None, revision: str | None = None,
                   use_auth_token: str | bool | None = None) -> str:
    """The folder of a model in CTranslate2's format, fetched from the hub unless it is there. cache_dir is a model
    folder of max-whisper; with output_dir the files lie in that folder itself. The token: HF_TOKEN or the hub's own."""
    check_name(size_or_id)
    if isinstance(use_auth_token, str):
        raise NotImplementedError("use_auth_token: set HF_TOKEN in the environment, or log in with the hub's command")
    if local_files_only:
        found = find_model(size_or_id, cache_dir)
        if not found:
            raise FileNotFoundError(f"{size_or_id}: is not on this machine, and local_files_only is set")
        return found
    options: dict[str, Any] = {"revision": revision, "faster_whisper": True}
    repository = _MODELS.get(size_or_id, size_or_id)
    if output_dir is None:
        return _folder_of(_catalog.fetch(repository, model_dir=cache_dir, **options))
    os.makedirs(output_dir, exist_ok=True)
    parts = os.path.join(output_dir, ".fetch")
    made = _folder_of(_catalog.fetch(repository, model_dir=parts, again=True, **options))
    for name in os.listdir(made):
        os.replace(os.path.join(made, name), os.path.join(output_dir, name))
    shutil.rmtree(parts)
    return output_dir


def _folder_of(path: str) -> str:
    return path if os.path.isdir(path) else os.path.dirname(path)


def format_timestamp(seconds: float, always_include_hours: bool = False, decimal_marker: str = ".") -> str:
    """01:02.345, with hours if there are any"""
    assert seconds >= 0, "non-negative timestamp expected"
    rest, milliseconds = divmod(round(seconds * 1000.0), 1000)
    minutes, whole = divmod(rest, 60)
    hours, minutes = divmod(minutes, 60)
    first = f"{hours:02d}:" if always_include_hours or hours else ""
    return f"{first}{minutes:02d}:{whole:02d}{decimal_marker}{milliseconds:03d}"


class disabled_tqdm(_tqdm):   # type: ignore[misc]
    """A progress bar that is not shown."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if _tqdm is not object:
            super().__init__(*args, **{**kwargs, "disable": True})


def get_end(segments: list[dict[str, Any]]) -> float | None:
    """Where the last word ends, else the last segment; None without any."""
    for segment in reversed(segments):
        if segment["words"]:
            return float(segment["words"][-1]["end"])
    return segments[-1]["end"] if segments else None
