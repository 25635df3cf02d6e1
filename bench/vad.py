#!/usr/bin/env python3
"""bench/vad.py --silero FOLDER [OPTION...] - speech detection beside onnxruntime, silero-vad and faster-whisper.

    PYTHON bench/vad.py --silero FOLDER --out docs/results/vad.md

In: a Python with numpy, onnxruntime, packaging and faster-whisper; FOLDER, the unpacked wheel of silero-vad 6.2.3; a
build (libmax_whisper.so, bench-vad-regions); silero-vad in the model folder; recordings (../shared/data beside the
project). Out: tables: the largest difference of a probability to onnxruntime's with the same weights, recordings whose
regions differ from get_speech_timestamps' (defaults, random settings) and from faster-whisper's (its presets), seconds
per hour of audio. Exit status 1 if a probability differs by more than 1e-5, a region does for the same probabilities,
or one does end to end though no probability is near a threshold.
Invariants: all hear the same samples; everything runs in one thread of this process, in turns; 8 kHz is every second
sample.
"""
import argparse
import ctypes
import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import textwrap
import time

import numpy

sys.dont_write_bytecode = True
import machine  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RATES = {16000: 512, 8000: 256}


def golden():
    """tests/golden/make/vad.py: silero-vad's own code without torch."""
    path = os.path.join(ROOT, "tests", "golden", "make", "vad.py")
    spec = importlib.util.spec_from_file_location("golden_vad", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- our library --------------------------------------------------------------------------------------------------

class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("model", ctypes.c_char_p), ("model_dir", ctypes.c_char_p),
                ("sample_rate", ctypes.c_int), ("threshold", ctypes.c_double), ("neg_threshold", ctypes.c_double),
                ("min_speech_ms", ctypes.c_double), ("max_speech_s", ctypes.c_double),
                ("min_silence_ms", ctypes.c_double), ("pad_ms", ctypes.c_double),
                ("min_silence_at_max_speech_ms", ctypes.c_double), ("cut_at_longest_pause", ctypes.c_int)]


class Region(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("first", ctypes.c_int64), ("end", ctypes.c_int64),
                ("start_s", ctypes.c_double), ("end_s", ctypes.c_double)]


class AudioOptions(ctypes.Structure):   # the first fields; struct_size says so
    _fields_ = [("struct_size", ctypes.c_size_t), ("path", ctypes.c_char_p)]


class Library:
    def __init__(self, build):
        os.environ.setdefault("MXW_MODULE_DIR", os.path.join(os.path.abspath(build), "max-whisper-modules"))
        self.lib = ctypes.CDLL(os.path.join(os.path.abspath(build), "libmax_whisper.so.0"))
        self.lib.mxw_last_error.restype = ctypes.c_char_p

    def check(self, status):
        if status < 0:
            sys.exit(f"bench/vad.py: {self.lib.mxw_last_error().decode()}")
        return status

    def samples(self, path):
        """16 kHz, mono"""
        options = AudioOptions(ctypes.sizeof(AudioOptions), path.encode())
        audio, got = ctypes.c_void_p(), ctypes.c_size_t()
        self.check(self.lib.mxw_audio_open(ctypes.byref(options), ctypes.byref(audio)))
        parts, block = [], numpy.empty(1 << 20, dtype=numpy.float32)
        while True:
            self.check(self.lib.mxw_audio_read(audio, block.ctypes.data_as(ctypes.c_void_p),
                                               ctypes.c_size_t(block.size), ctypes.byref(got)))
            if not got.value:
                break
            parts.append(block[:got.value].copy())
        self.lib.mxw_audio_close(audio)
        return numpy.concatenate(parts) if parts else numpy.zeros(0, dtype=numpy.float32)

    def vad(self, rate):
        options, vad = Options(), ctypes.c_void_p()
        self.lib.mxw_vad_options_default(ctypes.byref(options), ctypes.c_size_t(ctypes.sizeof(options)))
        options.sample_rate = rate
        self.check(self.lib.mxw_vad_open(ctypes.byref(options), ctypes.byref(vad)))
        return vad

    def hear(self, vad, samples):
        """probabilities, regions with the default settings"""
        block, got = numpy.empty(1 << 16, dtype=numpy.float32), ctypes.c_size_t()
        region, found, regions = Region(ctypes.sizeof(Region)), [], []
        self.lib.mxw_vad_reset(vad)
        for first in list(range(0, len(samples), 1 << 22)) + [None]:
            if first is None:
                self.check(self.lib.mxw_vad_finish(vad))
            else:
                part = samples[first:first + (1 << 22)]
                self.check(self.lib.mxw_vad_feed(vad, part.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(part))))
            self.check(self.lib.mxw_vad_probabilities(vad, block.ctypes.data_as(ctypes.c_void_p),
                                                      ctypes.c_size_t(block.size), ctypes.byref(got)))
            found.append(block[:got.value].copy())
            while self.check(self.lib.mxw_vad_next(vad, ctypes.byref(region))) == 0:
                regions.append((region.first, region.end))
        return numpy.concatenate(found), regions


class Regions:
    """bench-vad-regions: our state machine on given probabilities."""

    def __init__(self, build):
        self.process = subprocess.Popen([os.path.join(build, "bench", "bench-vad-regions")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def find(self, probabilities, rate, length, options):
        def text(value):
            return "none" if value is None or value == math.inf else repr(float(value))
        words = [str(rate)] + [text(options[key]) for key in (
            "threshold", "neg_threshold", "min_speech_duration_ms", "max_speech_duration_s", "min_silence_duration_ms",
            "speech_pad_ms", "min_silence_at_max_speech")]
        words += [str(int(options["use_max_poss_sil_at_max_speech"])), str(length), str(len(probabilities))]
        self.process.stdin.write((" ".join(words) + "\n").encode() + probabilities.astype("<f4").tobytes())
        self.process.stdin.flush()
        return [tuple(map(int, pair.split("-"))) for pair in self.process.stdout.readline().decode().split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- onnxruntime --------------------------------------------------------------------------------------------------

class Onnx:
    def __init__(self, folder, name):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(os.path.join(folder, "silero_vad", "data", name), options,
                                                    providers=["CPUExecutionProvider"])

    def by_chunk(self, samples, rate):
        """silero_vad.onnx, as OnnxWrapper of silero-vad calls it"""
        chunk, context = RATES[rate], RATES[rate] // 8
        padded = numpy.pad(samples, (context, -len(samples) % chunk))
        state, sr = numpy.zeros((2, 1, 128), dtype=numpy.float32), numpy.array(rate)
        found = numpy.empty((len(padded) - context) // chunk, dtype=numpy.float32)
        for i in range(len(found)):
            out, state = self.session.run(None, {"input": padded[None, i * chunk:(i + 1) * chunk + context],
                                                 "state": state, "sr": sr})
            found[i] = out[0, 0]
        return found

    def by_sequence(self, samples, at_once=10000):
        """silero_vad_16k_sequence.onnx, 10,000 chunks at a time as in faster-whisper"""
        padded = numpy.pad(samples, (64, -len(samples) % 512))
        rows = numpy.lib.stride_tricks.as_strided(padded, ((len(padded) - 64) // 512, 576), (2048, 4))
        h = c = numpy.zeros((1, 1, 128), dtype=numpy.float32)
        found = []
        for i in range(0, len(rows), at_once):
            out, h, c = self.session.run(None, {"input": numpy.ascontiguousarray(rows[i:i + at_once]), "h": h, "c": c})
            found.append(out.reshape(-1))
        return numpy.concatenate(found)


# ---- comparisons --------------------------------------------------------------------------------------------------

def random_settings(n):
    """As people might set them, and stranger."""
    rng = random.Random(6)

    def one():
        threshold = round(rng.uniform(0.1, 0.9), rng.choice((1, 2, 6)))
        return {
            "threshold": threshold,
            "neg_threshold": rng.choice((None, round(rng.uniform(0.01, threshold), 3))),
            "min_speech_duration_ms": rng.choice((0, 250, rng.randint(0, 2000), rng.uniform(0, 500))),
            "max_speech_duration_s": rng.choice((math.inf, rng.randint(1, 30), rng.uniform(0.2, 8))),
            "min_silence_duration_ms": rng.choice((0, 100, 2000, rng.randint(0, 3000), rng.uniform(0, 500))),
            "speech_pad_ms": rng.choice((0, 30, 400, rng.randint(0, 1000), rng.uniform(0, 300))),
            "min_silence_at_max_speech": rng.choice((98, 98, rng.randint(0, 500), rng.uniform(0, 300))),
            "use_max_poss_sil_at_max_speech": rng.random() < 0.6,
        }
    return [one() for _ in range(n)]


DEFAULTS = {"threshold": 0.5, "neg_threshold": None, "min_speech_duration_ms": 250, "max_speech_duration_s": math.inf,
            "min_silence_duration_ms": 100, "speech_pad_ms": 30, "min_silence_at_max_speech": 98,
            "use_max_poss_sil_at_max_speech": True}
FASTER = {"its defaults": {"min_silence_duration_ms": 2000, "max_speech_duration_s": math.inf},
          "batched": {"min_silence_duration_ms": 160, "max_speech_duration_s": 30}}
FASTER_PRESET = {"threshold": 0.5, "neg_threshold": None, "min_speech_duration_ms": 0, "speech_pad_ms": 400,
                 "min_silence_at_max_speech": 98, "use_max_poss_sil_at_max_speech": False}


def by_silero(utils, probabilities, rate, length, options):
    found = utils.get_speech_timestamps_from_probs([float(p) for p in probabilities], sampling_rate=rate,
                                                   audio_length_samples=length, **options)
    return [(region["start"], region["end"]) for region in found]


def nearest(probabilities, options):
    """The distance of the nearest probability to a threshold."""
    low = options["neg_threshold"]
    low = max(options["threshold"] - 0.15, 0.01) if low is None else low
    exact = probabilities.astype(numpy.float64)
    return min(float(numpy.abs(exact - limit).min()) for limit in (options["threshold"], low))


def compare_rate(rate, recordings, library, onnx, utils, regions, settings):
    """One row: the largest difference, and how many times regions differ."""
    vad = library.vad(rate)
    worst, chunks, differ, differ_end_to_end, unexplained, own_default, compared = 0.0, 0, 0, 0, 0, 0, 0
    for i, (name, samples) in enumerate(recordings):
        samples = numpy.ascontiguousarray(samples[::16000 // rate])
        ours, found = library.hear(vad, samples)
        theirs = onnx.by_chunk(samples, rate)
        if len(ours) != len(theirs):
            sys.exit(f"bench/vad.py: {name}: {len(ours)} chunks, onnxruntime has {len(theirs)}")
        off = float(numpy.abs(ours - theirs).max(initial=0))
        worst = max(worst, off)
        chunks += len(ours)
        own_default += found != by_silero(utils, theirs, rate, len(samples), DEFAULTS)
        for options in [DEFAULTS] + settings:
            same = regions.find(ours, rate, len(samples), options)
            differ += same != by_silero(utils, ours, rate, len(samples), options)
            if same != by_silero(utils, theirs, rate, len(samples), options):
                differ_end_to_end += 1
                unexplained += nearest(theirs, options) > off
            compared += 1
        if sys.stderr.isatty():
            print(f"\r{rate} Hz: {i + 1} of {len(recordings)}", end="", file=sys.stderr)
    return {"rate": rate, "chunks": chunks, "worst": worst, "compared": compared, "differ": differ,
            "end_to_end": differ_end_to_end, "unexplained": unexplained, "default": own_default}


def compare_faster_whisper(recordings, library, regions):
    """{preset: (recordings whose regions differ, the same without its extra chunk)}: both state machines get our
    probabilities. It hears a whole chunk of zeros more when the last one is full, and never the last 64 samples of what
    it hears; so do we, for this comparison."""
    from faster_whisper import vad as faster
    vad, result = library.vad(16000), {}
    for name, changed in FASTER.items():
        options = dict(FASTER_PRESET, **changed)
        differ = plain = 0
        for _, samples in recordings:
            padded = numpy.pad(samples, (0, 512 - len(samples) % 512))
            padded[-64:] = 0
            ours, _ = library.hear(vad, padded)
            faster.get_vad_model = lambda: (lambda _: [float(p) for p in ours])
            theirs = faster.get_speech_timestamps(samples, faster.VadOptions(
                min_silence_duration_ms=options["min_silence_duration_ms"],
                max_speech_duration_s=options["max_speech_duration_s"]))
            theirs = [(region["start"], region["end"]) for region in theirs]
            differ += regions.find(ours, 16000, len(samples), options) != theirs
            own, _ = library.hear(vad, samples)
            plain += regions.find(own, 16000, len(samples), options) != theirs
        result[name] = (differ, plain)
    return result


OURS, CAPPED = "max-whisper", "max-whisper, kernels for AVX2, in a process of its own"


def time_avx2(options):
    """The same for our own with MXW_CPU=avx2, where the processor has more; else nothing."""
    if "avx512f" not in machine.describe()["flags"] or "MXW_CPU" in os.environ:
        return {}
    command = [sys.executable, os.path.abspath(__file__), "--silero", options.silero, "--build", options.build,
               "--folder", options.folder, "--rounds", str(options.rounds), "--seconds", str(options.seconds),
               "--speed"]
    out = subprocess.run(command, env=dict(os.environ, MXW_CPU="avx2"), stdout=subprocess.PIPE, check=True).stdout
    return {CAPPED: json.loads(out)}


def time_all(recordings, library, chunked, sequence, rounds, seconds):
    """{who: [(wall, processor) seconds per hour of audio]}, in turns; without onnxruntime ours alone"""
    samples = numpy.concatenate([samples for _, samples in recordings])
    samples = numpy.ascontiguousarray(numpy.resize(samples, seconds * 16000))
    vad = library.vad(16000)
    runs = {OURS: lambda: library.hear(vad, samples)}
    if chunked:
        runs["onnxruntime, silero_vad.onnx, a chunk at a time"] = lambda: chunked.by_chunk(samples, 16000)
        runs["onnxruntime, silero_vad_16k_sequence.onnx, 10,000 chunks at a time"] = \
            lambda: sequence.by_sequence(samples)
    times = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            wall, processor = time.perf_counter(), time.process_time()
            run()
            times[name].append(((time.perf_counter() - wall) * 3600 / seconds,
                                (time.process_time() - processor) * 3600 / seconds))
    return times


# ---- the page -----------------------------------------------------------------------------------------------------

def page(options, recordings, rows, faster, times):
    here, total = machine.describe(), sum(len(samples) for _, samples in recordings) / 16000
    import onnxruntime
    lines = ["# Speech detection beside onnxruntime, silero-vad and faster-whisper", "",
             f"`bench/vad.py --silero FOLDER --out docs/results/vad.md`; {here['cpu']}, {here['cores']} cores "
             f"({', '.join(here['flags'])}), kernels: {os.environ.get('MXW_CPU', 'the best that it has')}; onnxruntime "
             f"{onnxruntime.__version__}, silero-vad 6.2.3, faster-whisper 1.2.1; {len(recordings)} recordings, "
             f"{total:.0f} s. Weights: `silero_vad.jit`, which are those of `silero_vad.onnx`.", "",
             "## The same numbers", "",
             "| rate | chunks | largest difference of a probability | regions on the same probabilities | end to end |",
             "|---|---|---|---|---|"]
    for row in rows:
        compared = row["compared"]
        lines.append(f"| {row['rate']} Hz | {row['chunks']} | {row['worst']:.1e} | {compared - row['differ']} of "
                     f"{compared} equal | {compared - row['end_to_end']} of {compared} equal; defaults: "
                     f"{len(recordings) - row['default']} of {len(recordings)} |")
    lines += ["", f"Every recording under the defaults and {options.settings} random settings. \"On the same "
              "probabilities\": our state machine and `get_speech_timestamps_from_probs` of silero-vad, both on our "
              "probabilities. \"End to end\": the latter on onnxruntime's; what differs there, if anything, has a "
              "probability nearer to a threshold than ours is to onnxruntime's (the script checks that).", "",
              "faster-whisper's `get_speech_timestamps` on the same probabilities (its own weights are others, of "
              "v6.0), with `min_speech_ms` 0, `pad_ms` 400, `cut_at_longest_pause` 0, and:", "",
              "| preset | regions equal | without its extra chunk of zeros |", "|---|---|---|"]
    for name, (differ, plain) in faster.items():
        preset = FASTER[name]
        what = f"{name}: `min_silence_ms` {preset['min_silence_duration_ms']}"
        if preset["max_speech_duration_s"] != math.inf:
            what += f", `max_speech_s` {preset['max_speech_duration_s']}"
        lines.append(f"| {what} | {len(recordings) - differ} of {len(recordings)} | {len(recordings) - plain} of "
                     f"{len(recordings)} |")
    lines += ["", "It hears one chunk of zeros more when the last one is full, and zeros instead of the last 64 "
              "samples; the middle column is with that done for us, too.", "", "## Speed", "",
              f"One thread each, in turns, {options.rounds} rounds over {options.seconds} s of audio (the recordings "
              "one after the other, repeated); seconds for an hour of audio, 16 kHz, best of the rounds (median):", "",
              "| | processor time | wall time | ours is faster by |", "|---|---|---|---|"]
    best = {name: min(processor for _, processor in found) for name, found in times.items()}
    for name, found in times.items():
        wall, processor = ([row[i] for row in found] for i in (0, 1))
        ratio = "" if name in (OURS, CAPPED) else f"{best[name] / best[OURS]:.1f}"
        lines.append(f"| {name} | {min(processor):.2f} ({numpy.median(processor):.2f}) | {min(wall):.2f} "
                     f"({numpy.median(wall):.2f}) | {ratio} |")
    lines += ["", f"Load of the machine at the end: {machine.load()}. Where others work on it, processor time is what "
              "counts.", ""]
    return "\n".join(line if line.startswith("|") else textwrap.fill(line, 124) for line in lines)


def main():
    parser = argparse.ArgumentParser(prog="bench/vad.py", description="Speech detection beside others.")
    parser.add_argument("--silero", required=True, help="the unpacked wheel of silero-vad 6.2.3")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--folder", default=os.path.join(os.path.dirname(ROOT), "shared", "data"))
    parser.add_argument("--settings", type=int, default=200, help="random ones")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1800, help="of audio that is timed")
    parser.add_argument("--speed", action="store_true", help="only that of our own, as JSON")
    parser.add_argument("--out", help="a page; else standard output")
    options = parser.parse_args()
    library, regions = Library(options.build), Regions(options.build)
    utils = golden().load_utils(options.silero)
    paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(options.folder) for name in names
                   if not name.endswith((".jsonl", ".json", ".md", ".txt")))
    if not paths:
        sys.exit(f"bench/vad.py: no recordings in {options.folder}")
    recordings = [(path, library.samples(path)) for path in paths]
    if options.speed:
        print(json.dumps(time_all(recordings, library, None, None, options.rounds, options.seconds)[OURS]))
        return 0
    chunked, sequence = Onnx(options.silero, "silero_vad.onnx"), Onnx(options.silero, "silero_vad_16k_sequence.onnx")
    settings = random_settings(options.settings)
    rows = [compare_rate(rate, recordings, library, chunked, utils, regions, settings) for rate in RATES]
    faster = compare_faster_whisper(recordings, library, regions)
    times = time_all(recordings, library, chunked, sequence, options.rounds, options.seconds)
    times.update(time_avx2(options))
    regions.close()
    text = page(options, recordings, rows, faster, times)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as stream:
            stream.write(text)
    else:
        print(text)
    wrong = any(row["worst"] > 1e-5 or row["differ"] or row["unexplained"] for row in rows)
    return 1 if wrong or any(differ for differ, _ in faster.values()) else 0


sys.exit(main())
