#!/usr/bin/env python3
"""bench/cluster.py [--build BUILD] [--model NAME] [--rounds N] [--copies N] - max-whisper-ray beside the command line.

The same recordings (the 161.5 s file and short clips, so many copies of each) by `max-whisper --batch 4` with as many
threads as there are cores, and by Ray with an actor on each core, alternating. Two figures of each: the wall time of
the whole command, and without start (interpreter, Ray, actors, models; the command line's own loading), which a job of
hours does not notice. The goal is 0.95 of the command line's throughput, without start. Also the most that Ray's object
store held while the job ran, and the processor time of everything that was started, Ray's daemons among it.
Texts are compared. Needs the environment of `tools/python-env ray`, or $MXW_RAY_PYTHON.

    bench/cluster.py --plan 1000000     what a job of so many recordings costs its driver before the first is handed out
"""
import argparse
import ctypes
import glob
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import machine  # noqa: E402

CLIPS = ("prompts-161s", "pocketsphinx-goforward", "pocketsphinx-librivox-0870", "pocketsphinx-librivox-0880",
         "pocketsphinx-librivox-0890", "pocketsphinx-cards-001")
# In the interpreter that has Ray: a job, timed from the first unit that is handed out, with the store watched.
WORKER = """
import json, os, sys, threading, time
from max_whisper.ray import _cluster
from max_whisper.ray._job import Job
from max_whisper.ray._manifest import read_manifest
import ray
manifest, output, model, actors = sys.argv[1:5]
def shared():   # bytes of shared memory that are in use, where the object store is
    state = os.statvfs("/dev/shm")
    return (state.f_blocks - state.f_bfree) * state.f_frsize
before, begun = shared(), time.perf_counter()
ray.init(address="local", num_cpus=int(actors), include_dashboard=False, object_store_memory=100 << 20,
         log_to_driver=False, logging_level="ERROR")
most, over = 0, threading.Event()
def watch():
    global most
    while not over.wait(0.2):
        most = max(most, shared() - before)
threading.Thread(target=watch, daemon=True).start()
job = Job(output, model, "jsonl", device="cpu", threads=1, batch=4)
summary = _cluster.run(job, read_manifest(manifest), _cluster.Cluster(actors=int(actors), cpus=1), progress=False)
over.set()
assert most, "the store was not watched"
print(json.dumps({"whole": time.perf_counter() - begun, "seconds": summary.seconds, "store": most,
                  "errors": summary.n_errors}))
ray.shutdown()
"""

# In the same: a manifest of made-up paths, read, put in order, cut into units, and written as a plan.
PLAN = """
import json, os, resource, sys, time
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from max_whisper.ray import _job, _manifest, _store
folder, n = sys.argv[1], int(sys.argv[2])
lengths = np.random.default_rng(1).exponential(60, n)
names = [f"s3://recordings/2026/{i % 365:03d}/call-{i:09d}-channel-0.wav" for i in range(n)]
path = os.path.join(folder, "manifest.parquet")
pq.write_table(pa.table({"path": names, "duration": lengths}), path, compression="zstd")
del names, lengths
def memory(): return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
before, begun = memory(), time.perf_counter()
entries = _manifest.read_manifest(path)
read = time.perf_counter()
units = _job.units_of(_manifest.longest_first(entries), 100, 32)
job, store = _job.Job(folder, run="0"), _store.Store(folder)
places = job.write_plan(store, units)
done = time.perf_counter()
print(f"{n} recordings: manifest {os.path.getsize(path) / 1e6:.1f} MB as Parquet, read in {read - begun:.1f} s; "
      f"{len(units)} units for 100 actors and a plan of {places[-1][1] / 1e6:.1f} MB in {done - read:.1f} s; "
      f"{memory() - before:.0f} MB of memory in the driver")
"""


def python_with_ray():
    named = os.environ.get("MXW_RAY_PYTHON")
    if named:
        return named
    found = subprocess.run([os.path.join(ROOT, "tools", "python-env"), "ray"], capture_output=True, text=True,
                           check=False)
    if found.returncode:
        sys.exit(found.stderr.strip())
    return found.stdout.strip()


def speech(name):
    return subprocess.run([os.path.join(ROOT, "tools", "make-speech"), "--path", name], capture_output=True, text=True,
                          check=True).stdout.strip()


def timed(words, **more):
    """Wall and processor seconds of a command and all that it started, and what it said."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    wall_s = time.perf_counter() - begun
    try:
        while os.waitpid(-1, 0):   # what it left behind is this process's
            pass
    except ChildProcessError:
        pass
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{words[0]}: exit status {done.returncode}: {done.stderr[-2000:]}")
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def environment(options):
    return dict(os.environ, PYTHONPATH=os.path.join(options.build, "python"), RAY_USAGE_STATS_ENABLED="0",
                MXW_MODULE_DIR=os.path.join(options.build, "max-whisper-modules"))


def by_command(options, folder, files, n_cores):
    out = os.path.join(folder, "command")
    shutil.rmtree(out, ignore_errors=True)
    wall, cpu, _ = timed([os.path.join(options.build, "max-whisper"), *files, "--model", options.model, "--device",
                          "cpu", "--threads", str(n_cores), "--batch", "4", "--output-dir", out, "--format",
                          "json-full", "--quiet"])
    texts, load = {}, 0.0
    for path in glob.glob(os.path.join(out, "*.json*")):
        with open(path, encoding="utf-8") as stream:
            whole = json.load(stream)
        texts[os.path.basename(path).split(".")[0]] = whole["text"]
        load = max(load, (whole["times"]["load_ms"] + whole["times"]["compile_ms"]) / 1e3)
    return {"wall": wall, "cpu": cpu, "work": wall - load, "texts": texts}


def by_ray(options, folder, files, n_cores):
    out, manifest = os.path.join(folder, "ray"), os.path.join(folder, "manifest.jsonl")
    shutil.rmtree(out, ignore_errors=True)
    with open(manifest, "w", encoding="utf-8") as stream:
        stream.writelines(json.dumps({"path": file}) + "\n" for file in files)
    wall, cpu, said = timed([options.python, "-c", WORKER, manifest, out, options.model, str(n_cores)],
                            env=environment(options), cwd=folder)
    told = json.loads(said.splitlines()[-1])
    texts, begins, ends = {}, [], []
    with open(os.path.join(out, "results.jsonl"), encoding="utf-8") as stream:
        for row in map(json.loads, stream):
            texts[os.path.basename(row["path"]).split(".")[0]] = row["text"]
            begins.append(row["finished"] - row["seconds"])
            ends.append(row["finished"])
    return {"wall": wall, "cpu": cpu, "work": max(ends) - min(begins), "texts": texts, "store": told["store"],
            "seconds": told["seconds"], "bytes": os.path.getsize(os.path.join(out, "results.jsonl"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--model", default="tiny.en")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=8, help="of each recording")
    parser.add_argument("--plan", type=int, default=0, metavar="N")
    options = parser.parse_args()
    options.build, options.python = os.path.abspath(options.build), python_with_ray()
    if options.plan:
        with tempfile.TemporaryDirectory() as folder:
            print(timed([options.python, "-c", PLAN, folder, str(options.plan)], env=environment(options))[2], end="")
        return
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)   # PR_SET_CHILD_SUBREAPER: daemons are counted when they end
    n_cores = len(os.sched_getaffinity(0))
    print(json.dumps(machine.describe()), "load", machine.load(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name in CLIPS:
            path = speech(name)
            for copy in range(options.copies):
                files.append(os.path.join(folder, f"{name}-{copy:03d}{os.path.splitext(path)[1]}"))
                os.symlink(path, files[-1])
        ratios = {"wall": [], "work": [], "cpu": []}
        for number in range(options.rounds):
            a, b = by_command(options, folder, files, n_cores), by_ray(options, folder, files, n_cores)
            if a["texts"] != b["texts"] or len(b["texts"]) != len(files):
                sys.exit("the texts differ")
            for kind, values in ratios.items():
                values.append(a[kind] / b[kind])
            print(f"round {number + 1}: {len(files)} recordings, {b['seconds']:.0f} s of sound. Command line: "
                  f"{a['wall']:.1f} s, {a['work']:.1f} without start, {a['cpu']:.1f} s of processor. Ray, {n_cores} "
                  f"actors: {b['wall']:.1f} s, {b['work']:.1f} without start, {b['cpu']:.1f} s of processor; object "
                  f"store at most {b['store'] / 1e6:.2f} MB; {b['bytes'] / b['seconds'] * 3.6e-3:.2f} MB of JSON lines "
                  f"for an hour of sound; load {machine.load()}", flush=True)
        print("throughput of Ray by that of the command line: " +
              ", ".join(f"{kind} {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"
                        for kind, values in ratios.items()))


if __name__ == "__main__":
    main()
