#!/usr/bin/env python3
"""bench/precision.py --folder FOLDER [OPTION...] - what --precision f16, int8 or f8 changes in the text, beside exact.

In: a folder with manifest.jsonl, a line for each recording: its file, language and true transcript ("none": no speech);
a program, for f16 and f8 with a GPU. Out: a table of word error rates of the English ones against the truth
(bench/wer.py), at temperature 0; with --json also a line of JSON for each model and beam with the recordings whose text
differs; with --texts FILE those as a page in Markdown: the words that differ, and margins if --margins is given, too. A
margin is how far the exact run's token was ahead, in log probability, of the one that the other precision chose
instead, at the first token of the first window where they part.
Invariants: both precisions hear the same files in one run each, and every recording counts, those without text too.
"""
import argparse
import difflib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
from wer import distance, normalise  # noqa: E402

SPANS = 6   # of words that differ, shown of a text


def command_of(options, model, precision, language):
    spoken = [] if model.endswith(".en") or language == "none" else ["--language", language]
    return [options.program, "--model", model, "--engine", "max", "--device", options.device, "--precision", precision,
            *spoken]


def transcripts(options, model, precision, beam, rows):
    """{file: text} of all rows, heard in one run for each language"""
    texts = {}
    for language in sorted({row["language"] for row in rows}):
        files = [row["file"] for row in rows if row["language"] == language]
        with tempfile.TemporaryDirectory() as out:
            links = []
            for i, name in enumerate(files):
                links.append(os.path.join(out, f"{i:04d}.wav"))
                os.symlink(os.path.abspath(os.path.join(options.folder, name)), links[-1])
            subprocess.run([*command_of(options, model, precision, language), "--batch", str(options.batch),
                            "--beam-size", str(beam), "--temperature", "0", "--format", "txt", "--output-dir", out,
                            "--quiet", *links], stdout=subprocess.DEVNULL, check=True)
            for i, name in enumerate(files):
                with open(os.path.join(out, f"{i:04d}.txt"), encoding="utf-8") as text:
                    texts[name] = text.read()
    return texts


def numbers(archive, name, code):
    """[row][column] of a two-dimensional array of 4-byte numbers, or [row] of a one-dimensional one"""
    with archive.open(name + ".npy") as stream:
        data = stream.read()
    size = struct.unpack("<H", data[8:10])[0]
    shape = json.loads("[" + data[10:10 + size].decode().split("'shape': (")[1].split(")")[0].rstrip(", ") + "]")
    flat = [item[0] for item in struct.iter_unpack(code, data[10 + size:])]
    columns = shape[1] if len(shape) > 1 else 0
    return [flat[i * columns:(i + 1) * columns] for i in range(shape[0])] if columns else flat


def features(options, model, precision, row):
    """The tokens of the first window, and the candidates at each of them"""
    with tempfile.TemporaryDirectory() as out:
        path = os.path.join(out, "a.npz")
        words = command_of(options, model, precision, "none")   # features extract has no --language: it hears English
        subprocess.run([words[0], "features", "extract", *words[1:], "--quiet", "-o", path,
                        os.path.join(options.folder, row["file"])], stdout=subprocess.DEVNULL, check=True)
        with open(path, "rb") as stream:
            archive = zipfile.ZipFile(io.BytesIO(stream.read()))
        return (numbers(archive, "window.tokens", "<i"), numbers(archive, "decoder.candidates.ids", "<i"),
                numbers(archive, "decoder.candidates.logprobs", "<f"))


def margin(options, model, precision, row):
    """The lead of exact's token where the first windows part; None where they do not, or for other languages"""
    if row["language"] not in ("en", "none"):
        return None
    tokens, ids, leads = features(options, model, "exact", row)
    others = features(options, model, precision, row)[0]
    for i, (token, other) in enumerate(zip(tokens, others)):
        if token == other:
            continue
        at = i + len(ids) - len(tokens) - 1   # the row that this token was chosen from
        if not 0 <= at < len(ids) or token not in ids[at]:
            return None
        chosen = leads[at][ids[at].index(token)]
        return chosen - (leads[at][ids[at].index(other)] if other in ids[at] else leads[at][-1])
    return None


def word_errors(rows, texts):
    """(words wrong, words said) over the English recordings"""
    wrong = said = 0
    for row in rows:
        if row["language"] == "en":
            truth, heard = normalise(row["transcript"]), normalise(texts[row["file"]])
            wrong += distance(truth, heard)
            said += len(truth)
    return wrong, said


def changed_words(texts):
    """The words that differ, with the precision's after an arrow"""
    before, after = (text.split() for text in texts)
    spans = [(" ".join(before[a:b]), " ".join(after[c:d]))
             for kind, a, b, c, d in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes()
             if kind != "equal"]
    shown = [f"{was or '(nothing)'} → {now or '(nothing)'}" for was, now in spans[:SPANS]]
    more = [f"and {len(spans) - SPANS} more places"] if len(spans) > SPANS else []
    return "; ".join(shown + more).replace("|", "\\|") or "where lines end"


def write_texts(stream, name, beam, margins):
    search = "greedy" if beam == 1 else f"{beam} beams"
    stream.write(f"\n## {name}, {search}\n\n| recording | margin | words |\n|---|---:|---|\n")
    for row in margins:
        lead = "–" if row["margin"] is None else f"{row['margin']:.2f}"
        stream.write(f"| {row['file']} | {lead} | {changed_words(list(row.values())[2:])} |\n")


def compare(options, model, beam, rows):
    name = os.path.basename(model).removesuffix(".pt")
    heard = [row for row in rows if not name.endswith(".en") or row["language"] in ("en", "none")]
    precisions = ("exact", options.precision)
    texts = {precision: transcripts(options, model, precision, beam, heard) for precision in precisions}
    differ = [row for row in heard if texts["exact"][row["file"]] != texts[options.precision][row["file"]]]
    errors = {precision: word_errors(heard, texts[precision]) for precision in precisions}
    rates = [f"{100 * wrong / said:.3f} % ({wrong} of {said})" for wrong, said in errors.values()]
    print(f"| {name} | {beam} | {len(heard)} | {len(differ)} | {rates[0]} | {rates[1]} |", flush=True)
    if options.json or options.texts:
        margins = [{"file": row["file"], "margin": margin(options, model, options.precision, row) if options.margins
                    else None, **{precision: texts[precision][row["file"]] for precision in precisions}}
                   for row in differ]
        if options.json:
            print(json.dumps({"model": name, "beam": beam, "recordings": len(heard), "differ": margins,
                              "words": errors}), flush=True)
        if options.texts:
            with open(options.texts, "a", encoding="utf-8") as stream:
                write_texts(stream, name, beam, margins)


def main():
    parser = argparse.ArgumentParser(prog="bench/precision.py", description="What a precision changes in the text.")
    parser.add_argument("--program", default="build/max-whisper")
    parser.add_argument("--folder", required=True, help="recordings, with manifest.jsonl")
    parser.add_argument("--models", default="tiny.en,base", help="names or files, comma separated [tiny.en,base]")
    parser.add_argument("--precision", default="f16", choices=("f16", "int8", "f8"), help="beside exact [f16]")
    parser.add_argument("--beams", default="5", help="beam sizes, comma separated; 1: greedy [5]")
    parser.add_argument("--device", help="[cpu for int8, else cuda]")
    parser.add_argument("--batch", type=int, help="[32 on a GPU, 1 on a CPU]")
    parser.add_argument("--margins", action="store_true", help="find the margin of each text that differs")
    parser.add_argument("--json", action="store_true", help="also a line of JSON for each model and beam")
    parser.add_argument("--texts", metavar="FILE", help="append the words that differ, in Markdown")
    options = parser.parse_args()
    options.device = options.device or ("cpu" if options.precision == "int8" else "cuda")
    options.batch = options.batch or (1 if options.device == "cpu" else 32)
    with open(os.path.join(options.folder, "manifest.jsonl"), encoding="utf-8") as manifest:
        rows = [json.loads(line) for line in manifest]
    print(f"| model | beam | recordings | texts that differ | words wrong, exact | words wrong, {options.precision} |")
    print("|---|---:|---:|---:|---:|---:|")
    for model in options.models.split(","):
        for beam in options.beams.split(","):
            compare(options, model, int(beam), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
