#!/usr/bin/env python3
"""bench/guard.py - the guard against invented text, measured: what it removes of text that nobody said, and of speech.

    bench/guard.py material DATA             gathers the sounds (guard/guard_material.py); DATA: the development set
    bench/guard.py run VARIANT MODEL [HALF]  transcribes a half ("test") of them; results are kept, nothing is run twice
    bench/guard.py evidence MODEL...         evidence of the words in the "fit" half, labelled, for tools/fit-guard
    bench/guard.py tables MODEL...           the tables of docs/results/guard.md, on standard output

In: the cache folder ($MAX_WHISPER_GUARD). VARIANT: plain, mark, guard, vad, vad+mark, vad+guard,
faster-whisper, faster-whisper+vad. Out: results/VARIANT-MODEL.jsonl there, a line for each clip.
Invariants: every variant runs with the defaults of its program (beam 5, temperature fallback, conditioning on the text
before). Clips of speech are given their language; sounds without speech have "en".
"""
import argparse
import json
import os
import re
import subprocess
import sys
import zlib

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard"))
import guard_material  # noqa: E402
import wer  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OURS = {"plain": ("off", "0"), "mark": ("mark", "0"), "guard": ("drop", "0"), "vad": ("off", "1"),
        "vad+mark": ("mark", "1"), "vad+guard": ("drop", "1")}
# What a run in mark mode tells about two others, for clips of a single window: without a guard the text is the same,
# with the guard it lacks the marked words. (With several windows, the text before changes.)
TOLD_BY = {"plain": "mark", "guard": "mark", "vad": "vad+mark", "vad+guard": "vad+mark"}
PEERS = {"faster-whisper": False, "faster-whisper+vad": True}
KINDS = "silence", "noise", "hum", "clicks", "music", "everyday", "human"
CONDITIONS = ("clean", "quiet20", "quiet35", "snr20", "snr10", "snr5", "snr0", "telephone", "embedded")
NOTHING_ELSE = "clean", "quiet20", "quiet35", "telephone"

PEER = """
import json, sys, time
from faster_whisper import WhisperModel
model = WhisperModel(sys.argv[1], device="cpu", compute_type="float32", cpu_threads=int(sys.argv[3]))
for line in sys.stdin:
    language, path = line.rstrip("\\n").split(" ", 1)
    start = time.process_time()
    segments, info = model.transcribe(path, language=language, vad_filter=sys.argv[2] == "1")
    segments = list(segments)
    print(json.dumps({"path": path, "text": "".join(s.text for s in segments), "segments": len(segments),
                      "loops": sum(s.compression_ratio > 2.4 for s in segments), "cpu": time.process_time() - start,
                      "duration": info.duration}), flush=True)
"""


# ---- running -------------------------------------------------------------------------------------------------------

def results_path(variant, model):
    return os.path.join(guard_material.cache(), "results", f"{variant}-{os.path.basename(model)}.jsonl")


def told(variant, result):
    """What a result in mark mode tells about a variant"""
    kept = [word[2] for word in result["words"] if not word[4]]
    text = result["text"] if variant in ("plain", "vad") else "".join(kept)
    return {**result, "text": text, "loops": result["loops"] if text else 0, "cpu": None}


def results(variant, model):
    """path -> result, of all clips that were run, or that a run in mark mode tells"""
    found = {}
    if variant in TOLD_BY:
        for path, result in results(TOLD_BY[variant], model).items():
            if path and result.get("windows", 2) <= 1:
                found[path] = told(variant, result)
    if os.path.exists(results_path(variant, model)):
        with open(results_path(variant, model), encoding="utf-8") as stream:
            for line in stream:
                try:
                    result = json.loads(line)
                except ValueError:   # a run was stopped while it wrote this
                    continue
                found[result.get("path")] = result
    return found


def wanted(model, half, part):
    """The clips of a half that the model can transcribe; part > 1: of speech one of so many, chosen by their names"""
    english = os.path.basename(model).startswith(("tiny.en", "base.en", "small.en", "medium.en"))
    return [m for m in guard_material.read(guard_material.cache()) if m["half"] == half and
            not (english and m.get("language", "en") != "en") and
            (m["kind"] != "speech" or zlib.crc32(m["id"].encode()) % part == 0)]


def command(variant, options):
    if variant in OURS:
        guard, vad = OURS[variant]
        program = os.path.join(options.build, "bench", "bench-guard-words")
        return [program, options.model, guard, vad, str(options.threads)]
    return [options.peer_python, "-c", PEER, options.peer_model or options.model, "1" if PEERS[variant] else "0",
            str(options.threads)]


def run(options):
    done = results(options.variant, options.model)
    todo = [m for m in wanted(options.model, options.half, options.part) if m["path"] not in done]
    if options.several:
        marked = results(TOLD_BY[options.variant], options.model)
        todo = [m for m in todo if marked.get(m["path"], {}).get("windows", 0) > 1]
    todo = [m for m in todo if m["seconds"] <= options.seconds and re.search(options.only, m["id"])]
    todo.sort(key=lambda m: zlib.crc32(m["id"].encode()))   # a run that is stopped has a bit of everything
    path = results_path(options.variant, options.model)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    folder = guard_material.cache()
    lines = "".join(f"{m.get('language', 'en')} {m['path']}\n" for m in todo)
    with open(path, "a", encoding="utf-8") as out:
        return subprocess.run(command(options.variant, options), input=lines, stdout=out, text=True, cwd=folder,
                              check=False).returncode


# ---- words ---------------------------------------------------------------------------------------------------------

def count_words(text):
    return sum(any(c.isalnum() for c in word) for word in text.split())


def matches(truth, heard):
    """For each word of truth whether it is heard, and for each heard word whether it is true: on a shortest path of
    edits"""
    n, m = len(truth), len(heard)
    cost = [list(range(m + 1))] + [[i] + [0] * m for i in range(1, n + 1)]
    for i in range(1, n + 1):
        above, row, word = cost[i - 1], cost[i], truth[i - 1]
        for j in range(1, m + 1):
            row[j] = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != heard[j - 1]))
    said, true = [False] * n, [False] * m
    i, j = n, m
    while i and j:
        if truth[i - 1] == heard[j - 1] and cost[i][j] == cost[i - 1][j - 1]:
            said[i - 1] = true[j - 1] = True
            i, j = i - 1, j - 1
        elif cost[i][j] == cost[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
        elif cost[i][j] == cost[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return said, true


# ---- evidence for the fit ------------------------------------------------------------------------------------------

def labels(clip, words):
    """1: nobody said it; 0: somebody did; None: it cannot be told. A word of speech counts if the transcript has it, or
    if there is nothing else in the clip: then it was misheard."""
    if clip["kind"] != "speech":
        return [1] * len(words)
    parts = [wer.normalise(word[2]) for word in words]
    _, true = matches(wer.normalise(clip["text"]), [part for word in parts for part in word])
    found, at = [], 0
    for word, part in zip(words, parts):
        right = bool(part) and all(true[at:at + len(part)])
        at += len(part)
        span = clip.get("span", (word[0], word[1]))
        outside = word[1] < span[0] - 0.5 or word[0] > span[1] + 0.5
        found.append(1 if outside else 0 if right or clip["condition"] in NOTHING_ELSE else None)
    return found


def evidence(options):
    """Lines for tools/fit-guard: first the names, then every word that can be told"""
    clips = {m["path"]: m for m in guard_material.read(guard_material.cache())}
    names = None
    for model in options.models:
        for path, result in results("mark", model).items():
            if path is None:
                if names is None:
                    names = result["names"]
                    print(json.dumps({"names": names, "signs": result["signs"]}))
                if result["names"] != names:
                    raise ValueError(f"{model} was run with other evidence: run it again")
                continue
            clip = clips.get(path)
            if clip is None or clip["half"] != "fit" or "error" in result:
                continue
            for word, label in zip(result["words"], labels(clip, result["words"])):
                if label is not None:
                    print(json.dumps({"model": model, "clip": clip["id"], "class": clip["class"], "kind": clip["kind"],
                                      "word": word[2], "label": label, "values": word[5:]}))
    return 0


# ---- tables --------------------------------------------------------------------------------------------------------

class Measured:
    """One variant with one model, over clips that all compared variants have"""

    def __init__(self, variant, model, clips):
        self.variant, self.model = variant, model
        self.results = results(variant, model)
        self.clips = [m for m in clips if m["path"] in self.results and "error" not in self.results[m["path"]]]

    def of(self, clip):
        return self.results[clip["path"]]


def shared_clips(variants, model, clips):
    """The clips that every one of the variants has"""
    have = [results(variant, model) for variant in variants]
    return [m for m in clips if all(m["path"] in h and "error" not in h[m["path"]] for h in have)]


def invented(clips, found):
    """words an hour, per cent of clips with any text, loops an hour"""
    hours = sum(m["seconds"] for m in clips) / 3600
    words = sum(count_words(found[m["path"]]["text"]) for m in clips)
    with_text = sum(count_words(found[m["path"]]["text"]) > 0 for m in clips)
    loops = sum(found[m["path"]]["loops"] for m in clips)
    return words / hours, 100 * with_text / len(clips), loops / hours, words


def heard(clips, found, plain):
    """(words of the truth, recognised by plain, removed, errors of plain, errors) over clips of speech"""
    total = known = removed = before = after = 0
    for m in clips:
        truth = wer.normalise(m["text"])
        first, _ = matches(truth, wer.normalise(plain[m["path"]]["text"]))
        second, _ = matches(truth, wer.normalise(found[m["path"]]["text"]))
        total += len(truth)
        known += sum(first)
        removed += sum(a and not b for a, b in zip(first, second))
        before += wer.distance(truth, wer.normalise(plain[m["path"]]["text"]))
        after += wer.distance(truth, wer.normalise(found[m["path"]]["text"]))
    return total, known, removed, before, after


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |")


def head(*cells):
    row(*cells)
    row(*["---"] + ["---:"] * (len(cells) - 1))


def sounds_table(model, variants, clips, groups, label):
    quiet = [m for m in shared_clips(variants, model, clips) if m["kind"] != "speech"]
    found = {v: results(v, model) for v in variants}
    head(label, "clips", "minutes", *[v for v in variants])
    for name, chosen in [(g, [m for m in quiet if m[label] == g]) for g in groups] + [("all", quiet)]:
        if not chosen:
            continue
        cells = []
        for v in variants:
            an_hour, share, _, _ = invented(chosen, found[v])
            cells.append(f"{an_hour:.0f} ({share:.0f} %)")
        row(name, len(chosen), f"{sum(m['seconds'] for m in chosen) / 60:.0f}", *cells)
    print()


def speech_table(model, variants, base, clips):
    speech = [m for m in shared_clips([base] + variants, model, clips) if m["kind"] == "speech"]
    found = {v: results(v, model) for v in [base] + variants}
    head("condition", "clips", "words", f"WER {base}", *[c for v in variants for c in (f"removed by {v}", f"WER {v}")])
    for name in CONDITIONS + ("all",):
        chosen = [m for m in speech if name in (m["condition"], "all")]
        if not chosen:
            continue
        cells, words, errors = [], 0, 0
        for v in variants:
            words, known, removed, errors, after = heard(chosen, found[v], found[base])
            cells += [f"{removed} ({1000 * removed / max(known, 1):.2f} in 1,000)", f"{100 * after / words:.2f} %"]
        row(name, len(chosen), words, f"{100 * errors / words:.2f} %", *cells)
    print()


def both_table(model, pairs, clips, listed):
    """Both errors of the listed variants on the same clips. The first of each pair is what the others' words of speech
    are compared with; if it was run on speech only, it has no row."""
    sounds, speech = [m for m in clips if m["kind"] != "speech"], [m for m in clips if m["kind"] == "speech"]
    variants = [v for pair in pairs for v in pair if v in listed and shared_clips([v], model, sounds)]
    quiet = shared_clips(variants, model, sounds)
    speech = shared_clips([pair[0] for pair in pairs] + variants, model, speech)
    hours = sum(m["seconds"] for m in quiet) / 3600
    head("variant", "invented words an hour", "clips with text", "loops an hour", "words of speech removed in 1,000",
         "WER")
    for base, *others in pairs:
        for v in [v for v in [base] + others if v in variants]:
            found, plain = results(v, model), results(base, model)
            an_hour, share, loops, _ = invented(quiet, found)
            words, known, removed, _, after = heard(speech, found, plain)
            lost = "" if v == base else f"{1000 * removed / known:.2f}"
            row(v, f"{an_hour:.1f}", f"{share:.1f} %", f"{loops:.1f}", lost, f"{100 * after / words:.2f} %")
    words = sum(len(wer.normalise(m["text"])) for m in speech)
    print(f"\n{len(quiet)} clips of sounds, {hours:.2f} h; {len(speech)} clips of speech, {words} words.\n")


def cost_table(model, variants, clips):
    """Processor time, over clips that every variant has really run"""
    found = {v: results(v, model) for v in variants}
    chosen = [m for m in shared_clips(variants, model, clips) if all(found[v][m["path"]].get("cpu") for v in variants)]
    groups = [("sounds", [m for m in chosen if m["kind"] != "speech"]),
              ("speech", [m for m in chosen if m["kind"] == "speech"])]
    head("processor seconds for an hour of", "minutes", *variants)
    for name, part in groups:
        seconds = sum(m["seconds"] for m in part)
        if part:
            row(name, f"{seconds / 60:.0f}",
                *[f"{3600 * sum(found[v][m['path']]['cpu'] for m in part) / seconds:.0f}" for v in variants])
    print()


def tables(options):
    ours, peers = ["plain", "guard", "vad", "vad+guard"], ["faster-whisper", "faster-whisper+vad"]
    listed = options.variants.split(",") if options.variants else ours + peers
    for model in options.models:
        clips = wanted(model, "test", 1)
        have, both = ([v for v in group if results(v, model)] for group in (ours, peers))
        print(f"## {os.path.basename(model)}\n")
        both_table(model, [have], clips, [v for v in have if v in listed])
        if len(both) == 2:
            both_table(model, [have, both], clips, [v for v in have + both if v in listed])
        have = [v for v in have if v in listed]
        cost_table(model, have, clips)
        sounds_table(model, have, clips, KINDS, "kind")
        classes = sorted({m["class"] for m in clips if m["kind"] != "speech"})
        sounds_table(model, have, clips, classes, "class")
        speech_table(model, [v for v in have if v != "plain"], "plain", clips)
        if len(both) == 2:
            speech_table(model, both[1:], both[0], clips)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("material")
    verb.add_argument("data")
    verb = verbs.add_parser("run")
    verb.add_argument("variant", choices=[*OURS, *PEERS])
    verb.add_argument("model")
    verb.add_argument("half", nargs="?", default="test", choices=["fit", "test"])
    verb.add_argument("--build", default=os.path.join(ROOT, "build"))
    verb.add_argument("--threads", type=int, default=2)
    verb.add_argument("--part", type=int, default=1, help="of the clips of speech only one of so many")
    verb.add_argument("--several", action="store_true", help="only clips that have several windows in mark mode")
    verb.add_argument("--only", default="", help="only clips whose names match")
    verb.add_argument("--seconds", type=float, default=float("inf"), help="only clips that are no longer")
    verb.add_argument("--peer-python", default=sys.executable, help="an interpreter that has faster-whisper")
    verb.add_argument("--peer-model", help="the model's folder in CTranslate2's format")
    verbs.add_parser("evidence").add_argument("models", nargs="+")
    verb = verbs.add_parser("tables")
    verb.add_argument("models", nargs="+")
    verb.add_argument("--variants", help="only these, with commas between: on all clips that they have in common")
    options = parser.parse_args()
    if options.verb == "material":
        guard_material.make(guard_material.cache(), options.data)
        return 0
    return {"run": run, "evidence": evidence, "tables": tables}[options.verb](options)


if __name__ == "__main__":
    sys.exit(main())
