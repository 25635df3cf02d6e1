#!/usr/bin/env python3
"""bench/peers.py [OPTION...] - max-whisper beside other Whisper engines: same weights, same samples, same options.

In: models of the model folder, recordings with known transcripts, the peers from PyPI (installed on first use).
Out: a table on standard output; with --out PREFIX also PREFIX.json (every run) and PREFIX.md.
Invariants: English, beam 5, temperature 0 without fallback, the rest by default; engines take turns (A B C A B C ...),
each in a process of its own with the model loaded and one run done before, first with all that the processor has, then
held to AVX2; figures are medians, with the least beside them; every text is scored against the true transcript. An
engine that cannot run is named with its reason.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "peers"))
import engines      # noqa: E402
import environments  # noqa: E402
import forms        # noqa: E402
import machine      # noqa: E402
import recordings   # noqa: E402
import report       # noqa: E402
from wer import word_error_rate  # noqa: E402

PAUSE = 0.5  # seconds between runs: idle threads of the last engine stop spinning


def arguments():
    parser = argparse.ArgumentParser(prog="bench/peers.py", description="max-whisper beside other Whisper engines.")
    parser.add_argument("--models", default="tiny.en,base", help="names, comma separated [tiny.en,base]")
    parser.add_argument("--audio", action="append", metavar="NAME",
                        help="short, cities, prompts, or FILE=TRANSCRIPT.txt; may be repeated [short, prompts]")
    parser.add_argument("--engines", default="", metavar="LIST", help="only those whose names hold one of these words")
    parser.add_argument("--without", default="", metavar="LIST", help="not those whose names hold one of these words")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each engine on each recording [5]")
    parser.add_argument("--threads", type=int, default=2, help="threads of each engine, and processors it may use [2]")
    parser.add_argument("--contend", action="store_true", help="also with another process busy: the short recording")
    parser.add_argument("--isa", choices=["native", "avx2", "both"], default="both",
                        help="native: all that the processor has; avx2: every engine is held to AVX2; both: one after "
                        "the other [both]")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds that one run may take [1800]")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where max-whisper was built [build]")
    parser.add_argument("--out", default="", metavar="PREFIX", help="write PREFIX.json and PREFIX.md")
    settings = parser.parse_args()
    settings.audio = settings.audio or ["short", "prompts"]
    if settings.rounds < 1 or settings.threads < 1:
        parser.error("--rounds and --threads are at least 1")
    settings.isas = ["native", "avx2"] if settings.isa == "both" else [settings.isa]
    settings.build = os.path.abspath(settings.build)
    settings.cpus = sorted(os.sched_getaffinity(0))[:settings.threads]
    return settings


def say(line):
    print(line, file=sys.stderr, flush=True)


# ---- the runs -----------------------------------------------------------------------------------------------------

def is_chosen(name, settings):
    wanted, unwanted = ([word for word in text.split(",") if word] for text in (settings.engines, settings.without))
    return (not wanted or any(word in name for word in wanted)) and not any(word in name for word in unwanted)


def start_workers(model, isa, settings, warm_up, result):
    """Every engine that can run, warm; the others in result["skipped"]"""
    workers = []
    for engine in engines.TABLE:
        if not is_chosen(engine.name, settings):
            continue
        worker = engines.Worker(engine, settings, isa)
        try:
            if isa != "native" and engine.not_held:
                raise engines.WorkerError(engine.not_held)
            worker.start(model.form(engine.reads))
            began = time.monotonic()
            first = worker.run(warm_up.path)
            row = {"model": model.name, "isa": isa, "engine": engine.name, "version": worker.version,
                   "load_s": worker.load_s, "start_s": worker.start_s,
                   "first_result_s": worker.start_s + time.monotonic() - began, "first_peak_kib": first["peak_kib"]}
            result["engines"].append(row)
            workers.append(worker)
            say(f"{model.name}, {isa}: {engine.name}: ready after {worker.start_s:.2f} s, first text after "
                f"{row['first_result_s']:.2f} s")
        except (engines.WorkerError, forms.FormError) as error:
            worker.close()
            skip(result, model.name, isa, engine.name, str(error))
    return workers


def skip(result, model_name, isa, engine_name, reason):
    reason = reason.replace(os.path.expanduser("~"), "~")
    say(f"{model_name}, {isa}: {engine_name}: skipped: {reason}")
    result["skipped"].append({"model": model_name, "isa": isa, "engine": engine_name, "reason": reason})


def one_run(worker, model, recording, condition, result):
    """A timed run into result["runs"]; False if the engine is out."""
    try:
        record = worker.run(recording.path)
    except engines.WorkerError as error:
        skip(result, model.name, worker.isa, worker.engine.name, f"{recording.name}: {error}")
        worker.close()
        return False
    record.update(model=model.name, isa=worker.isa, engine=worker.engine.name, audio=recording.name,
                  condition=condition)
    record["wer"] = word_error_rate(recording.truth, record["text"])
    result["runs"].append(record)
    say(f"{model.name}, {worker.isa}: {recording.name}{'' if condition == 'alone' else ', ' + condition}: "
        f"{worker.engine.name}: {record['seconds']:.3f} s, {100 * record['wer']:.1f} % of the words wrong")
    time.sleep(PAUSE)
    return True


class Burner:
    """Another process that keeps a processor busy, while the block lasts."""

    def __init__(self, settings):
        self.cpus = settings.cpus
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                        preexec_fn=lambda: os.sched_setaffinity(0, self.cpus))
        time.sleep(PAUSE)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def contended_round(workers, model, recording, settings, result):
    kept = []
    for worker in workers:
        if not one_run(worker, model, recording, "beside idle", result):
            continue
        with Burner(settings):
            if one_run(worker, model, recording, "beside busy", result):
                kept.append(worker)
    return kept


def measure(model, isa, settings, files, result):
    warm_up = files["warm-up"]
    workers = start_workers(model, isa, settings, warm_up, result)
    try:
        for _ in range(settings.rounds):
            for name in settings.audio:
                workers = [worker for worker in workers if one_run(worker, model, files[name], "alone", result)]
        for _ in range(settings.rounds if settings.contend else 0):
            workers = contended_round(workers, model, warm_up, settings, result)
    finally:
        for worker in workers:
            worker.close()


# ---- all of it ----------------------------------------------------------------------------------------------------

def command_line():
    """As a user types it: nothing of this machine in it."""
    words = [os.path.relpath(word, ROOT) if os.path.isabs(word.partition("=")[0]) else word for word in sys.argv[1:]]
    return "bench/peers.py " + " ".join(shlex.quote(word) for word in words)


def revision():
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() or "unknown"


def describe_recordings(files):
    return [{"name": file.name, "what": recordings.KNOWN.get(name, (None, ""))[1], "seconds": file.seconds,
             "words": len(file.truth.split()), "sha256": file.sha256}
            for name, file in files.items() if name != "warm-up"]


def main():
    settings = arguments()
    result = {"command": command_line(), "revision": revision(), "date": time.strftime("%Y-%m-%d"),
              "machine": machine.describe(), "threads": settings.threads, "rounds": settings.rounds,
              "load_before": machine.load(), "engines": [], "skipped": [], "runs": [],
              "left_out": {name: reason for name, reason in engines.LEFT_OUT.items() if is_chosen(name, settings)}}
    files_folder = os.path.join(environments.folder(), "files")
    os.makedirs(files_folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=files_folder) as folder:
        try:
            files = {name: recordings.find(name, folder) for name in settings.audio}
            files["warm-up"] = recordings.short(folder)
        except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
            say(f"peers: {error}; 'make bench-peers' fetches the speech and the transcripts")
            return 1
        result["audio"] = describe_recordings(files)
        try:
            for name in settings.models.split(","):
                model = forms.Model(name, settings.build, folder)
                for isa in settings.isas:
                    measure(model, isa, settings, files, result)
        except forms.FormError as error:
            say(f"peers: {error}")
            return 1
        except KeyboardInterrupt:
            say("stopped; what was measured follows")
    result["load_after"] = machine.load()
    print(report.as_text(result))
    if settings.out:
        report.save(result, settings.out)
        say(f"wrote {settings.out}.json and {settings.out}.md")
    return 0 if result["runs"] else 1


if __name__ == "__main__":
    sys.exit(main())
