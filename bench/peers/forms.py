"""bench/peers/forms.py - the same weights for everyone: a checkpoint in the form that each engine reads.

In: a model's name, the program that was built, a work folder. Out: paths of files and folders, each made on first use:
by `max-whisper model convert`, or from its safetensors by the peer's own converter, in that peer's environment.
Invariants: every form comes from the one checkpoint; nothing is fetched; a form that cannot be made is a FormError of
one line.
"""
import json
import os
import shutil
import subprocess

import environments
import machine

# form -> what `model convert` is told, and the name of what it writes. Weights that a peer quantizes itself are f32.
CONVERTED = {
    "state": ("npz", "f32", "npz"),
    "ct2": ("ct2", "auto", "ct2"),
    "ggml-f16": ("ggml", "f16", "f16.bin"),
    "ggml-q8_0": ("ggml", "q8_0", "q8_0.bin"),
    "ggml-q5_0": ("ggml", "q5_0", "q5_0.bin"),
    "safetensors": ("safetensors", "f32", "safetensors"),
}
TASK = ["--task", "automatic-speech-recognition-with-past"]


class FormError(Exception):
    """One line about a form that cannot be made."""


def onnx_instructions():
    """The processor that optimum's quantizer is told of: it chooses signed or unsigned activations by it."""
    return "--avx512_vnni" if "avx512_vnni" in machine.describe()["flags"] else "--avx2"


# form -> the environment, the form it is made from, and the words for its optimum-cli
EXPORTED = {
    "openvino-f32": ("openvino", "safetensors",
                     lambda source, target: ["export", "openvino", "--model", source, *TASK, "--weight-format", "fp32",
                                             target]),
    "openvino-int8": ("openvino", "safetensors",
                      lambda source, target: ["export", "openvino", "--model", source, *TASK, "--weight-format", "int8",
                                              target]),
    "onnx-f32": ("onnxruntime", "safetensors",
                 lambda source, target: ["export", "onnx", "--model", source, *TASK, "--no-post-process", target]),
    "onnx-int8": ("onnxruntime", "onnx-f32",
                  lambda source, target: ["onnxruntime", "quantize", "--onnx_model", source, onnx_instructions(), "-o",
                                          target]),
}


class Model:
    """A checkpoint and its forms: "own" and those of the two tables above."""

    def __init__(self, name, build, folder):
        self.name, self.folder = name, folder
        self.program = os.path.join(build, "max-whisper")
        self.path = json.loads(self.run(self.program, "model", "inspect", name, "--json"))["file"]
        self.failed = {}

    def run(self, *words, **variables):
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              env=dict(os.environ, **variables))
        if done.returncode:
            raise FormError(environments.last_line(done.stderr or done.stdout))
        return done.stdout

    def form(self, kind):
        if kind == "own" or (kind == "state" and self.path.endswith(".pt")):
            return self.path
        ending = CONVERTED[kind][2] if kind in CONVERTED else kind
        target = os.path.join(self.folder, f"{self.name}.{ending}")
        if kind in self.failed:
            raise FormError(self.failed[kind])
        if not os.path.exists(target):
            self.make(kind, target)
        return target

    def make(self, kind, target):
        try:
            if kind in CONVERTED:
                container, type_name, _ = CONVERTED[kind]
                self.run(self.program, "model", "convert", self.path, target, "--format", container, "--type",
                         type_name, "--quiet")
            else:
                self.export(kind, target)
        except FormError as error:
            self.failed[kind] = f"cannot be converted to {kind}: {error}"
            raise FormError(self.failed[kind]) from error

    def export(self, kind, target):
        peer, source, words = EXPORTED[kind]
        python, why_not = environments.interpreter(peer)
        if not python:
            raise FormError(why_not)
        read, part = self.form(source), target + ".part"
        self.run(os.path.join(os.path.dirname(python), "optimum-cli"), *words(read, part), HF_HUB_OFFLINE="1",
                 PYTHONDONTWRITEBYTECODE="1")
        rules = "generation_config.json"  # which ids are suppressed: the quantizer leaves it behind
        if not os.path.exists(os.path.join(part, rules)):
            shutil.copy(os.path.join(read, rules), part)
        os.replace(part, target)
