"""bench/gpu.py - max-whisper and openai-whisper on PyTorch (f16), on one GPU in one run: a line of JSON a figure.

    bench/gpu.py --program build/max-whisper --model tiny.en.pt --speech FOLDER [--whisper FOLDER] [--many N]

In: the program; a checkpoint that both read; the folder of the tests' speech, whose longest file is prompts-161s.wav;
the folder that has the package whisper, where the python that has PyTorch lacks it. Out: seconds of the 161.5 s file by
beam search and greedily, without loading, the best of some runs and all of them; the encoder at 1 and 64 windows; many
files at once. Invariants: both decode the same samples at temperature 0 without fallback, timestamps on, and the texts
are compared.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import types
import wave

LONG = "prompts-161s.wav"


def say(**figure):
    print(json.dumps(figure), flush=True)


def ours(options, path, extra):
    """Runs of one file by the program's own bench, in milliseconds, and what it says of itself."""
    command = [options.program, "bench", path, "--model", options.model, "--engine", "max", "--device", "cuda",
               "--json", "--runs", str(options.runs), "--warm-up", "2", *extra]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        say(engine="max-whisper", failed=done.stderr.strip()[-500:], command=" ".join(command))
        return
    record = json.loads(done.stdout.splitlines()[-1])
    stages = {name: round(stage["median_ms"], 2) for name, stage in record["stages"].items()}
    say(engine="max-whisper", what="file", beam=extra[1], precision=record["precision"], command=" ".join(command),
        best_s=record["stages"]["total"]["least_ms"] / 1e3, runs_s=[run["total"] / 1e3 for run in record["runs"]],
        median_ms=stages, steps=record["runs"][0]["steps"], windows=record["runs"][0]["windows"],
        step_us=record["stages"]["step"]["unit_ms"] * 1e3, gpu=record["machine"]["description"])


def many(options, precision):
    """The long file many times, as files of their own, from process start to the last text."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(options.speech, LONG)
        with wave.open(source, "rb") as recording:
            seconds = recording.getnframes() / recording.getframerate()
        paths = [os.path.join(folder, f"{i:04d}.wav") for i in range(options.many)]
        for path in paths:
            os.symlink(os.path.abspath(source), path)
        for batch in options.batches:
            out = os.path.join(folder, f"out-{batch}")
            command = [options.program, "--model", options.model, "--engine", "max", "--device", "cuda", "--precision",
                       precision, "--batch", str(batch), "--temperature", "0", "--format", "txt", "--output-dir", out,
                       "--verbose", "False", "--stats", *paths]
            start = time.monotonic()
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            wall = time.monotonic() - start
            texts = set()
            for name in os.listdir(out) if os.path.isdir(out) else []:
                with open(os.path.join(out, name), encoding="utf-8") as text:
                    texts.add(text.read())
            stats = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
            loading = (stats[0]["load_ms"] + stats[0]["compile_ms"]) / 1e3 if stats else 0
            say(engine="max-whisper", what="many files", model=options.model, precision=precision, files=len(paths),
                batch=batch, audio_s=seconds * len(paths), wall_s=wall, load_s=loading,
                real_time=seconds * len(paths) / wall, real_time_without_load=seconds * len(paths) / (wall - loading),
                different_texts=len(texts), exit=done.returncode,
                error="" if done.returncode == 0 else done.stderr.strip()[-300:])


def stand_in_for_numba():
    """whisper.timing wants numba for word timestamps, which are not asked for here."""
    try:
        import numba  # noqa: F401
    except ImportError:
        module = types.ModuleType("numba")
        module.jit = lambda *args, **named: (args[0] if args and callable(args[0]) else lambda function: function)
        sys.modules["numba"] = module


def peer(options):
    if options.whisper:
        sys.path.insert(0, options.whisper)
    stand_in_for_numba()
    import numpy
    import torch
    import whisper
    model = whisper.load_model(options.model, device="cuda")
    with wave.open(os.path.join(options.speech, LONG), "rb") as recording:
        samples = numpy.frombuffer(recording.readframes(recording.getnframes()), "<i2").astype(numpy.float32) / 32768
    for beam in (5, None):
        runs = []
        for _ in range(options.peer_runs):
            torch.cuda.synchronize()
            start = time.monotonic()
            result = whisper.transcribe(model, samples, language="en", beam_size=beam, temperature=0.0, fp16=True)
            torch.cuda.synchronize()
            runs.append(time.monotonic() - start)
        say(engine="openai-whisper", what="file", beam=beam or 1, precision="f16", best_s=min(runs), runs_s=runs,
            characters=len(result["text"]), torch=torch.__version__, gpu=torch.cuda.get_device_name())
    for windows in (1, 64):
        mel = torch.randn(windows, model.dims.n_mels, 3000, device="cuda", dtype=torch.float16)   # as transcribe() does
        times = []
        with torch.no_grad():
            for _ in range(12):
                torch.cuda.synchronize()
                start = time.monotonic()
                model.encoder(mel)
                torch.cuda.synchronize()
                times.append((time.monotonic() - start) * 1e3)
        say(engine="openai-whisper", what="encoder", precision="f16", windows=windows, best_ms=min(times[2:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", default="build/max-whisper")
    parser.add_argument("--model", required=True)
    parser.add_argument("--speech", required=True)
    parser.add_argument("--whisper", help="a folder to find the package whisper in")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--peer-runs", type=int, default=3)
    parser.add_argument("--many", type=int, default=128, help="files; 0: leave that out")
    parser.add_argument("--batches", type=lambda text: [int(n) for n in text.split(",")], default=[32, 64])
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    path = os.path.join(options.speech, LONG)
    for precision in ("exact", "f16"):
        for beam in ("5", "none"):
            ours(options, path, ["--beam-size", beam, "--precision", precision])
        if options.many:
            many(options, precision)
    if not options.no_peer:
        peer(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
