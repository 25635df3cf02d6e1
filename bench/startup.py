#!/usr/bin/env python3
"""bench/startup.py - what a process of its own spends before the text of one file: a table of stages.

    bench/startup.py --program build/max-whisper [--model tiny.en] [--device cuda] [--runs 7] FILE...

In: recordings. Each is transcribed by new processes, one after another; the first of them is not counted. The stages
are the program's own log messages that carry a duration (--log-level debug), in the order in which they began; stages
of one thread may lie within others. Out: medians in milliseconds, as Markdown: for each stage when it began and how
long it took (the sum, where a stage comes several times), then when the first and the last byte of text came and when
the process was gone, with a log and without one (the pure time, of as many runs). Texts that differ are an error.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--program", default="build/max-whisper")
    parser.add_argument("--model", default="tiny.en")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="exact")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="a line of JSON instead of the table")
    return parser.parse_args()


def run(options, path, logged):
    """One process: its text, its log, and milliseconds to the first byte, the last byte and the end."""
    command = [options.program, "transcribe", "--model", options.model, "--device", options.device, "--precision",
               options.precision, "--language", "en", "--temperature", "0", "--format", "txt", "--verbose", "False"]
    command += ["--log-level", "debug", "--log-format", "json"] if logged else []
    log = []
    start = time.monotonic()
    process = subprocess.Popen([*command, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reader = threading.Thread(target=lambda: log.extend(process.stderr))
    reader.start()
    text = os.read(process.stdout.fileno(), 1 << 16)
    first = time.monotonic()
    text += process.stdout.read()
    last = time.monotonic()
    process.wait()
    end = time.monotonic()
    reader.join()
    if process.returncode:
        sys.exit(f"{' '.join(command)} {path}: exit {process.returncode}: {b''.join(log)[-500:].decode()}")
    times = {"first text": first - start, "last text": last - start, "process gone": end - start}
    return text, [json.loads(line) for line in log if line.startswith(b"{")], {k: v * 1e3 for k, v in times.items()}


def stages_of(log):
    """{stage: [began, took, times]}, in milliseconds"""
    stages = {}
    for entry in log:
        if "duration_ms" not in entry:
            continue
        words = [os.path.basename(word) for word in entry["message"].split()]
        name = f"{entry['component']}: {' '.join(words)}"
        began = entry["elapsed_ms"] - entry["duration_ms"]
        row = stages.setdefault(name, [began, 0.0, 0])
        row[1] += entry["duration_ms"]
        row[2] += 1
    return stages


def measure(options, path):
    texts, rows, logged, pure = set(), {}, [], []
    for i in range(options.runs + 1):
        text, log, times = run(options, path, True)
        texts.add(text)
        plain_text, _, plain_times = run(options, path, False)
        texts.add(plain_text)
        if i == 0:
            continue
        logged.append(times)
        pure.append(plain_times)
        for name, row in stages_of(log).items():
            rows.setdefault(name, []).append(row)
    if len(texts) != 1:
        sys.exit(f"{path}: the texts of the runs differ")
    table = sorted((statistics.median(r[0] for r in runs), statistics.median(r[1] for r in runs),
                    int(statistics.median(r[2] for r in runs)), name) for name, runs in rows.items())
    ends = {name: [statistics.median(run[name] for run in runs) for runs in (logged, pure)] for name in pure[0]}
    return table, ends, min(run["last text"] for run in pure)


def main():
    options = arguments()
    for path in options.files:
        table, ends, least = measure(options, path)
        if options.json:
            print(json.dumps({"file": os.path.basename(path), "stages": table, "ends": ends, "least": least}))
            continue
        print(f"\n{os.path.basename(path)}, {options.model}, {options.device}, {options.precision}, "
              f"medians of {options.runs}\n\n| stage | began at, ms | took, ms | times |\n|---|---|---|---|")
        for began, took, times, name in table:
            print(f"| {name} | {began:.1f} | {took:.1f} | {times} |")
        for name, (with_log, without) in ends.items():
            print(f"| **{name}** | {with_log:.1f}; without a log {without:.1f} | | |")
        print(f"\nLeast of the last: {least:.1f} ms", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
