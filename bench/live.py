#!/usr/bin/env python3
"""bench/live.py prepare|run|whole|peer|table WORK [...] - speech replayed as live streams: how late its words come, and
how many of them are wrong.

prepare WORK [--data DIR] [--length S]   In: a folder with manifest.jsonl (the development set). Out: WORK/*.wav,
                                     English utterances joined with pauses to recordings of about a minute, and one that
                                     is long as it is; WORK/recordings.json: what is said in them. Needs ffmpeg, or
                                     Python's soundfile with numpy.
run WORK LABEL [NAME=VALUE...]       Replays them through bench-live-streams (its settings: bench/live/streams.c). Out:
                                     WORK/LABEL.jsonl, every event.
whole WORK LABEL [OPTION...]         Transcribes them as files, for comparison. Out: WORK/LABEL.whole.json.
peer WORK LABEL FOLDER MODEL THREADS The same streams through whisper_streaming on faster-whisper (bench/live/peer.py),
                                     with --python of an environment that has it.
table WORK LABEL...                  Figures of runs, on standard output.

Invariants: a recording is the same, sample for sample, in every run. Delays are those of words that became final: from
where the word ends, by its own time, to the first event that has it, and to its final; and from the end of speech to
the end of its utterance. A revision is a word of a partial that the next event does not have.
"""
import argparse
import array
import functools
import json
import os
import re
import subprocess
import sys
import wave

sys.dont_write_bytecode = True
from parallel import JOINED_SETS, Random, convert  # noqa: E402
from wer import distance, normalise  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RATE = 16000
LONG = "librispeech-longform"              # as it is
PAUSES = (0.3, 0.6, 0.8, 1.0, 1.5, 2.5)   # seconds between joined utterances


# ---- recordings ------------------------------------------------------------------------------------------------------

def prepare(options):
    with open(os.path.join(options.data, "manifest.jsonl"), encoding="utf-8") as stream:
        entries = [json.loads(line) for line in stream]
    os.makedirs(options.work, exist_ok=True)
    random, recordings, parts = Random(19), [], []
    chosen = [e for e in entries if e["set"] in JOINED_SETS and e["language"] == "en" and e.get("transcript")]
    for entry in random.shuffled(sorted(chosen, key=lambda e: e["file"])):
        path = os.path.join(options.work, re.sub(r"\W+", "-", os.path.splitext(entry["file"])[0]) + ".wav")
        if not convert(os.path.join(options.data, entry["file"]), path):
            continue
        if LONG in entry["file"]:
            recordings.append({"file": os.path.basename(path), "truth": entry["transcript"]})
            continue
        samples = read_wave(path)
        os.remove(path)
        parts.append((entry["transcript"], samples))
        if sum(len(s) for _, s in parts) > options.length * RATE:
            recordings.append(join(options.work, len(recordings), parts, random))
            parts = []
    with open(os.path.join(options.work, "recordings.json"), "w", encoding="utf-8") as stream:
        json.dump(recordings, stream, indent=1)
    return 0


def read_wave(path):
    with wave.open(path) as stream:
        return array.array("h", stream.readframes(stream.getnframes()))


def join(work, number, parts, random):
    samples = array.array("h")
    for _, part in parts:
        samples.extend([0] * int(PAUSES[random.below(len(PAUSES))] * RATE))
        samples.extend(part)
    name = f"joined-{number:02d}.wav"
    with wave.open(os.path.join(work, name), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(samples.tobytes())
    return {"file": name, "truth": " ".join(text for text, _ in parts)}


def read_recordings(work, only=""):
    with open(os.path.join(work, "recordings.json"), encoding="utf-8") as stream:
        return [r for r in json.load(stream) if re.search(only, r["file"])]


# ---- runs ------------------------------------------------------------------------------------------------------------

def run(options):
    program = os.path.join(options.build, "bench", "bench-live-streams")
    paths = [os.path.join(options.work, r["file"]) for r in read_recordings(options.work, options.only)]
    with open(os.path.join(options.work, options.label + ".jsonl"), "w", encoding="utf-8") as out:
        return subprocess.run([program, options.model, *options.settings], input="".join(p + "\n" for p in paths),
                              stdout=out, text=True, check=False).returncode


def whole(options):
    program, texts = os.path.join(options.build, "max-whisper"), {}
    for recording in read_recordings(options.work, options.only):
        subprocess.run([program, os.path.join(options.work, recording["file"]), "--model", options.model,
                        "--format", "json", "--output-dir", options.work, "--quiet", *options.settings], check=True,
                       stdin=subprocess.DEVNULL)
        path = os.path.join(options.work, recording["file"][:-4] + ".json")
        with open(path, encoding="utf-8") as stream:
            texts[recording["file"]] = json.load(stream)["text"]
        os.remove(path)
    with open(os.path.join(options.work, options.label + ".whole.json"), "w", encoding="utf-8") as stream:
        json.dump(texts, stream, indent=1)
    return 0


def peer(options):
    paths = [os.path.join(options.work, r["file"]) for r in read_recordings(options.work, options.only)]
    with open(os.path.join(options.work, options.label + ".jsonl"), "w", encoding="utf-8") as out:
        return subprocess.run([options.python, os.path.join(ROOT, "bench", "live", "peer.py"), *options.settings],
                              input="".join(p + "\n" for p in paths), stdout=out, text=True, check=False).returncode


# ---- figures ---------------------------------------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def word_key(text):
    return re.sub(r"\W", "", text).lower()


class Stream:
    """The events of one recording"""

    def __init__(self):
        self.finals, self.shown, self.stops, self.stats = [], [], [], {}
        self.revisions = self.partial_words = 0
        self.partial = []

    def add(self, event):
        if "stats" in event:
            self.stats = event["stats"]
            return
        kind, words = event["kind"], event["words"]
        if kind in ("partial", "final"):
            self.shown.append((event["ready"], words))
            known = [word_key(w[2]) for w in words]
            if kind == "partial":
                was = [word_key(w[2]) for w in self.partial]
                self.partial_words += len(was)
                self.revisions += sum(a != b for a, b in zip(was, known)) + max(0, len(was) - len(known))
                self.partial = words
            else:
                was = [word_key(w[2]) for w in self.partial[:len(words)]]
                self.partial_words += len(was)
                self.revisions += sum(a != b for a, b in zip(was, known))
                self.partial = self.partial[len(words):]
                self.finals += [(w, event["ready"]) for w in words]
        if kind == "speech_stopped":
            self.stops.append(event["ready"] - event["end"])

    def text(self):
        return "".join(w[2] for w, _ in self.finals)

    def delays(self):
        """For each final word: from its end to the first event that has it"""
        found = []
        for word, ready in self.finals:
            key, first = word_key(word[2]), ready
            if not key:
                continue
            for when, words in self.shown:
                if when >= ready:
                    break
                if any(word_key(w[2]) == key and abs(w[1] - word[1]) < 0.6 for w in words):
                    first = when
                    break
            found.append(first - word[1])
        return found


def read_run(path):
    streams = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            streams.setdefault((os.path.basename(event["path"]), event["stream"]), Stream()).add(event)
    return streams


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


@functools.lru_cache(maxsize=None)
def lost_at_end(truth, heard):
    """Words of the truth after the last one that is heard, by the best alignment of the last 30; tuples"""
    truth, heard = truth[-30:], heard[-40:]
    best = min(range(len(truth) + 1), key=lambda n: (distance(truth[:len(truth) - n], heard), n))
    return best


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |")


def table(options):
    row("run", "first shown p50 / p95 s", "final p50 / p95 s", "after speech p50 / p95 s", "WER", "WER, whole file",
        "lost at the end", "partial words revised", "passes a second of speech", "processor s a second of speech")
    row(*["---"] + ["---:"] * 9)
    truths = {r["file"]: r["truth"] for r in read_recordings(options.work)}
    for label in options.labels:
        streams = read_run(os.path.join(options.work, label + ".jsonl"))
        known = os.path.join(options.work, options.whole + ".whole.json")
        texts = {}
        if os.path.exists(known):
            with open(known, encoding="utf-8") as stream:
                texts = json.load(stream)
        errors = words = errors_whole = lost = 0
        delays, settled, stops, revisions, partial_words, speech, cpu, passes = [], [], [], 0, 0, 0, 0, 0
        for (name, _), stream in streams.items():
            if name not in truths:
                continue
            truth, heard = tuple(normalise(truths[name])), tuple(normalise(stream.text()))
            words += len(truth)
            errors += distance(truth, heard)
            errors_whole += distance(truth, normalise(texts.get(name, "")))
            whole_text = tuple(normalise(texts.get(name, truths[name])))
            lost += max(0, lost_at_end(truth, heard) - lost_at_end(truth, whole_text))
            delays += stream.delays()
            settled += [ready - word[1] for word, ready in stream.finals if word_key(word[2])]
            stops += stream.stops
            revisions += stream.revisions
            partial_words += stream.partial_words
            speech += stream.stats.get("speech_s", stream.stats.get("fed_s", 0))
            cpu += stream.stats.get("cpu_s", 0)
            passes += stream.stats.get("passes", 0)
        row(label, f"{quantile(delays, .5):.2f} / {quantile(delays, .95):.2f}",
            f"{quantile(settled, .5):.2f} / {quantile(settled, .95):.2f}",
            f"{quantile(stops, .5):.2f} / {quantile(stops, .95):.2f}" if stops else "", f"{100 * errors / words:.2f} %",
            f"{100 * errors_whole / words:.2f} %" if texts else "", lost,
            f"{100 * revisions / max(partial_words, 1):.1f} %", f"{passes / speech:.2f}", f"{cpu / speech:.3f}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("prepare")
    verb.add_argument("work")
    verb.add_argument("--data", default=os.path.join(os.path.dirname(ROOT), "shared", "data"))
    verb.add_argument("--length", type=float, default=60, help="seconds of speech in a joined recording, at least")
    for name in ("run", "whole", "peer"):
        verb = verbs.add_parser(name)
        verb.add_argument("work")
        verb.add_argument("label")
        verb.add_argument("settings", nargs="*")
        verb.add_argument("--model", default="tiny.en")
        verb.add_argument("--build", default=os.path.join(ROOT, "build"))
        verb.add_argument("--only", default="", help="recordings whose name has this (a regular expression)")
        verb.add_argument("--python", default=sys.executable)
    verb = verbs.add_parser("table")
    verb.add_argument("work")
    verb.add_argument("labels", nargs="+")
    verb.add_argument("--whole", default="whole", help="the label of the run that transcribed whole files")
    options = parser.parse_args()
    return {"prepare": prepare, "run": run, "whole": whole, "peer": peer, "table": table}[options.verb](options)


if __name__ == "__main__":
    sys.exit(main())
