"""max_whisper/_catalog.py - what there is: models, devices, languages, formats; fetching; proof that all is right."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import _native
from ._errors import Error, check_names
from ._progress import byte_reporter


@dataclass(slots=True)
class ModelEntry:
    """A released model, and where copies of it are on this machine: (path, whose cache)."""

    name: str
    places: list[tuple[str, str]] = field(default_factory=list)

    @property
    def path(self) -> str | None:
        """The copy that Model(name) would take; None: it is not on this machine."""
        return self.places[0][0] if self.places else None


class Device(NamedTuple):
    """A device that an engine could run on."""

    id: str
    kind: str
    description: str
    features: str
    memory_bytes: int
    memory_free_bytes: int
    cores: int
    usable: bool
    reason: str


class Microphone(NamedTuple):
    """A source of sound: `device` is what listen() takes."""

    device: str
    description: str
    is_default: bool


def _folder(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def models(model_dir: str | os.PathLike[str] | None = None) -> list[ModelEntry]:
    """Every released model, in order of size."""
    return [ModelEntry(name, [(path, source) for path, source in places])
            for name, places in _native.models(_folder(model_dir))]


def model_dir() -> str:
    """The folder that models are fetched to."""
    return _native.model_dir(None) or ""


def fetch(name: str, *, progress: Any = None, **options: Any) -> str:
    """Downloads a released model, OWNER/NAME of the hub, or "silero-vad", unless it is there; its path. Options:
    model_dir, revision, hub, faster_whisper (CTranslate2's format), again, stall_s. progress: True, or a function."""
    known = ("model_dir", "revision", "hub", "faster_whisper", "again", "stall_s")
    check_names("fetch", options, known)
    if options.get("model_dir") is not None:
        options["model_dir"] = os.fspath(options["model_dir"])
    return _native.fetch(name, options, byte_reporter(progress, name))


def devices() -> list[Device]:
    """CPU and GPUs, and whether they can be used."""
    return [Device(*item) for item in _native.devices()]


def microphones() -> list[Microphone]:
    """What PulseAudio, PipeWire and ALSA list here."""
    return [Microphone(*item) for item in _native.microphones()]


def languages() -> dict[str, str]:
    """Code to name: {"en": "english", ...}"""
    return dict(_native.languages())


def language_code(code_or_name: str) -> str:
    """The code of a language given by code, name or alias in any case; ValueError if it is unknown."""
    code = _native.find_language(code_or_name)
    if code is None:
        raise ValueError(f"language: {code_or_name!r} is unknown")
    return code


def formats() -> list[str]:
    """What Result.to() and Result.save() write."""
    return _native.formats()


def command() -> str:
    """The max-whisper command of this package, else the one on the path."""
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "max-whisper")
    found = os.environ.get("MAX_WHISPER_COMMAND") or (inside if os.path.exists(inside) else shutil.which("max-whisper"))
    if not found:
        raise FileNotFoundError(f"the command max-whisper is neither {inside} nor on the path")
    return found


@dataclass(slots=True)
class Verification:
    """What `max-whisper verify` found: whether every engine on this machine computes what it should."""

    holds: bool
    report: dict[str, Any] = field(repr=False)

    def __bool__(self) -> bool:
        return self.holds


def verify(model: str | os.PathLike[str] = "tiny.en", audio: str | os.PathLike[str] | None = None) -> Verification:
    """Proves every engine on this machine with a model and a recording, in a process of its own."""
    words = [command(), "verify", "--json", "--model", os.fspath(model), *([os.fspath(audio)] if audio else [])]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        raise Error((done.stderr.strip().splitlines() or ["verify: no answer"])[-1]) from None
    return Verification(bool(report["holds"]), report)
