"""bench/environments.py - private Python environments: one a peer, so that one that fails harms no other; and one for
the driver of a browser, which the tests of the server's page use.

In: a peer's name. Out: the interpreter that has it, made on first use under $MAX_WHISPER_PEERS, else the per-user cache
(~/.cache/max-whisper/peers); None with a reason if the package index does not have it.
Invariants: nothing is installed outside of that folder; what is there already is used as it is.
"""
import os
import sys

import machine

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools", "lib"))
from fetchlib import cache_folder, say  # noqa: E402
from venvlib import environment, last_line  # noqa: E402,F401

TORCH = "6 GB: PyPI's torch brings CUDA along"
# peer -> what pip is asked for, and what it takes on disk
REQUIREMENTS = {
    "openai-whisper": (["openai-whisper==20250625"], TORCH),
    "faster-whisper": (["faster-whisper==1.2.1"], "0.5 GB"),
    "faster-whisper-server": (["faster-whisper==1.2.1", "fastapi", "uvicorn", "python-multipart"], "0.5 GB"),
    "whisper.cpp": (["pywhispercpp==1.5.1", "numpy"], "0.1 GB"),
    "whisper.cpp-native": (["--no-cache-dir", "--no-binary=pywhispercpp", "pywhispercpp==1.5.1", "numpy"],
                           "0.1 GB, some minutes: compiled here"),
    "openvino": (["openvino-genai==2026.4.1.0", "optimum-intel==2.2.0"], TORCH),
    "onnxruntime": (["optimum-onnx[onnxruntime]==0.1.0", "torch==2.8.0"], TORCH),
    "transcribe.cpp": (["transcribe-cpp==0.4.1", "numpy"], "0.1 GB"),
    "transformers": (["transformers==5.23.0", "torch", "numpy"], TORCH),
    "playwright": (["playwright==1.65.2"], "0.2 GB"),
}


def build_variables(peer):
    """What a peer that is compiled here is told. Its libraries lie beside its module; the processor is named, so that
    a folder that moves to another one is made again (pywhispercpp hands every variable to CMake, which ignores it)."""
    if peer != "whisper.cpp-native":
        return {}
    return {"CMAKE_ARGS": "-DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON -DCMAKE_INSTALL_RPATH=$ORIGIN "
                          "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
            "BUILT_FOR": " ".join(machine.describe()["flags"])}


def folder():
    return cache_folder("MAX_WHISPER_PEERS", "peers")


def interpreter(peer):
    """(path, None) or (None, why not)"""
    wanted, size = REQUIREMENTS[peer]
    place = os.path.join(folder(), peer)
    return environment(place, wanted, lambda: say(f"{peer}: installing {' '.join(wanted)} ({size}) into {place}"),
                       build_variables(peer))
