"""openai-whisper's own tests against max_whisper.openai, through install_as("whisper"). Suite `full`.

Needs pytest, and the folder `tests` of openai-whisper 20250625 (with jfk.flac) as $OPENAI_WHISPER_TESTS; test_timing
needs torch and scipy, too. What is absent is skipped by name: models that are not on this machine, and the tests
of CUDA kernels that are torch's.

By hand: OPENAI_WHISPER_TESTS=… PYTHONPATH=build/python python3 tests/python/peer_openai.py [PYTEST-OPTION...]
"""
import importlib.util
import os
import sys
import types

NAME = "python-peer-openai"
MISSING = {"torch": ("test_timing.py",), "scipy": ("test_timing.py",)}


def skip(reason):
    print(f"SKIP: {NAME}: {reason}")
    sys.exit(77)


def has(module):
    return importlib.util.find_spec(module) is not None


def stand_in_for_torch():
    """test_transcribe asks torch one thing: whether there is CUDA. Not enough of it to be taken for torch."""
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    sys.modules["torch"] = torch


class Plugin:
    """Names what cannot be run here."""

    def __init__(self, on_this_machine):
        self.on_this_machine = on_this_machine
        self.absent = []

    def pytest_collection_modifyitems(self, items):
        import pytest
        for item in items:
            model = getattr(item, "callspec", None) and item.callspec.params.get("model_name")
            if model and model not in self.on_this_machine:
                self.absent.append(model)
                item.add_marker(pytest.mark.skip(reason=f"the model {model} is not on this machine"))
            if item.get_closest_marker("requires_cuda"):
                item.add_marker(pytest.mark.skip(reason="kernels of openai-whisper's own, for CUDA"))


def main():
    folder = os.environ.get("OPENAI_WHISPER_TESTS")
    if not folder or not os.path.exists(os.path.join(folder, "test_transcribe.py")):
        skip("no tests of openai-whisper ($OPENAI_WHISPER_TESTS)")
    if not has("numpy") or not has("pytest"):
        skip(f"{sys.executable} has no {'pytest' if has('numpy') else 'numpy'}")
    import pytest

    import max_whisper
    ignored = sorted({file for module, files in MISSING.items() if not has(module) for file in files})
    for file in ignored:
        print(f"SKIP: {NAME}, {file}: torch and scipy are not installed")
    if not has("torch"):
        stand_in_for_torch()
    max_whisper.install_as("whisper")
    plugin = Plugin({entry.name for entry in max_whisper.models() if entry.path})
    status = pytest.main(["-p", "no:cacheprovider", "-q", "-rs", folder, *sys.argv[1:],
                          *(f"--ignore={os.path.join(folder, file)}" for file in ignored)], [plugin])
    for model in plugin.absent:
        print(f"SKIP: {NAME}, test_transcribe: the model {model} is not on this machine")
    sys.exit(int(status))


if __name__ == "__main__":
    main()
