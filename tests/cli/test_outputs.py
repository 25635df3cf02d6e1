"""tests/cli/test_outputs.py PROGRAM - words and every format of a real run, read back by readers that are not ours.

Needs tiny.en and the package speech (make model, tools/fetch-speech).
"""
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile

from clitest import check, check_equal, done, model_path, run, skip, speech_path

MODEL = model_path("tiny.en")
CLIP = speech_path("beckett.wav")
if not MODEL or not CLIP:
    skip("cli outputs", "the model tiny.en or the package speech is not there (make model, tools/fetch-speech)")

FAST = ["--greedy", "--temperature-increment-on-fallback", "none", "--word-timestamps"]
FORMATS = "txt,srt,vtt,tsv,json,csv,lrc,ass,jsonl,json-full".split(",")


def read(folder, form):
    with open(os.path.join(folder, f"en-beckett-tiny.en.{form}"), encoding="utf-8", newline="") as stream:
        return stream.read()


def words_of(segments):
    return [word for segment in segments for word in segment["words"]]


def test_words(result):
    """In order, within their segments, and together the text."""
    for segment in result["segments"]:
        check_equal("".join(word["word"] for word in segment["words"]), segment["text"], "words are the text")
        check_equal((segment["words"][0]["start"], segment["words"][-1]["end"]), (segment["start"], segment["end"]),
                    "a segment begins and ends with its words")
    words = words_of(result["segments"])
    check(len(words) >= 10 and all(word["start"] <= word["end"] for word in words), "words", words)
    check(all(a["end"] <= b["start"] + 1e-9 for a, b in zip(words, words[1:])), "words in order", words)
    check(all(0 < word["probability"] <= 1 for word in words), "probabilities", words)


def test_files(folder):
    code, out, err = run(CLIP, *FAST, "-f", ",".join(FORMATS), "-o", folder, "--alternatives", "3", "--output-name",
                         "{language}-{stem}-{model}.{format}")
    check_equal((code, out, err), (0, "", ""), "all formats")
    check_equal(sorted(os.listdir(folder)), sorted(f"en-beckett-tiny.en.{form}" for form in FORMATS), "names")
    result = json.loads(read(folder, "json"))
    test_words(result)
    full = json.loads(read(folder, "json-full"))
    lines = [json.loads(line) for line in read(folder, "jsonl").splitlines()]
    check_equal(lines, result["segments"], "jsonl has json's segments")
    details = [segment.pop("token_details") for segment in full["segments"]]
    check_equal(full["segments"], result["segments"], "json-full has json's segments")
    for segment, tokens in zip(full["segments"], details):
        check_equal([token["id"] for token in tokens], segment["tokens"], "a detail for each token")
        check(all(token["logprob"] <= 0 and len(token["alternatives"]) == 3 for token in tokens), "details", tokens)
        check(all(token["id"] not in [other["id"] for other in token["alternatives"]] for token in tokens), "others")
    with open(MODEL, "rb") as stream:
        digest = hashlib.sha256(stream.read()).hexdigest()
    check_equal(full["manifest"]["model"]["sha256"], digest, "the model's digest")
    check(full["manifest"]["options"]["word_timestamps"] and full["manifest"]["options"]["beam_size"] == 0, "options")
    rows = list(csv.reader(read(folder, "csv").splitlines()))
    check_equal(rows[0], ["start", "end", "text"], "csv's header")
    check_equal([row[2] for row in rows[1:]], [segment["text"].strip() for segment in result["segments"]], "csv's text")
    lyrics = read(folder, "lrc").splitlines()[1:]
    check(all(re.match(r"^\[\d\d:\d\d\.\d\d\](<\d\d:\d\d\.\d\d>\S+ ?)+$", line) for line in lyrics), "lrc", lyrics)
    return result


def test_ffmpeg(folder, result):
    if not shutil.which("ffmpeg"):
        print("SKIP: cli outputs: ffmpeg is not installed")
        return
    for form in ("srt", "vtt", "ass", "lrc"):
        path = os.path.join(folder, f"en-beckett-tiny.en.{form}")
        read_ = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", path, "-f", "srt", "-"], capture_output=True,
                               text=True, check=False)
        check_equal((read_.returncode, read_.stderr), (0, ""), f"ffmpeg reads {form}")
        check(read_.stdout.count("-->") >= len(result["segments"]), f"all cues of {form}", read_.stdout)
        if form != "lrc":
            said = re.sub(r"<[^>]*>|^\d+\n.*-->.*$", "", read_.stdout, flags=re.MULTILINE)
            check_equal(said.split(), result["text"].split(), f"the text of {form}")


def test_lines(result):
    """Short lines, cues of two, a cue for each word."""
    code, out, _ = run(CLIP, *FAST, "-f", "srt", "--max-line-width", "16", "--max-line-count", "2")
    cues = [cue.split("\n")[2:] for cue in out.strip().split("\n\n")]
    check(code == 0 and all(len(cue) <= 2 and all(len(line) <= 16 for line in cue) for cue in cues), "lines", cues)
    code, out, _ = run(CLIP, *FAST, "-f", "vtt", "--highlight-words")
    check_equal(out.count("<u>"), len(words_of(result["segments"])), "a cue for each word")
    code, out, _ = run(CLIP, *FAST, "-f", "srt", "--max-words-per-line", "1")
    check_equal(out.count(" --> "), len(words_of(result["segments"])), "words apart")


def test_same_everywhere(result):
    for words in (["--threads", "1"], ["--threads", "3"]):
        _, out, _ = run(CLIP, *FAST, "-f", "json", *words)
        check_equal(json.loads(out), result, f"{words}: the same words")
    _, out, _ = run(CLIP, *FAST, "-f", "json", "--engine", "cpu")
    same = [(word["word"], word["start"], word["end"]) for word in words_of(json.loads(out)["segments"])]
    check_equal(same, [(word["word"], word["start"], word["end"]) for word in words_of(result["segments"])],
                "engine cpu finds the same times")


def main():
    folder = tempfile.mkdtemp()
    try:
        result = test_files(folder)
        test_ffmpeg(folder, result)
        test_lines(result)
        test_same_everywhere(result)
    finally:
        shutil.rmtree(folder)
    done()


main()
