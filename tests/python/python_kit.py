"""tests/python/python_kit.py - what the tests of the Python package share: a small model, sound, the package itself.

Run by meson with the build's package on the path, or by hand: PYTHONPATH=build/python python3 tests/python/test_core.py
BUILD. The test cases are those of unittest, which pytest runs as well.
"""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ.get("MXW_BUILD_ROOT", "build")
ROOT = os.environ.get("MXW_SOURCE_ROOT", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FOLDER = tempfile.mkdtemp(prefix="max-whisper-python-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

try:
    import numpy as np
except ImportError:
    print(f"SKIP: python: numpy is not installed for {sys.executable}")
    sys.exit(77)

_made = {}


def small_model(kind="narrow"):
    """The path of a model that transcribes nonsense in no time: 16 wide, English."""
    if kind not in _made:
        path = os.path.join(FOLDER, kind + ".pt")
        subprocess.run([os.path.join(BUILD, "tests", "kit", "make_checkpoint"), "pt", "f16", path, kind, "1", "3"],
                       check=True)
        _made[kind] = path
    return _made[kind]


def noise(seconds, seed=1, rate=16000):
    """Sound that even a random model says something about: float32 in [-1, 1)"""
    generator = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    tone = np.sin(2 * np.pi * (200 + 150 * np.sin(2 * np.pi * 0.7 * t)) * t)
    return (0.3 * tone + 0.1 * generator.standard_normal(len(t))).clip(-1, 0.999).astype(np.float32)


def released(name):
    """The path of a released model, or a skip by name."""
    import max_whisper
    path = next((entry.path for entry in max_whisper.models() if entry.name == name), None)
    if not path:
        raise unittest.SkipTest(f"the model {name} is not on this machine (make model MODEL={name})")
    return path


def speech(name):
    """A clip of the package speech, or a skip by name."""
    folder = os.environ.get("MAX_WHISPER_SPEECH") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "max-whisper", "speech")
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        raise unittest.SkipTest(f"the clip {name} is not on this machine (tools/fetch-speech, tools/make-speech)")
    return path


def command():
    """The command line of the same build."""
    return os.path.join(BUILD, "max-whisper")


def main(name):
    """Runs the tests of the file; a skip is named, and all skipped is a skip."""
    program = unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[1:]], exit=False, verbosity=1)
    result = program.result
    for case, why in result.skipped:
        print(f"SKIP: {name}, {case.id().split('.', 1)[-1]}: {why}")
    if not result.wasSuccessful() or not result.testsRun:
        sys.exit(1)
    sys.exit(77 if len(result.skipped) == result.testsRun else 0)
