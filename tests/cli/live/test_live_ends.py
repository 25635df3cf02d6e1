"""tests/cli/live/test_live_ends.py PROGRAM CUTS [OPTION...] - the end of a stream loses no word: speech cut anywhere,
CUTS times, its last words beside those of `transcribe` of the same cut, with passes as far apart as they are by default
and as a slow machine has them. Options are those of both.

A word that the cut goes through may be heard as another, or not at all: fewer than 0.15 s of sound follow its end.
Every other must be there, if in other words. Needs tiny.en and the weights of speech detection (make model), and
package speech.
"""
import difflib
import json
import os
import random
import re
import shutil
import sys
import tempfile
import wave

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clitest import check, check_equal, done, model_path, run, skip, speech_path, wav

NAMES = ["0870", "0880", "0890", "0920", "0930"]
RATE, LEAST_S, CUT_S = 16000, 1.5, 0.15
STEPS = [[], ["--step-ms", "1500"]]
OPTIONS = sys.argv[3:]
FOLDER = tempfile.mkdtemp()

if not model_path("tiny.en"):
    skip("cli live ends", "tiny.en is not there (make model)")
if not json.loads(run("model", "list", "--json")[1])["vad"]["path"]:
    skip("cli live ends", "the weights silero-vad are not there (make model)")
SPEECH = [speech_path(f"pocketsphinx-librivox-{name}.wav") for name in NAMES]
if not all(SPEECH):
    skip("cli live ends", "the package speech is not there")


def plain(text):
    return re.sub(r"[^a-z' ]", " ", text.lower()).split()


def live_words(path, step):
    code, out, err = run("live", "--pace", "0", *step, *OPTIONS, "--format", "jsonl", path)
    check_equal((code, err), (0, ""), "live")
    events = [json.loads(line) for line in out.splitlines()]
    return plain("".join(event["text"] for event in events if event["kind"] == "final"))


def whole_words(path, seconds):
    """Those that the cut does not go through"""
    code, _, err = run("transcribe", "--model", "tiny.en", *OPTIONS, "--word-timestamps", "-f", "json", "-o", FOLDER,
                       path)
    check_equal((code, err), (0, ""), "transcribe")
    with open(path[:-len("wav")] + "json", encoding="utf-8") as stream:
        words = [word for segment in json.load(stream)["segments"] for word in segment["words"]]
    return plain("".join(word["word"] for word in words if word["end"] < seconds - CUT_S))


def n_lost(got, want):
    """How many fewer words follow the last one that both have"""
    blocks = [block for block in difflib.SequenceMatcher(None, got, want, False).get_matching_blocks() if block.size]
    after_got, after_want = (blocks[-1].a, blocks[-1].b) if blocks else (0, 0)
    return (len(want) - after_want) - (len(got) - after_got)


def main():
    dice = random.Random(19)
    for number in range(int(sys.argv[2])):
        with wave.open(dice.choice(SPEECH)) as stream:
            n = dice.randrange(int(LEAST_S * RATE), stream.getnframes())
            data = stream.readframes(n)
        path = os.path.join(FOLDER, f"cut-{number}.wav")
        with open(path, "wb") as stream:
            stream.write(wav(0, data=data))
        want = whole_words(path, n / RATE)
        check(want, "there is something to lose")
        for step in STEPS:
            got, what = live_words(path, step), " ".join([f"cut {number} at {n / RATE:.3f} s", *step])
            said_twice = [a for a, b, c, d in zip(got, got[1:], got[2:], got[3:]) if (a, b) == (c, d)]
            check(not said_twice, f"{what}: nothing is said twice", " ".join(got))
            check(n_lost(got, want) <= 0, f"{what}: all of {' '.join(want)!r}", " ".join(got))


main()
shutil.rmtree(FOLDER)
done()
