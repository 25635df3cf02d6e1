"""tests/cli/speech/test_mixed.py PROGRAM - a recording in which the language changes: the right one at the right time,
text in its own script; with and without --vad, and in pieces.

Needs base, the weights of speech detection (make model) and the telephone prompts in English, French and Russian that
tools/make-speech joins.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clitest import ROOT, check, check_equal, done, model_path, run, skip

SOUNDS = "/usr/share/asterisk/sounds"
PROMPTS = [("en", "en_US_f_Allison/vm-opts"), ("fr", "fr_CA_f_June/vm-opts"), ("ru", "ru_RU_f_IvrvoiceRU/vm-opts"),
           ("en", "en_US_f_Allison/vm-intro")]
PAUSE = 0.4
ORDER = [language for language, _ in PROMPTS]
FAST = ["--model", "base", "--greedy", "--temperature-increment-on-fallback", "none", "--languages", "ru,en,french"]

if not model_path("base") or not json.loads(run("model", "list", "--json")[1])["vad"]["path"]:
    skip("cli mixed languages", "the model base or the weights silero-vad are not there (make model)")
FOUND = subprocess.run([os.path.join(ROOT, "tools", "make-speech"), "--path", "languages-en-fr-ru"], check=False,
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
if FOUND.returncode:
    skip("cli mixed languages", "the telephone prompts in three languages are not installed (tools/setup test)")
SPEECH = FOUND.stdout.strip()


def spans():
    """[(language, start, end)] of the prompts: 64 kbit/s"""
    at, found = 0.0, []
    for language, name in PROMPTS:
        seconds = os.path.getsize(os.path.join(SOUNDS, name + ".g722")) / 8000
        found.append((language, at, at + seconds))
        at += seconds + PAUSE
    return found


def transcribe(folder, *words):
    code, out, err = run(SPEECH, *FAST, "-f", "json", "-o", folder, "-q", *words)
    check_equal((code, out, err), (0, "", ""), " ".join(words))
    with open(os.path.join(folder, "languages-en-fr-ru.json"), encoding="utf-8") as stream:
        return json.load(stream)


def in_turn(items):
    """The languages in order, each turn once"""
    found = [item["language"] for item in items]
    return [language for i, language in enumerate(found) if i == 0 or language != found[i - 1]]


def check_script(result, what):
    for segment in result["segments"]:
        cyrillic = len(re.findall("[\u0400-\u04ff]", segment["text"]))
        latin = len(re.findall("[A-Za-z\u00c0-\u00ff]", segment["text"]))
        check((cyrillic > latin) == (segment["language"] == "ru"), f"{what}: the script of", segment["text"])
    text = {language: " ".join(s["text"].lower() for s in result["segments"] if s["language"] == language)
            for language in ORDER}
    check("press" in text["en"] or "message" in text["en"], f"{what}: English", text["en"])
    check(re.search(r"\b(pour|appuyez|vos|votre|le|les)\b", text["fr"]), f"{what}: French", text["fr"])


def test_time(result):
    """At least 97 % of the time is right, where a region's language is the one of the prompt that it is in."""
    right = wrong = 0.0
    for language, start, end in spans():
        for region in result["regions"]:
            overlap = max(min(end, region["end"]) - max(start, region["start"]), 0)
            right, wrong = (right + overlap, wrong) if region["language"] == language else (right, wrong + overlap)
    check(right > 20 and wrong < 0.03 * right, "time", (right, wrong, result["regions"]))
    check_equal(result["language"], "en", "the language with the most speech")
    check(all(0.5 < s["language_probability"] <= 1 for s in result["segments"]), "probabilities")


def main():
    folder = tempfile.mkdtemp()
    try:
        whole = transcribe(folder, "--vad")
        check_equal(in_turn(whole["segments"]), ORDER, "segments")
        check_equal(in_turn(whole["regions"]), ORDER, "regions")
        test_time(whole)
        check_script(whole, "--vad")
        plain = transcribe(folder)
        check_equal(in_turn(plain["segments"]), ORDER, "without --vad")
        check_script(plain, "without --vad")
        pieces = transcribe(folder, "--vad", "--parallel", "2", "--word-timestamps", "True")
        check_equal(in_turn(pieces["segments"]), ORDER, "in pieces")
        check(all(s["words"] or not s["text"] for s in pieces["segments"]), "words")
    finally:
        shutil.rmtree(folder)
    done()


main()
