#!/usr/bin/env python3
"""bench/parallel.py prepare|measure|score WORK [OPTION...] - long recordings one window after the other, with speech
detection, and in lanes: how long each takes, and how many words it gets wrong.

prepare  In: a folder with manifest.jsonl (the development set). Out: WORK/parts, its English speech as 16 kHz WAV, and
         WORK/recordings.json: recordings as lists of parts and pauses, with what is said in them. Needs ffmpeg, or
         Python's soundfile with numpy.
measure  In: WORK, and bench-parallel of a build, or of a kit that tools/gpu-kit made. Joins the recordings and runs all
         modes on each in turn, --runs times. Out: WORK/runs-LABEL.jsonl. Needs nothing but Python, so that it can run
         on a machine that has WORK, the tree and the kit alone.
score    In: WORK. Out: a table of speed and word error rates (bench/wer.py).
Invariants: the same recordings everywhere, sample for sample; modes alternate in one process; the time of a mode is the
median of its runs, and its text is the same in all of them.
"""
import argparse
import array
import importlib.machinery
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import wave

sys.dont_write_bytecode = True
from wer import distance, normalise  # noqa: E402

RATE = 16000
MODES = ("sequential", "vad", "parallel")
JOINED_SETS = ("librispeech-dev-clean", "ljspeech-32", "fleurs-5lang", "librispeech-longform")
WHOLE = {"chapter": "777-126732", "address": "gb0"}   # recordings that are long as they are
PAUSES = (0.2, 0.4, 0.6, 1.0, 1.5, 2.5, 4.0, 8.0)      # seconds between joined parts
HOUR = 3600
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Random:
    """The same numbers on every machine (a linear congruential generator)"""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % n

    def shuffled(self, items):
        items = list(items)
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]
        return items


# ---- prepare ---------------------------------------------------------------------------------------------------------

def convert(path, target):
    """Any recording as 16 kHz mono 16-bit WAV; False where nothing can read or resample it"""
    try:
        import numpy
        import soundfile
        samples, rate = soundfile.read(path, always_2d=True)
        if rate != RATE:
            return False
        samples = numpy.clip(numpy.rint(samples.mean(axis=1) * 32768), -32768, 32767).astype("<i2")
        with wave.open(target, "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(RATE)
            out.writeframes(samples.tobytes())
        return True
    except ImportError:
        return subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-i", path, "-ac", "1", "-ar", str(RATE),
                               "-acodec", "pcm_s16le", target], check=False).returncode == 0


def add_parts(options, folder):
    """The speech as parts: {name: {seconds, said, set}}"""
    parts = {}
    with open(os.path.join(options.data, "manifest.jsonl"), encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        name = os.path.splitext(os.path.basename(row["file"]))[0]
        wanted = row["set"] in JOINED_SETS or name in WHOLE.values()
        if row["language"] != "en" or not wanted or not row.get("transcript"):
            continue
        target = os.path.join(folder, name + ".wav")
        if not convert(os.path.join(options.data, row["file"]), target):
            continue
        with wave.open(target) as stream:
            parts[name] = {"seconds": stream.getnframes() / RATE, "said": row["transcript"], "set": row["set"]}
    return parts


def join_list(parts, names, random, seconds):
    """Parts in random order with pauses, again and again, until the recording is that long (None: each once)"""
    out, length, before = [], 0, -1
    while length > before and (seconds is not None or not out):
        before = length
        for name in random.shuffled(names):
            pause = PAUSES[random.below(len(PAUSES))]
            if seconds is None or length + pause + parts[name]["seconds"] <= seconds:
                out.append([pause, name])
                length += pause + parts[name]["seconds"]
    return out


def prepare(options):
    folder = os.path.join(options.work, "parts")
    os.makedirs(folder, exist_ok=True)
    parts = add_parts(options, folder)
    short = sorted(name for name in parts if name not in WHOLE.values())
    recordings = {title: [[0, name]] for title, name in WHOLE.items() if name in parts}
    recordings["joined"] = join_list(parts, short, Random(1), None)
    recordings["hour"] = join_list(parts, sorted(parts), Random(2), HOUR)
    truth = {title: " ".join(parts[name]["said"] for _, name in items) for title, items in recordings.items()}
    with open(os.path.join(options.work, "recordings.json"), "w", encoding="utf-8") as out:
        json.dump({"recordings": recordings, "truth": truth}, out, indent=1)
    for title, items in recordings.items():
        seconds = sum(pause + parts[name]["seconds"] for pause, name in items)
        print(f"{title}: {seconds:.0f} s, {len(items)} parts, {len(normalise(truth[title]))} words")
    return 0


# ---- measure ---------------------------------------------------------------------------------------------------------

def join(work, title, items):
    """WORK/TITLE.wav; pauses are a faint noise, as rooms are never silent"""
    target = os.path.join(work, title + ".wav")
    random = Random(3)
    noise = array.array("h", (random.below(9) - 4 for _ in range(RATE)))
    with wave.open(target, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        for pause, name in items:
            left = int(pause * RATE)
            while left > 0:
                out.writeframes(noise[:left].tobytes())
                left -= RATE
            with wave.open(os.path.join(work, "parts", name + ".wav")) as part:
                out.writeframes(part.readframes(part.getnframes()))
    return target


def programs_of(options):
    """(worker, environment) of a build, or of a kit, which is unpacked"""
    if not options.kit:
        return options.worker, None
    loader = importlib.machinery.SourceFileLoader("gpu_tests", os.path.join(ROOT, "tools", "gpu-tests"))
    tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_tests", loader))
    loader.exec_module(tests)
    unpacked = tests.unpack(os.path.abspath(options.kit))
    build = os.path.join(unpacked, "build")
    return os.path.join(build, "bench", "bench-parallel"), tests.environment_of(build, unpacked)


def measure(options):
    with open(os.path.join(options.work, "recordings.json"), encoding="utf-8") as stream:
        recordings = json.load(stream)["recordings"]
    titles = [title for title in recordings if not options.recordings or title in options.recordings.split(",")]
    modes = [mode for mode in MODES if mode in options.modes.split(",")]
    worker_path, environment = programs_of(options)
    command = [worker_path, options.model, options.engine, options.device, str(options.threads), str(options.lanes),
               str(options.beam)]
    target = os.path.join(options.work, f"runs-{options.label}.jsonl")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen(command, **pipes) as worker, open(target, "w", encoding="utf-8") as out:
        ready = json.loads(worker.stdout.readline() or '{"error": "the worker ended"}')
        if "error" in ready:
            print(ready["error"], file=sys.stderr)
            return 1
        out.write(json.dumps({"ready": ready, "command": command[1:], "lanes": options.lanes}) + "\n")
        for title in titles:
            path = join(options.work, title, recordings[title])
            for run in range(options.runs):
                for mode in modes:
                    worker.stdin.write(f"{mode} {path}\n")
                    worker.stdin.flush()
                    result = json.loads(worker.stdout.readline() or '{"error": "the worker ended"}')
                    result.update(recording=title, run=run)
                    out.write(json.dumps(result) + "\n")
                    out.flush()
                    if "error" in result:
                        print(result["error"], file=sys.stderr)
                        return 1
                    print(f"{title}, {mode}: {result['seconds']:.2f} s, {result['windows']} windows", flush=True)
            os.remove(path)
        worker.stdin.close()
    return 0


# ---- score -----------------------------------------------------------------------------------------------------------

def score_file(options, path, truth):
    with open(path, encoding="utf-8") as lines:
        head, *runs = [json.loads(line) for line in lines]
    label = re.sub(r"^runs-|\.jsonl$", "", os.path.basename(path))
    print(f"\n{label}: {' '.join(head['command'])} on {head['ready']['device']}, {head['ready']['threads']} threads, "
          f"{head['lanes']} lanes\n")
    print("| recording | mode | time | times real time | of sequential | windows | fallbacks | skipped | words wrong |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for title in dict.fromkeys(run["recording"] for run in runs):
        said = normalise(truth[title])
        base = None
        for mode in MODES:
            own = [run for run in runs if run["recording"] == title and run["mode"] == mode]
            if not own:
                continue
            if len({run["text"] for run in own}) != 1:
                print(f"{title}, {mode}: the text differs from run to run", file=sys.stderr)
                return 1
            seconds = statistics.median(run["seconds"] for run in own)
            base = base or seconds
            wrong = distance(said, normalise(own[0]["text"]))
            print(f"| {title} | {mode} | {seconds:.2f} s | {own[0]['duration_s'] / seconds:.0f} | "
                  f"{base / seconds:.2f} | {own[0]['windows']} | {own[0]['fallbacks']} | {own[0]['skipped_s']:.0f} s | "
                  f"{100 * wrong / len(said):.2f} % |")
    return 0


def score(options):
    with open(os.path.join(options.work, "recordings.json"), encoding="utf-8") as stream:
        truth = json.load(stream)["truth"]
    status = 0
    for name in sorted(os.listdir(options.work)):
        if re.fullmatch(r"runs-.*\.jsonl", name):
            status |= score_file(options, os.path.join(options.work, name), truth)
    return status


def main():
    parser = argparse.ArgumentParser(prog="bench/parallel.py", description="Speed and errors of speech detection and "
                                     "lanes on long recordings.")
    parser.add_argument("verb", choices=("prepare", "measure", "score"))
    parser.add_argument("work", help="folder for recordings and results")
    parser.add_argument("--data", default="../shared/data", help="prepare: recordings, with manifest.jsonl")
    parser.add_argument("--worker", default="build/bench/bench-parallel")
    parser.add_argument("--kit", help="a folder of tools/gpu-kit; the worker is then the kit's own")
    parser.add_argument("--model", default="tiny.en")
    parser.add_argument("--engine", default="max")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--beam", type=int, default=5, help="0: greedy [5]")
    parser.add_argument("--runs", type=int, default=3, help="of each mode on each recording [3]")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--recordings", default="", help="only these, comma separated")
    parser.add_argument("--label", default="cpu", help="of the results [cpu]")
    options = parser.parse_args()
    return {"prepare": prepare, "measure": measure, "score": score}[options.verb](options)


if __name__ == "__main__":
    sys.exit(main())
