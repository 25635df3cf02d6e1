#!/usr/bin/env python3
"""bench/formats/formats.py PROGRAM [--installed] [--model tiny.en] [--out FILE] - our files in the hands of others.

Converts a model into every format and type, lets whisper.cpp, transcribe.cpp, faster-whisper and transformers
transcribe a recording from each, and compares with what PROGRAM itself says from the same file. --installed: only with
peers whose environments are there already (bench/environments.py makes the others: up to 6 GB for transformers), as a
test does. --out: the table as Markdown. Exit: 0 all right, 1 a file was refused or misheard, 77 no peer or no model.
Texts must be the reference's, word for word, except those of 4-bit types, which mishear some words: these are told, not
judged; that their blocks are libggml's, byte for byte, is what the test `blocks` holds."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import environments  # noqa: E402

SPEECH = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")
SAID = ("And Mr. John Dashwood had then leisure to consider how much there might be prudently in his power to do for "
        "them.")
FLOATS, BLOCKS = ["f16", "bf16", "f32"], ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]
# peer, format, types. whisper.cpp reads f32, too, but its convolutions on a CPU want f16.
PAIRS = [("whisper.cpp", "ggml", ["f16", *BLOCKS]), ("transcribe.cpp", "ggml", ["f16", "f32", *BLOCKS]),
         ("transcribe.cpp", "gguf", [*FLOATS, *BLOCKS]), ("faster-whisper", "ct2", [*FLOATS, "int8"]),
         ("transformers", "safetensors", FLOATS)]


def words(text):
    return re.findall(r"[a-z']+", text.lower())


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def size_of(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


def convert(options, folder, kind, type_name):
    path = os.path.join(folder, f"model-{type_name}.{kind}")
    if not os.path.exists(path):
        subprocess.run([options.program, "model", "convert", options.model, path, "--format", kind, "--type",
                        type_name, "--log-level", "error"], check=True)
    return path


def ours(options, path):
    made = subprocess.run([options.program, SPEECH, "--model", path, "--greedy", "--format", "txt"],
                          capture_output=True, text=True, check=False)
    return " ".join(made.stdout.split()) if made.returncode == 0 else f"failed: {made.stderr.strip()}"


def peer_says(python, peer, path):
    made = subprocess.run([python, os.path.join(ROOT, "bench", "formats", "format_worker.py"), peer, path, SPEECH],
                          capture_output=True, text=True, check=False)
    lines = [line for line in made.stdout.splitlines() if line.startswith("{")]
    if made.returncode or not lines:
        return None, environments.last_line(made.stderr or made.stdout)
    answer = json.loads(lines[-1])
    return answer["text"], answer["version"]


def find_peer(peer, installed):
    if installed and not os.path.exists(os.path.join(environments.folder(), peer, "installed.txt")):
        return None, "its environment is not installed (bench/formats/formats.py without --installed makes it)"
    return environments.interpreter(peer)


def check(options, folder, python, peer, kind, type_name):
    path = convert(options, folder, kind, type_name)
    text, note = peer_says(python, peer, path)
    mine = ours(options, path)
    judged = not type_name.startswith("q4")
    wrong = [distance(words(said or ""), words(SAID)) for said in (text, mine)]
    return {"peer": f"{peer} {note}" if text is not None else peer, "format": kind, "type": type_name,
            "bytes": size_of(path), "text": text if text is not None else f"refused: {note}", "ours": mine,
            "wrong": wrong, "ok": bool(text) and (max(wrong) == 0 or not judged)}


def table(rows):
    lines = ["| program | format | type | size, MB | words wrong: the program, max-whisper | |",
             "|---|---|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row['peer']} | {row['format']} | {row['type']} | {row['bytes'] / 1e6:.1f} | "
                     f"{row['wrong'][0]}, {row['wrong'][1]} | {'' if row['ok'] else row['text']} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("--model", default="tiny.en")
    parser.add_argument("--out")
    options = parser.parse_args()
    found = subprocess.run([options.program, "model", "inspect", options.model], capture_output=True, check=False)
    if found.returncode:
        print(f"SKIP: formats-peers: no model {options.model}")
        return 77
    rows = []
    folder = tempfile.mkdtemp(prefix="formats-")
    try:
        for peer, kind, types in PAIRS:
            python, reason = find_peer(peer, options.installed)
            if not python:
                print(f"SKIP: formats-peers: {peer}: {reason}")
                continue
            for type_name in types:
                rows.append(check(options, folder, python, peer, kind, type_name))
                print(json.dumps(rows[-1]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as stream:
            stream.write(table(rows))
    if not rows:
        return 77
    print(f"{sum(row['ok'] for row in rows)} passed, {sum(not row['ok'] for row in rows)} failed")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
