"""bench/environments.py - the peers' private Python environments: one a peer, so that one that fails harms no other.

In: a peer's name. Out: the interpreter that has it, made on first use under $MAX_WHISPER_PEERS, else the per-user cache
(~/.cache/max-whisper/peers); None with a reason if the package index does not have it.
Invariants: nothing is installed outside of that folder; what is there already is used as it is.
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools", "lib"))
from fetchlib import cache_folder, say  # noqa: E402

# peer -> what pip is asked for, and what it takes on disk
REQUIREMENTS = {
    "openai-whisper": (["openai-whisper==20250625"], "6 GB: PyPI's torch brings CUDA along"),
    "faster-whisper": (["faster-whisper==1.2.1"], "0.5 GB"),
    "whisper.cpp": (["pywhispercpp==1.5.1", "numpy"], "0.1 GB"),
}


def folder():
    return cache_folder("MAX_WHISPER_PEERS", "peers")


def interpreter(peer):
    """(path, None) or (None, why not)"""
    wanted, size = REQUIREMENTS[peer]
    place = os.path.join(folder(), peer)
    python = os.path.join(place, "bin", "python")
    stamp = os.path.join(place, "installed.txt")
    if read(stamp) == "\n".join(wanted):
        return python, None
    say(f"{peer}: installing {' '.join(wanted)} ({size}) into {place}")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(folder(), exist_ok=True)
    for command in ([sys.executable, "-m", "venv", place],
                    [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            return None, f"cannot be installed: {last_line(done.stdout)}"
    with open(stamp, "w", encoding="ascii") as stream:
        stream.write("\n".join(wanted))
    return python, None


def read(path):
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read()
    except OSError:
        return None


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
