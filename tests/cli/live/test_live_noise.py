"""tests/cli/live/test_live_noise.py PROGRAM - `live` with noise and music between utterances: the words are those of
the speech, and nothing is heard in between, with the guard as it is by default. Needs tiny.en and the weights of speech
detection (make model); the speech is in tests/data, the sounds between it are made here.

What proves that the sounds are not simply too quiet: the same sounds, given to the model as files, make it invent.
"""
import array
import json
import math
import os
import random
import re
import shutil
import sys
import tempfile
import wave

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from clitest import ROOT, check, check_equal, done, model_path, run, skip, wav

SPEECH = os.path.join(ROOT, "tests", "data", "librivox-0870.wav")
RATE, CLIP_S, SOUND_S, EDGE_S = 16000, 3, 7, 0.5
FOLDER = tempfile.mkdtemp()

if not model_path("tiny.en"):
    skip("cli live noise", "tiny.en is not there (make model)")
if not json.loads(run("model", "list", "--json")[1])["vad"]["path"]:
    skip("cli live noise", "the weights silero-vad are not there (make model)")


# ---- sounds: lists of samples from -1 to 1 -------------------------------------------------------------------------

def white(dice, n):
    return [0.2 * dice.uniform(-1, 1) for _ in range(n)]


def brown(dice, n):
    """As wind, or a street far away"""
    out, at = [], 0.0
    for _ in range(n):
        at = 0.995 * at + 0.03 * dice.uniform(-1, 1)
        out.append(at)
    return out


def babble(dice, n):
    """Noise in the bands of a voice that comes and goes three times a second, as syllables do"""
    out, a, b = [], [0.0, 0.0], [0.0, 0.0]
    for i in range(n):
        x = dice.uniform(-1, 1) * (0.5 + 0.5 * math.sin(2 * math.pi * 3 * i / RATE))
        for state, hz in ((a, 500), (b, 1500)):
            y = x + 2 * 0.98 * math.cos(2 * math.pi * hz / RATE) * state[0] - 0.96 * state[1]
            state[1], state[0] = state[0], y
        out.append(0.012 * (a[0] + b[0]))
    return out


def hum(dice, n):
    return [0.15 * sum(math.sin(2 * math.pi * 50 * k * i / RATE) / k for k in (1, 2, 3, 5)) for i in range(n)]


def clicks(dice, n):
    """A keyboard"""
    out = [0.0] * n
    at = 0
    while at + 200 < n:
        for i in range(200):
            out[at + i] = 0.7 * dice.uniform(-1, 1) * math.exp(-i / 25)
        at += int(RATE * dice.uniform(0.08, 0.3))
    return out


def music(dice, n):
    """Chords, a bass and a drum, with a melody over them"""
    chords = ((220, 261.6, 329.6), (174.6, 220, 261.6), (196, 246.9, 293.7), (164.8, 196, 246.9))
    melody = (440, 523.3, 659.3, 587.3, 523.3, 440, 493.9, 392)
    out = []
    for i in range(n):
        t = i / RATE
        chord, note, beat = chords[int(t) % 4], melody[int(t * 4) % 8], t * 4 % 1
        tone = sum(math.sin(2 * math.pi * f * t) + 0.4 * math.sin(4 * math.pi * f * t) for f in chord) * 0.06
        tone += 0.12 * math.exp(-2 * beat) * (math.sin(2 * math.pi * note * t) + 0.5 * math.sin(6 * math.pi * note * t))
        tone += 0.15 * math.sin(math.pi * chord[0] * t) * math.exp(-3 * (t * 2 % 1))
        out.append(tone + 0.1 * dice.uniform(-1, 1) * math.exp(-40 * beat))
    return out


def sounds():
    return {maker.__name__: maker(random.Random(19), SOUND_S * RATE)
            for maker in (white, brown, babble, hum, clicks, music)}


def pcm(samples):
    return array.array("h", [max(-32768, min(32767, int(32767 * x))) for x in samples]).tobytes()


# ---- what is heard -------------------------------------------------------------------------------------------------

def write(name, data):
    path = os.path.join(FOLDER, name + ".wav")
    with open(path, "wb") as stream:
        stream.write(wav(0, data=data))
    return path


def final_words(path, *words):
    code, out, err = run("live", "--pace", "0", "--format", "jsonl", *words, path)
    check_equal((code, err), (0, ""), f"live {os.path.basename(path)}")
    events = [json.loads(line) for line in out.splitlines()]
    return [word for event in events if event["kind"] == "final" for word in event["words"]]


def plain(words):
    return " ".join(re.sub(r"[^a-z' ]", "", "".join(word["word"] for word in words).lower()).split())


def main():
    with wave.open(SPEECH) as stream:
        said = stream.readframes(CLIP_S * RATE)
    between = sounds()
    silence = bytes(2 * SOUND_S * RATE)
    wanted = plain(final_words(write("silence", said + silence)))
    check("john dashwood had then" in wanted, "the speech alone", wanted)
    data, places = said, []
    for name, samples in between.items():
        begin = len(data) / 2 / RATE
        data += pcm(samples) + said
        places.append((name, begin, begin + SOUND_S))
    words = final_words(write("all", data))
    for name, begin, end in places:
        inside = [w["word"] for w in words if begin + EDGE_S < (w["start"] + w["end"]) / 2 < end - EDGE_S]
        check_equal(inside, [], f"words invented in {name}")
        after = plain([w for w in words if end - EDGE_S <= (w["start"] + w["end"]) / 2 < end + CLIP_S + EDGE_S])
        check("john dashwood had then" in after, f"the speech after {name}", after)
    check_equal(final_words(write("noise", pcm(sum(between.values(), [])))), [], "words invented without any speech")
    invented = []
    for name, samples in between.items():
        _, out, _ = run("transcribe", "--model", "tiny.en", "--format", "txt", "--no-speech-threshold", "none",
                        "--beam-size", "none", "--temperature-increment-on-fallback", "none", write(name, pcm(samples)))
        invented += [name] if out.strip() else []
    check(len(invented) >= 3, "without the guard the model invents words in these sounds", invented)


main()
shutil.rmtree(FOLDER)
done()
