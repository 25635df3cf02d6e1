#!/usr/bin/env python3
"""Prints tests/golden/data/vad.jsonl: probabilities and regions of speech as onnxruntime and silero-vad give them.

    PYTHON tests/golden/make/vad.py FOLDER > tests/golden/data/vad.jsonl

PYTHON has numpy, packaging and onnxruntime; FOLDER is the unpacked wheel of silero-vad 6.2.3 (the one with the folder
silero_vad in it). Rows of kind "probabilities": one recording made of the clips of tests/data, silence and noise, at
two rates, with the weights of silero_vad.onnx (the same as the .jit's); those of silero_vad_16k.safetensors, which no
published network uses, come from numpy in float64, which is checked against onnxruntime with the others. Rows of kind
"regions": made-up probabilities through get_speech_timestamps_from_probs. Tests make recordings and probabilities again
from whole numbers.
"""
import json
import os
import struct
import sys
import types
import wave

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
MASK = (1 << 64) - 1


def load_utils(folder):
    """silero_vad/utils_vad.py without torch, which only names types and a decorator in what is used here."""
    torch = types.ModuleType("torch")
    torch.Tensor = object
    torch.no_grad = lambda: (lambda function: function)
    torch.device = lambda name: name
    sys.modules.setdefault("torch", torch)
    path = os.path.join(folder, "silero_vad", "utils_vad.py")
    module = types.ModuleType("utils_vad")
    with open(path, encoding="utf-8") as stream:
        exec(compile(stream.read(), path, "exec"), module.__dict__)
    return module


# ---- the recording ------------------------------------------------------------------------------------------------

def clip(name):
    with wave.open(os.path.join(ROOT, "tests", "data", name)) as stream:
        return numpy.frombuffer(stream.readframes(stream.getnframes()), dtype="<i2").astype(numpy.int64)


def noise(n):
    x = numpy.arange(1, n + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> numpy.uint64(32))) * numpy.uint64(0xD6E8FEB86659FD93)
    x = x ^ (x >> numpy.uint64(32))
    return (x >> numpy.uint64(51)).astype(numpy.int64) - 4096


def recording(rate):
    """A clip, 1.5 s of nothing, 2 s of noise, another clip; at 8 kHz every second sample of it."""
    parts = [clip("librivox-0880.wav"), numpy.zeros(24000, dtype=numpy.int64), noise(32000), clip("librivox-0870.wav")]
    return (numpy.concatenate(parts)[::16000 // rate] / 32768).astype(numpy.float32)


# ---- networks -----------------------------------------------------------------------------------------------------

def chunks_of(samples, rate):
    """[n, context + chunk]: each with the end of the one before."""
    chunk, context = (512, 64) if rate == 16000 else (256, 32)
    padded = numpy.pad(samples, (context, -len(samples) % chunk))
    return numpy.stack([padded[i:i + context + chunk] for i in range(0, len(padded) - context, chunk)])


def by_onnxruntime(folder, samples, rate):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(os.path.join(folder, "silero_vad", "data", "silero_vad.onnx"), options)
    state = numpy.zeros((2, 1, 128), dtype=numpy.float32)
    found = []
    for chunk in chunks_of(samples, rate):
        out, state = session.run(None, {"input": chunk[None], "state": state, "sr": numpy.array(rate)})
        found.append(float(out[0, 0]))
    return found


def read_safetensors(path):
    with open(path, "rb") as stream:
        size, = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(size))
        data = stream.read()
    return {name: numpy.frombuffer(data[slice(*row["data_offsets"])], dtype="<f4").reshape(row["shape"])
            .astype(numpy.float64) for name, row in header.items() if name != "__metadata__"}


def convolve(x, weight, bias, stride):
    x = numpy.pad(x, ((0, 0), (1, 1)))
    frames = range(0, x.shape[1] - 2, stride)
    return numpy.maximum(numpy.stack([numpy.tensordot(weight, x[:, i:i + 3], 2) for i in frames], 1) + bias[:, None], 0)


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def by_numpy(w, samples):
    h = c = numpy.zeros(128)
    found = []
    for chunk in chunks_of(samples, 16000).astype(numpy.float64):
        padded = numpy.concatenate([chunk, chunk[-2:-66:-1]])
        frames = numpy.stack([padded[i:i + 256] for i in range(0, 385, 128)], 1)
        spectrum = w["stft_conv.weight"][:, 0] @ frames
        x = numpy.sqrt(spectrum[:129] ** 2 + spectrum[129:] ** 2)
        for i, stride in enumerate((1, 2, 2, 1), 1):
            x = convolve(x, w[f"conv{i}.weight"], w[f"conv{i}.bias"], stride)
        gates = w["lstm_cell.weight_ih"] @ x[:, 0] + w["lstm_cell.bias_ih"] + w["lstm_cell.weight_hh"] @ h \
            + w["lstm_cell.bias_hh"]
        i, f, g, o = gates.reshape(4, 128)
        c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(g)
        h = sigmoid(o) * numpy.tanh(c)
        found.append(float(sigmoid(w["final_conv.weight"][0, :, 0] @ numpy.maximum(h, 0) + w["final_conv.bias"][0])))
    return found


def jit_weights(folder):
    """The 16 kHz weights of the .jit under the names of the safetensors: its storages 2 to 16, in the file's order."""
    import zipfile
    named = read_safetensors(os.path.join(folder, "silero_vad", "data", "silero_vad_16k.safetensors"))
    order = ["stft_conv.weight"] + [f"conv{i}.{part}" for i in range(1, 5) for part in ("weight", "bias")] \
        + [f"lstm_cell.{part}" for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")] \
        + ["final_conv.weight", "final_conv.bias"]
    with zipfile.ZipFile(os.path.join(folder, "silero_vad", "data", "silero_vad.jit")) as jit:
        top = jit.namelist()[0].split("/")[0]
        return {name: numpy.frombuffer(jit.read(f"{top}/data/{i}"), dtype="<f4").reshape(named[name].shape)
                .astype(numpy.float64) for i, name in enumerate(order, 2)}


def print_row(row):
    print(json.dumps(row, separators=(",", ":")))


def print_probabilities(folder, utils):
    samples = recording(16000)
    off = numpy.abs(numpy.array(by_numpy(jit_weights(folder), samples)) - by_onnxruntime(folder, samples, 16000)).max()
    if off > 5e-6:
        sys.exit(f"the numpy network is off by {off}")
    safetensors = read_safetensors(os.path.join(folder, "silero_vad", "data", "silero_vad_16k.safetensors"))
    for weights, rate, found in (("silero_vad.jit", 16000, by_onnxruntime(folder, samples, 16000)),
                                 ("silero_vad.jit", 8000, by_onnxruntime(folder, recording(8000), 8000)),
                                 ("silero_vad_16k.safetensors", 16000, by_numpy(safetensors, samples))):
        length = len(recording(rate))
        regions = utils.get_speech_timestamps_from_probs(found, sampling_rate=rate, audio_length_samples=length)
        print_row({"kind": "probabilities", "weights": weights, "rate": rate, "samples": length,
                   "probabilities": [float(f"{p:.8g}") for p in found],
                   "regions": [[region["start"], region["end"]] for region in regions]})


# ---- regions ------------------------------------------------------------------------------------------------------

def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


LEVELS = (2, 20, 26, 32, 60)   # of 64: silence, around both thresholds, speech


def made_up(seed, n):
    """Levels that last for some chunks, with a little noise."""
    found, level = [], 2
    for i in range(n):
        x = mix(seed * 1000003 + i)
        if x % 8 == 0:
            level = LEVELS[(x >> 8) % len(LEVELS)]
        found.append(min(64, max(0, level + (x >> 16) % 9 - 4)) / 64)
    return found


def settings(seed):
    """Random ones; whole and fractional, now and then at their ends."""
    x = [mix(seed * 7919 + i) for i in range(16)]

    def number(i, most, fractions=4):
        return 0 if x[i] % 10 == 0 else (x[i] >> 8) % (most * fractions + 1) / fractions

    return {
        "threshold": (16 + (x[0] >> 8) % 40) / 64 if x[0] % 2 else 0.3 + (x[0] >> 8) % 50 / 100,
        "neg_threshold": None if x[1] % 2 else (1 + (x[1] >> 8) % 32) / 64,
        "min_speech_duration_ms": number(2, 800),
        "max_speech_duration_s": None if x[3] % 3 == 0 else (2 + (x[3] >> 8) % 60) / 8,
        "min_silence_duration_ms": number(4, 900),
        "speech_pad_ms": number(5, 400),
        "min_silence_at_max_speech": 98 if x[6] % 2 else number(6, 300),
        "use_max_poss_sil_at_max_speech": x[7] % 2 == 0,
    }


DEFAULTS = {"threshold": 0.5, "neg_threshold": None, "min_speech_duration_ms": 250, "max_speech_duration_s": None,
            "min_silence_duration_ms": 100, "speech_pad_ms": 30, "min_silence_at_max_speech": 98,
            "use_max_poss_sil_at_max_speech": True}


def by_silero(utils, probabilities, rate, length, options):
    options = dict(options)
    if options["max_speech_duration_s"] is None:
        options["max_speech_duration_s"] = float("inf")
    regions = utils.get_speech_timestamps_from_probs(probabilities, sampling_rate=rate, audio_length_samples=length,
                                                     **options)
    return [[region["start"], region["end"]] for region in regions]


def print_regions(utils):
    s, m, q = 0.9, 0.42, 0.1   # speech; in between, which neither begins nor ends it; quiet
    by_hand = {
        "nothing": ([], {}),
        "all speech": ([s] * 20, {}),
        "one chunk": ([q, s, q, q, q, q, q], {}),
        "one chunk, kept": ([q, s, q, q, q, q, q], {"min_speech_duration_ms": 0}),
        "in between": ([q] + [s] * 9 + [m] * 9 + [q] * 9, {}),
        "in between again": ([q] + [s] * 9 + [q] + [m] * 3 + [q] * 9, {}),
        "a short pause": ([s] * 9 + [q] * 3 + [s] * 9, {}),
        "a pause": ([s] * 9 + [q] * 6 + [s] * 9, {}),
        "padding meets": ([s] * 9 + [q] * 6 + [s] * 9, {"speech_pad_ms": 200}),
        "padding meets what is dropped": ([s] * 9 + [q] * 6 + [s] * 3 + [q] * 30, {"speech_pad_ms": 400}),
        "a fraction of a sample": ([q] * 9 + [s] * 9 + [q] * 60 + [s] * 9 + [q] * 9, {"speech_pad_ms": 30.03}),
        "no pad, no silence": ([s, q, s, q, s, q], {"speech_pad_ms": 0, "min_silence_duration_ms": 0,
                                                    "min_speech_duration_ms": 0}),
        "cut in speech": ([s] * 60, {"max_speech_duration_s": 0.7}),
        "cut at the longest pause": (([s] * 9 + [q] * 5) * 2 + ([s] * 9 + [q] * 7) + ([s] * 9 + [q] * 5) * 3,
                                     {"max_speech_duration_s": 1.5, "min_silence_duration_ms": 400}),
        "cut at the last pause": (([s] * 9 + [q] * 5) * 2 + ([s] * 9 + [q] * 7) + ([s] * 9 + [q] * 5) * 3,
                                  {"max_speech_duration_s": 1.5, "min_silence_duration_ms": 400,
                                   "use_max_poss_sil_at_max_speech": False}),
        "cut at equal pauses": (([s] * 9 + [q] * 6) * 9, {"max_speech_duration_s": 2, "min_silence_duration_ms": 400}),
        "cut while quiet": ([s] * 20 + [q] * 9, {"max_speech_duration_s": 0.85, "min_silence_duration_ms": 900,
                                                 "use_max_poss_sil_at_max_speech": False}),
        "cut at once": ([s] * 9, {"max_speech_duration_s": 0.1}),
    }
    for name, (probabilities, changed) in by_hand.items():
        options = dict(DEFAULTS, **changed)
        for rate, chunk in ((16000, 512), (8000, 256)):
            length = max(0, len(probabilities) * chunk - 100)
            print_row({"kind": "regions", "name": name, "rate": rate, "samples": length,
                       "probabilities": probabilities, **options,
                       "regions": by_silero(utils, probabilities, rate, length, options)})
    for seed in range(1, 201):
        rate, chunk = ((16000, 512), (8000, 256))[seed % 4 == 0]
        n = 40 + mix(seed) % 400
        length = n * chunk - (0 if seed % 3 == 0 else mix(seed + 1) % chunk)
        options = settings(seed)
        print_row({"kind": "regions", "name": f"random {seed}", "rate": rate, "samples": length, "seed": seed,
                   "chunks": n, **options,
                   "regions": by_silero(utils, made_up(seed, n), rate, length, options)})


def main():
    folder = sys.argv[1]
    utils = load_utils(folder)
    print_probabilities(folder, utils)
    print_regions(utils)


if __name__ == "__main__":   # bench/vad.py uses parts of it
    main()
