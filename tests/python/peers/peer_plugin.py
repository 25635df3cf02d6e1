"""A plugin of pytest (-p peer_plugin) for faster-whisper's own tests: with MXW_PEER=ours max-whisper is in its place;
names of models that are not to be had are mapped to folders: MXW_PEER_MODELS="tiny=/path/of/base,tiny.en=/path"."""
import os

import pytest

if os.environ.get("MXW_PEER") == "ours":
    import max_whisper
    max_whisper.install_as("faster_whisper", compatibility=os.environ.get("MXW_PEER_COMPATIBILITY"))

import faster_whisper

MODELS = dict(pair.split("=", 1) for pair in os.environ.get("MXW_PEER_MODELS", "").split(",") if pair)
_init = faster_whisper.WhisperModel.__init__
_loaded = {}


def _mapped(self, name, *args, **kwargs):
    """One model of each name for all tests: they do not change it."""
    if name not in _loaded:
        _init(self, MODELS.get(name, name), *args, **{"cpu_threads": 2, **kwargs})
        _loaded[name] = dict(self.__dict__)
    self.__dict__.update(_loaded[name])


faster_whisper.WhisperModel.__init__ = _mapped


def pytest_collection_modifyitems(items):
    """Tests of files and models that are not here are skipped by name."""
    for item in items:
        folder = os.path.join(os.path.dirname(str(item.fspath)), "data")
        if "physcisworks_path" in item.fixturenames and not os.path.exists(os.path.join(folder, "physicsworks.wav")):
            item.add_marker(pytest.mark.skip(reason="physicsworks.wav is not here"))
        if "download" in item.name:
            item.add_marker(pytest.mark.skip(reason="needs the hub"))
