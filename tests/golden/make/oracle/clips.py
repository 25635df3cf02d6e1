"""The clips the oracle hears, by name: "package:NAME" is NAME.wav of the speech folder (tools/make-speech,
tools/fetch-speech), anything else a file of the development set, by its path in the manifest, or a plain path.

Samples are what `ffmpeg -i X -f s16le -ac 1 -acodec pcm_s16le -ar 16000 -` gives.
They can be packed beforehand (`reference.py samples`) for a machine without ffmpeg: .npz files of int16 first
differences, which compress better than the samples.
"""

import json
import os
import subprocess

import numpy as np

from .common import SAMPLE_RATE, sha256

PACKAGE = "two_cities beckett endgame_nagg_nell prompts-161s".split()
PACKAGE += [f"pocketsphinx-{name}" for name in ("goforward", "numbers", "something")]
PACKAGE += [f"pocketsphinx-cards-00{n}" for n in range(1, 6)]
PACKAGE += [f"pocketsphinx-librivox-{n}" for n in ("0870", "0880", "0890", "0920", "0930")]


def decode(path):
    output = f"-f s16le -ac 1 -acodec pcm_s16le -ar {SAMPLE_RATE} -"
    command = ["ffmpeg", "-nostdin", "-v", "error", "-i", path, *output.split()]
    return np.frombuffer(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, "<i2")


class Clips:
    """Every clip's samples, from packed files or through ffmpeg."""

    def __init__(self, data_folder=None, speech_folder=None, packed=()):
        self.data_folder, self.speech_folder = data_folder, speech_folder
        self.packed = {}  # name: (path, begin, end)
        self.loaded = {}
        for path in packed:
            archive = np.load(path)
            for name, count, end in zip(json.loads(str(archive["names"])), archive["counts"], archive["ends"]):
                self.packed[name] = (path, int(end - count), int(end))

    def names(self):
        """Package speech, then the development set in the manifest's order."""
        if self.packed:
            return list(self.packed)
        names = ["package:" + name for name in PACKAGE if os.path.exists(self.path("package:" + name))]
        manifest = os.path.join(self.data_folder, "manifest.jsonl") if self.data_folder else ""
        if os.path.exists(manifest):
            with open(manifest, encoding="utf-8") as lines:
                names += [json.loads(line)["file"] for line in lines]
        return names

    def path(self, name):
        if name.startswith("package:"):
            return os.path.join(self.speech_folder or "", name[len("package:") :] + ".wav")
        beside = os.path.join(self.data_folder or "", name)
        return beside if os.path.exists(beside) else name

    def samples(self, name):
        """int16 samples at 16 kHz"""
        if name in self.packed:
            path, begin, end = self.packed[name]
            if path not in self.loaded:
                self.loaded[path] = np.load(path)["differences"]
            return np.cumsum(self.loaded[path][begin:end], dtype=np.int16)
        return decode(self.path(name))

    def length(self, name):
        """How many samples, cheaply where they are packed; else the file's size will do to order jobs by."""
        if name in self.packed:
            return self.packed[name][2] - self.packed[name][1]
        return os.path.getsize(self.path(name))

    @staticmethod
    def identity(samples):
        """What a golden says about the samples it heard."""
        return {"samples": int(samples.size), "sha256": sha256(np.ascontiguousarray(samples, "<i2").tobytes())}


def pack(clips, names, folder, limit):
    """Packs the clips into samples-N.npz files of at most about limit bytes of samples each."""
    os.makedirs(folder, exist_ok=True)
    groups, size = [[]], 0
    for name in names:
        samples = clips.samples(name)
        if groups[-1] and size + samples.nbytes > limit:
            groups.append([])
            size = 0
        groups[-1].append((name, samples))
        size += samples.nbytes
    for number, group in enumerate(groups):
        counts = np.array([samples.size for _, samples in group], np.int64)
        differences = np.concatenate([np.diff(samples, prepend=np.int16(0)) for _, samples in group])
        np.savez_compressed(
            os.path.join(folder, f"samples-{number}.npz"),
            names=json.dumps([name for name, _ in group]),
            counts=counts,
            ends=np.cumsum(counts),
            differences=differences,
        )
