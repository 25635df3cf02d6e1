"""What every part of the oracle shares: finding the library, rounding floats, writing compact JSON.

The library is imported late, and two of its dependencies that play no part here (numba, for word times, and tqdm)
are replaced by stand-ins where they are not installed, so that the oracle runs wherever torch, numpy and tiktoken are.
"""

import hashlib
import json
import os
import sys
import types

SAMPLE_RATE = 16000


class NoProgressBar:
    """What transcribe() asks of tqdm when it shows nothing."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def update(self, count):
        pass


def whisper_library():
    """openai-whisper, imported on first use; numba and tqdm are stubbed only where they are absent."""
    if "whisper" not in sys.modules:
        stand_ins = {
            "numba": {"jit": lambda *args, **kwargs: (lambda function: function)},
            "tqdm": {"tqdm": NoProgressBar},
        }
        for name, members in stand_ins.items():
            try:
                __import__(name)
            except ImportError:
                sys.modules[name] = types.ModuleType(name)
                vars(sys.modules[name]).update(members)
    import whisper

    return whisper


def versions():
    """The versions that a golden file depends on, for its first line or README."""
    import platform

    import numpy
    import tiktoken
    import torch

    whisper = whisper_library()
    return {
        "openai-whisper": whisper.__version__,
        "torch": torch.__version__.split("+")[0],
        "numpy": numpy.__version__,
        "tiktoken": tiktoken.__version__,
        "python": platform.python_version(),
    }


def number(value, digits=7):
    """A float with that many significant digits, as a Python float; NaN and infinities become None."""
    value = float(value)
    if value != value or value in (float("inf"), float("-inf")):
        return None
    return float(f"{value:.{digits}g}")


def numbers(values, digits=7):
    return [number(v, digits) for v in values]


def dumps(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def write_json_lines(path, rows):
    """One compact JSON value per line; the file appears whole or not at all."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as out:
        for row in rows:
            out.write(dumps(row) + "\n")
    os.replace(part, path)


def sha256(data):
    return hashlib.sha256(data).hexdigest()
