"""tests/cli/speech/test_language.py PROGRAM - `language`, and transcribe with --languages: what is printed and written.

Needs base and the weights of speech detection (make model); the speech, English, is in tests/data. How well languages
are told apart is measured by bench/languages.py.
"""
import csv
import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clitest import ROOT, check, check_equal, check_fails, done, model_path, run, skip, wav

SPEECH = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")
FAST = ["--model", "base", "--greedy", "--temperature-increment-on-fallback", "none", "--languages", "en,de"]
HAVE_CAIRO = os.path.exists(os.path.join(os.environ.get("MXW_MODULE_DIR", ""), "cairo.so"))

if not model_path("base") or not json.loads(run("model", "list", "--json")[1])["vad"]["path"]:
    skip("cli language", "the model base or the weights silero-vad are not there (make model)")


def output(*words):
    code, out, err = run(*words)
    check_equal((code, err), (0, ""), f"{' '.join(words)[:80]}")
    return out


def test_language(folder):
    result = json.loads(output("language", SPEECH, "--languages", "de,English,uk", "-f", "json"))
    check_equal((result["file"], result["model"], result["languages"]), (SPEECH, "base", "de,English,uk"), "the run")
    check(result["regions"] and all(region["language"] == "en" and 0.5 < region["probability"] <= 1
                                    for region in result["regions"]), "regions", result["regions"])
    plot = ["--plot", os.path.join(folder, "x.svg")] if HAVE_CAIRO else []
    lines = output("language", SPEECH, "--languages", "en,de", *plot).splitlines()
    check(len(lines) == len(result["regions"]) and
          all(re.match(r"^\[\d\d:\d\d\.\d{3} --> \d\d:\d\d\.\d{3}\] en (0\.\d\d|1\.00) english$", line)
              for line in lines), "lines", lines)
    if plot:
        with open(plot[1], encoding="utf-8") as stream:
            check("<svg" in stream.read(), "a picture")
    silence = os.path.join(folder, "silence.wav")
    with open(silence, "wb") as stream:
        stream.write(wav(48000))
    out = output("language", silence, "-f", "json", "-o", folder)
    with open(os.path.join(folder, "silence.language.json"), encoding="utf-8") as stream:
        check_equal((out, json.load(stream)["regions"]), ("", []), "silence, into a file")


def test_transcribe(folder):
    output(SPEECH, *FAST, "-f", "txt,srt,tsv,csv,json,jsonl,json-full", "-o", folder)
    read = {}
    for form in ("txt", "srt", "tsv", "csv", "json", "jsonl", "json-full"):
        with open(os.path.join(folder, f"librivox-0870.{form}"), encoding="utf-8") as stream:
            read[form] = stream.read()
    result = json.loads(read["json"])
    segments = result["segments"]
    check(segments and all(s["language"] == "en" and 0.5 < s["language_probability"] <= 1 for s in segments), "json")
    check(all(region["language"] == "en" for region in result["regions"]) and result["language"] == "en", "regions")
    check_equal([json.loads(line) for line in read["jsonl"].splitlines()], segments, "jsonl")
    full = json.loads(read["json-full"])
    check_equal([(s["language"], s["language_probability"]) for s in full["segments"]],
                [(s["language"], s["language_probability"]) for s in segments], "json-full")
    check_equal(full["manifest"]["options"]["languages"], "en,de", "the manifest")
    rows = list(csv.DictReader(read["csv"].splitlines()))
    check_equal([(row["language"], float(row["language_probability"]), row["text"]) for row in rows],
                [("en", s["language_probability"], s["text"].strip()) for s in segments], "csv")
    rows = [line.split("\t") for line in read["tsv"].splitlines()]
    check_equal(rows[0], ["start", "end", "text", "language", "language_probability"], "tsv's header")
    check_equal([(row[2], row[3]) for row in rows[1:]], [(s["text"].strip(), "en") for s in segments], "tsv")
    check_equal(read["txt"], "".join(s["text"].strip() + "\n" for s in segments), "txt stays plain")
    check("en" not in re.findall(r"\[(\w\w)\]", read["srt"]), "srt stays plain", read["srt"])
    lines = output(SPEECH, *FAST).splitlines()
    check("] [en] " in lines[0] and all("[en]" not in line for line in lines[1:]), "where it changes", lines)


def test_refusals():
    for words in (["language", SPEECH, "--model", "tiny.en"], [SPEECH, "--model", "tiny.en", "--languages", "en,de"]):
        if model_path("tiny.en"):
            check_fails(words, 2, "languages", "tiny.en")
    check_fails(["language", "no-such-file.wav"], 1, "no-such-file.wav")
    check_fails(["language", SPEECH, "--model", "no-such-model"], 2, "no-such-model")


def main():
    folder = tempfile.mkdtemp()
    try:
        test_language(folder)
        test_transcribe(folder)
        test_refusals()
    finally:
        shutil.rmtree(folder)
    done()


main()
