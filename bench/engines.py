"""bench/engines.py - the engines of the comparison as worker processes: started, asked, timed out, ended.

In: a row of TABLE, a model's files. Out: Worker objects that answer with a dictionary for each recording.
Invariants: one process an engine, its model loaded once; whatever one does (fails, hangs, prints), the others go on.
"""
import json
import os
import select
import subprocess
import time

import environments

HERE = os.path.dirname(os.path.abspath(__file__))

# What limits a library to an instruction set, for a comparison of equals: variables of ours, CTranslate2, MKL, oneDNN,
# ATen. whisper.cpp's is chosen when it is built; PyPI's is AVX2. An engine that cannot be held has the reason in TABLE.
ISA_VARIABLES = {
    "avx2": {"MXW_CPU": "avx2", "CT2_FORCE_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
             "DNNL_MAX_CPU_ISA": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}


class Engine:
    """One row: name as it is shown, the peer it is part of (None: ours), the form it reads (forms.py), why it cannot be
    held to an older instruction set (None: it can), what its worker is told."""

    def __init__(self, name, peer, reads, not_held=None, **config):
        self.name, self.peer, self.reads, self.not_held, self.config = name, peer, reads, not_held, config


COMPILED_HERE = "compiled for this processor; the package index's, beside it, is for AVX2"
PARTLY_MLAS = "most of its products are MLAS's, which has no setting for it"
BY_PROCESSOR = "it chooses kernels by the processor, and fails where oneDNN is held to AVX2"
NO_BF16 = "without the processor's bf16 it is the row f32"
MLAS = "ONNX Runtime has no setting for it"
TABLE = [
    Engine("openai-whisper f32", "openai-whisper", "state"),
    Engine("faster-whisper f32", "faster-whisper", "ct2", compute="float32"),
    Engine("faster-whisper int8", "faster-whisper", "ct2", compute="int8"),
    Engine("faster-whisper f32 batch 8", "faster-whisper", "ct2", compute="float32", batch=8),
    Engine("faster-whisper int8 batch 8", "faster-whisper", "ct2", compute="int8", batch=8),
    Engine("whisper.cpp f16", "whisper.cpp", "ggml-f16"),
    Engine("whisper.cpp q8_0", "whisper.cpp", "ggml-q8_0"),
    Engine("whisper.cpp q5_0", "whisper.cpp", "ggml-q5_0"),
    Engine("whisper.cpp native f16", "whisper.cpp-native", "ggml-f16", COMPILED_HERE),
    Engine("whisper.cpp native q8_0", "whisper.cpp-native", "ggml-q8_0", COMPILED_HERE),
    Engine("whisper.cpp native q5_0", "whisper.cpp-native", "ggml-q5_0", COMPILED_HERE),
    Engine("openvino genai f32", "openvino", "openvino-f32", PARTLY_MLAS,
           properties={"INFERENCE_PRECISION_HINT": "f32"}),
    Engine("openvino genai auto", "openvino", "openvino-f32", NO_BF16, properties={}),
    Engine("openvino genai int8", "openvino", "openvino-int8", BY_PROCESSOR, properties={}),
    Engine("onnxruntime f32", "onnxruntime", "onnx-f32", MLAS),
    Engine("onnxruntime int8", "onnxruntime", "onnx-int8", MLAS, suffix="_quantized"),
    Engine("max-whisper cpu", None, "own", engine="cpu", precision="exact"),
    Engine("max-whisper max", None, "own", engine="max", precision="exact"),
    Engine("max-whisper int8", None, "own", engine="max", precision="int8"),
]
# Engines that no run can have, and why.
LEFT_OUT = {
    "sherpa-onnx": "its Whisper decodes greedily only, and the script that makes its ONNX files is not in its package",
    "openvino static int8": "optimum's static quantization calibrates on a data set from the hub; int8 here is that of "
                            "weights, which needs none",
}


class WorkerError(Exception):
    """One line about an engine that cannot go on."""


def one_line(reason):
    """Of a reason of many lines the first, which says what kind it is, and the last, which says why."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    return " … ".join(dict.fromkeys([lines[0], lines[-1]])) if lines else "failed without a reason"


class Worker:
    """An engine's process. start() before run(); close() ends it."""

    def __init__(self, engine, settings, isa="native"):
        self.engine, self.settings, self.isa = engine, settings, isa
        self.process, self.buffer = None, b""
        self.load_s = self.start_s = self.version = None

    def start(self, model_path):
        command = self.command(model_path)
        began = time.monotonic()
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, env=self.environment(), preexec_fn=self.pin)
        except OSError as error:
            raise WorkerError(str(error)) from error
        ready = self.answer()
        self.load_s, self.version = ready["load_s"], ready["version"]
        self.start_s = time.monotonic() - began

    def command(self, model_path):
        config, threads = self.engine.config, self.settings.threads
        if self.engine.peer is None:
            worker = os.path.join(self.settings.build, "bench", "bench-worker")
            return [worker, model_path, config["engine"], str(threads), config["precision"]]
        python, why_not = environments.interpreter(self.engine.peer)
        if not python:
            raise WorkerError(why_not)
        told = dict(config, peer=self.engine.peer, model=model_path, threads=threads)
        return [python, os.path.join(HERE, "peers", "worker.py"), json.dumps(told)]

    def environment(self):
        threads = str(self.settings.threads)
        variables = dict(os.environ, OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads, OPENBLAS_NUM_THREADS=threads,
                         PYTHONDONTWRITEBYTECODE="1", HF_HUB_OFFLINE="1")
        variables.update(ISA_VARIABLES.get(self.isa, {}))
        return variables

    def pin(self):
        os.sched_setaffinity(0, self.settings.cpus)

    def answer(self):
        """The next line; WorkerError for an error, an end or a silence."""
        deadline = time.monotonic() + self.settings.timeout
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise WorkerError(f"no answer within {self.settings.timeout} s")
            block = os.read(self.process.stdout.fileno(), 1 << 16)
            if not block:
                raise WorkerError(f"ended with status {self.process.wait()}")
            self.buffer += block
        line, self.buffer = self.buffer.split(b"\n", 1)
        record = json.loads(line)
        if "error" in record:
            raise WorkerError(one_line(record["error"]))
        return record

    def run(self, path):
        try:
            self.process.stdin.write(path.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise WorkerError(str(error)) from error
        return self.answer()

    def close(self):
        if self.process:
            self.process.kill()
            self.process.communicate()
            self.process = None

