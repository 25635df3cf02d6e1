"""max_whisper/_install.py - a drop-in in the place of the package that it stands for, for programs that import that."""
from __future__ import annotations

import importlib
import sys
from types import ModuleType

_PLACES = {
    "faster_whisper": ("max_whisper.faster_whisper",
                       ("assets", "audio", "feature_extractor", "tokenizer", "transcribe", "utils", "vad", "version")),
    "whisper": ("max_whisper.openai",
                ("audio", "decoding", "model", "normalizers", "normalizers.basic", "normalizers.english", "timing",
                 "tokenizer", "transcribe", "utils", "version")),
}


def install_as(name: str, *, compatibility: str | None = None) -> ModuleType:
    """From now on `import faster_whisper` or `import whisper`, and their submodules, get the drop-in in this process.
    Call it before anything imports the real one. compatibility, of faster_whisper: "openai" or "faster-whisper", for
    models that are opened after it."""
    if name not in _PLACES:
        raise ValueError(f"install_as: {name!r} is not one of {', '.join(_PLACES)}")
    source, submodules = _PLACES[name]
    package = importlib.import_module(source)
    there = sys.modules.get(name)
    if there is not None and there is not package:
        raise RuntimeError(f"install_as: {name} was imported already; call it first")
    if compatibility is not None:
        if name != "faster_whisper":
            raise ValueError(f"compatibility: is an option of faster_whisper, not of {name}")
        importlib.import_module(f"{source}.transcribe").set_compatibility(compatibility)
    sys.modules[name] = package
    for submodule in submodules:
        sys.modules[f"{name}.{submodule}"] = importlib.import_module(f"{source}.{submodule}")
    if name == "faster_whisper":
        _rename_classes(name, source, submodules)
    return package


def _rename_classes(name: str, source: str, submodules: tuple[str, ...]) -> None:
    """Classes say that they come from there: programs (stable-ts) ask."""
    for submodule in submodules:
        for item in vars(sys.modules[f"{name}.{submodule}"]).values():
            if isinstance(item, type) and item.__module__.startswith(f"{source}."):
                home = item.__module__.removeprefix(f"{source}.")
                item.__module__ = f"{name}.{home if home in submodules else 'transcribe'}"
