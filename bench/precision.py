#!/usr/bin/env python3
"""bench/precision.py --folder FOLDER [OPTION...] - what --precision f16 changes in the text, beside exact.

In: a folder with manifest.jsonl, a line for each recording: its file, language and true transcript ("none": no speech);
a program with a GPU. Out: a table and, with --json, a line of JSON for each model: recordings whose text differs, and
word error rates of the English ones against the truth (bench/wer.py), by beam search at temperature 0.
Invariants: both precisions hear the same files in one run each, and every recording counts, those without text too.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from wer import distance, normalise  # noqa: E402

PRECISIONS = ("exact", "f16")


def transcripts(options, model, precision, rows):
    """{file: text} of all rows, heard in one run for each language"""
    texts = {}
    for language in sorted({row["language"] for row in rows}):
        files = [row["file"] for row in rows if row["language"] == language]
        with tempfile.TemporaryDirectory() as out:
            links = []
            for i, name in enumerate(files):
                links.append(os.path.join(out, f"{i:04d}.wav"))
                os.symlink(os.path.abspath(os.path.join(options.folder, name)), links[-1])
            spoken = [] if model.endswith(".en") or language == "none" else ["--language", language]
            command = [options.program, "--model", model, "--engine", "max", "--device", options.device, "--precision",
                       precision, "--batch", str(options.batch), "--temperature", "0", "--format", "txt",
                       "--output-dir", out, "--quiet", *spoken, *links]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            for i, name in enumerate(files):
                with open(os.path.join(out, f"{i:04d}.txt"), encoding="utf-8") as text:
                    texts[name] = text.read()
    return texts


def word_errors(rows, texts):
    """(words wrong, words said) over the English recordings"""
    wrong = said = 0
    for row in rows:
        if row["language"] == "en":
            truth, heard = normalise(row["transcript"]), normalise(texts[row["file"]])
            wrong += distance(truth, heard)
            said += len(truth)
    return wrong, said


def main():
    parser = argparse.ArgumentParser(prog="bench/precision.py", description="What --precision f16 changes in the text.")
    parser.add_argument("--program", default="build/max-whisper")
    parser.add_argument("--folder", required=True, help="recordings, with manifest.jsonl")
    parser.add_argument("--models", default="tiny.en,base", help="names or files, comma separated [tiny.en,base]")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--json", action="store_true", help="also a line of JSON for each model")
    options = parser.parse_args()
    with open(os.path.join(options.folder, "manifest.jsonl"), encoding="utf-8") as manifest:
        rows = [json.loads(line) for line in manifest]
    print("| model | recordings | texts that differ | words wrong, exact | words wrong, f16 |")
    print("|---|---:|---:|---:|---:|")
    for model in options.models.split(","):
        name = os.path.basename(model).removesuffix(".pt")
        heard = [row for row in rows if not name.endswith(".en") or row["language"] in ("en", "none")]
        texts = {precision: transcripts(options, model, precision, heard) for precision in PRECISIONS}
        differ = [row["file"] for row in heard if texts["exact"][row["file"]] != texts["f16"][row["file"]]]
        errors = {precision: word_errors(heard, texts[precision]) for precision in PRECISIONS}
        rates = [f"{100 * wrong / said:.3f} % ({wrong} of {said})" for wrong, said in errors.values()]
        print(f"| {name} | {len(heard)} | {len(differ)} | {rates[0]} | {rates[1]} |", flush=True)
        if options.json:
            print(json.dumps({"model": name, "recordings": len(heard), "differ": differ, "words": errors}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
