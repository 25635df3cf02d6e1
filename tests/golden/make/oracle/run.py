"""Runs many (model, mode, clip) jobs over several processes and gathers the rows into golden files.

The longest jobs start first. Rows are appended as they come, so that an interrupted run goes on where it stopped;
at the end each file is sorted into the order of the clips.
"""

import json
import multiprocessing
import os
import time

from . import cases, models, trace, words
from .clips import Clips
from .common import dumps, number, write_json_lines

COST = {("tiny.en", "greedy"): 1, ("tiny.en", "beam5"): 2, ("base", "greedy"): 2.5, ("base", "beam5"): 5}
state = {}  # of a worker process: its clips and its loaded models


def start_worker(clip_arguments, threads):
    import torch

    torch.set_num_threads(threads)
    state["clips"] = Clips(*clip_arguments)
    state["models"] = {}


def run_job(job):
    model_path = job["path"]
    if model_path not in state["models"]:
        state["models"][model_path] = models.load(model_path)
        words.set_heads(state["models"][model_path], job["model"])
    samples = state["clips"].samples(job["clip"])
    started = time.time()
    row = {"clip": job["clip"], **Clips.identity(samples)}
    if job.get("case"):
        row = {"case": job["case"], "options": job["options"], **row}
    options = {"temperature": 0.0, **job["options"]}
    if job["mode"] == "align":
        row.update(words.align(state["models"][model_path], samples, job["row"]))
        return job, row, time.time() - started
    transcribe = words.transcribe if job["mode"].startswith("words") else trace.transcribe
    row.update(transcribe(state["models"][model_path], samples, **options))
    if job["mode"] == "fallback":
        row = fallback_row(row)
    return job, row, time.time() - started


def fallback_row(row):
    """Only what is decided before chance enters: windows up to the first that falls back, at temperature 0."""
    decisions, windows = [], row["windows"]
    for place, window in enumerate(windows):
        again = place + 1 < len(windows) and windows[place + 1]["temperature"] > 0
        decisions.append(
            {
                "seek": window["seek"],
                "needs_fallback": again,
                "avg_logprob": window["avg_logprob"],
                "no_speech_prob": window["no_speech_prob"],
                "compression_ratio": window["compression_ratio"],
                "margins": {
                    "logprob": number(abs(window["avg_logprob"] + 1.0), 5),
                    "no_speech": number(abs(window["no_speech_prob"] - 0.6), 5),
                    "compression": number(abs(window["compression_ratio"] - 2.4), 5),
                    **window["margins"],
                },
            }
        )
        if again:
            break
    return {key: row[key] for key in ("clip", "samples", "sha256", "language")} | {"decisions": decisions}


def aligning_jobs(model, path, names):
    """Of the windows that the golden greedy run of a clip decoded"""
    golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", model)
    with open(os.path.join(golden, "greedy.jsonl"), encoding="utf-8") as lines:
        rows = {row["clip"]: row for row in map(json.loads, lines)}
    return [
        {"model": model, "path": path, "mode": "align", "case": None, "clip": name, "options": {}, "row": rows[name]}
        for name in names
        if name in rows
    ]


def plan(model_paths, modes, names):
    """Every job, in the order of the files' rows."""
    jobs = []
    for model, path in model_paths:
        for mode in modes:
            if mode == "align":
                jobs += aligning_jobs(model, path, names)
                continue
            if mode in cases.MODES:
                rows = [(None, name, cases.MODES[mode]) for name in names]
            elif mode in ("options", "words-options"):
                rows = (cases.OPTION_CASES if mode == "options" else cases.WORD_CASES)[model]
            else:
                rows = [
                    (None, clip, {"temperature": (0.0, 0.2), "beam_size": 5, "best_of": 5})
                    for clip in cases.FALLBACK_CLIPS[model]
                ]
            jobs += [
                {"model": model, "path": path, "mode": mode, "case": case, "clip": clip, "options": options}
                for case, clip, options in rows
            ]
    return jobs


def key(case, clip):
    return f"{case or ''} {clip}"


def run(model_paths, modes, names, clip_arguments, output, workers, threads):
    """Does every job that has no row yet; returns when all files are whole."""
    jobs = plan(model_paths, modes, names)
    files, done = {}, {}
    for job in jobs:
        path = os.path.join(output, job["model"], job["mode"] + ".jsonl")
        if path not in done:
            done[path] = {}
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as lines:
                    rows = [json.loads(line) for line in lines if line.endswith("\n")]
                done[path] = {key(row.get("case"), row["clip"]): row for row in rows}
                write_json_lines(path, rows)  # without a line that was cut off
        job["file"] = path
    clips = Clips(*clip_arguments)
    todo = [job for job in jobs if key(job["case"], job["clip"]) not in done[job["file"]]]
    todo.sort(key=lambda job: -clips.length(job["clip"]) * COST.get((job["model"], job["mode"]), 3))
    started = time.time()
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(workers, len(todo)) or 1, start_worker, (clip_arguments, threads)) as pool:
        for count, (job, row, seconds) in enumerate(pool.imap_unordered(run_job, todo), 1):
            path = job["file"]
            done[path][key(job["case"], job["clip"])] = row
            if path not in files:
                files[path] = open(path, "a", encoding="utf-8")
            files[path].write(dumps(row) + "\n")
            files[path].flush()
            what = f"{job['model']} {job['mode']} {job['case'] or ''} {job['clip']}"
            took = f"{row['samples'] / 16000:.1f} s in {seconds:.1f} s"
            print(f"{count}/{len(todo)} {time.time() - started:.0f}s {what}: {took}", flush=True)
    for file in files.values():
        file.close()
    for path in done:
        order = [key(job["case"], job["clip"]) for job in jobs if job["file"] == path]
        write_json_lines(path, [done[path][k] for k in order])
