#!/usr/bin/env python3
"""bench/python.py [--build BUILD] [--model NAME] [--rounds N] [FILE...] - what Python costs beside the command line.

Each file is transcribed by the command and by the package, each in a process of its own, alternating, the first round
uncounted. Compared is the time of the transcription alone, from open session to last segment: as the command reports it
(total_ms), and as Python sees it; start of interpreter, model and session are given apart. The goal: at
most 2 % on the 161.5 s recording, at most 5 ms on a short clip.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORKER = """
import json, sys, time
begun = time.perf_counter()
import max_whisper
imported = time.perf_counter()
model = max_whisper.Model(sys.argv[1])
opened = time.perf_counter()
max_whisper.decode_audio(sys.argv[2])   # FFmpeg's libraries are loaded here; the command's time is without that, too
ready = time.perf_counter()
transcription = model.transcribe(sys.argv[2])
session = time.perf_counter()           # the library has opened a session: the command does so before its time begins
result = transcription.result()
done = time.perf_counter()
print(json.dumps({"import": imported - begun, "open": opened - imported, "session": session - ready,
                  "call": done - session,
                  "inside": result.times.total_ms / 1e3, "text": result.text}))
"""


def by_command(options, file):
    """Seconds inside, and the text."""
    done = subprocess.run([os.path.join(options.build, "max-whisper"), file, "--model", options.model, "--format",
                           "json-full", "--quiet"], capture_output=True, text=True, check=True)
    full = json.loads(done.stdout)
    return {"inside": full["times"]["total_ms"] / 1e3, "text": full["text"]}


def by_python(options, file):
    env = dict(os.environ, PYTHONPATH=os.path.join(options.build, "python"),
               MXW_MODULE_DIR=os.path.join(options.build, "max-whisper-modules"))
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    done = subprocess.run([python, "-c", WORKER, options.model, file], capture_output=True, text=True, check=True,
                          env=env)
    return json.loads(done.stdout)


def speech(name):
    return subprocess.run([os.path.join(ROOT, "tools", "make-speech"), "--path", name], capture_output=True, text=True,
                          check=True).stdout.strip()


def measure(options, file):
    runs = [(by_command(options, file), by_python(options, file)) for _ in range(options.rounds + 1)][1:]
    if any(a["text"] != b["text"] for a, b in runs):
        sys.exit(f"{file}: the texts differ")

    def middle(side, key):
        return statistics.median(run[side][key] for run in runs)
    command, call = middle(0, "inside"), middle(1, "call")
    ratios = sorted(b["call"] / a["inside"] for a, b in runs)
    print(f"{os.path.basename(file)}: command {command:.3f} s, Python {call:.3f} s "
          f"(inside {middle(1, 'inside'):.3f}): {1e3 * (call - command):+.1f} ms, "
          f"ratio {statistics.median(ratios):.3f} "
          f"({ratios[0]:.3f} to {ratios[-1]:.3f}); of the call outside the library "
          f"{1e3 * statistics.median(b['call'] - b['inside'] for _, b in runs):.2f} ms; "
          f"import {1e3 * middle(1, 'import'):.0f} ms, model {1e3 * middle(1, 'open'):.0f} ms, "
          f"session {1e3 * middle(1, 'session'):.0f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--model", default="tiny.en")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    for file in options.files or [speech("pocketsphinx-goforward"), speech("prompts-161s")]:
        measure(options, file)


if __name__ == "__main__":
    main()
