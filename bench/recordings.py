"""bench/recordings.py - the speech that engines are timed on, each with what is truly said in it.

In: the speech folder (tools/fetch-speech, tools/make-speech), the transcripts of the Debian packages that the speech
comes from. Out: 16 kHz mono WAV files in a work folder, with their true text.
Invariants: a recording without its transcript is an error, never a figure without a word error rate.
"""
import gzip
import hashlib
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import wave

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools", "lib"))
from fetchlib import cache_folder  # noqa: E402

PROMPTS_TEXT = "/usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz"
SPHINX_TEXT = "/usr/share/pocketsphinx/test/data/librivox/transcription"
RATE = 16000
# Slips of the pen in the package's own transcript of the prompts.
MISSPELT = {"represenatives": "representatives", "witheld": "withheld", "Un-indentified": "Unidentified"}

# Charles Dickens, A Tale of Two Cities (1859), as read in the clip
TWO_CITIES = """It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of
foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of light, it was the
season of darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had
nothing before us, we were all going direct to heaven, we were all going direct the other way. In short, the period
was so far like the present period, that some of its noisiest authorities insisted on its being received, for good or
for evil, in the superlative degree of comparison only."""


class Recording:
    def __init__(self, name, path, truth):
        self.name, self.path, self.truth = name, path, truth
        with wave.open(path, "rb") as stream:
            self.seconds = stream.getnframes() / stream.getframerate()
        with open(path, "rb") as stream:
            self.sha256 = hashlib.sha256(stream.read()).hexdigest()


def make_speech():
    """tools/make-speech, for its list of prompts"""
    loader = importlib.machinery.SourceFileLoader("make_speech", os.path.join(ROOT, "tools", "make-speech"))
    spec = importlib.util.spec_from_loader("make_speech", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def speech(name):
    return os.path.join(cache_folder("MAX_WHISPER_SPEECH", "speech"), name + ".wav")


def convert(path, target):
    """Any recording as 16 kHz mono 16-bit WAV"""
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-i", path, "-ac", "1", "-ar", str(RATE), "-acodec",
                    "pcm_s16le", target], check=True)
    return target


def prompts_truth():
    with gzip.open(PROMPTS_TEXT, "rt", encoding="utf-8", errors="replace") as stream:
        said = dict(line.strip().split(": ", 1) for line in stream if ": " in line and not line.startswith(";"))
    truth = " ".join(said[name] for name in make_speech().SELECTION)
    for wrong, right in MISSPELT.items():
        truth = truth.replace(wrong, right)
    return truth


def librivox_truth(*numbers):
    with open(SPHINX_TEXT, encoding="ascii") as stream:
        said = {match.group(2): match.group(1) for match in re.finditer(r"<s> (.*) </s> \(.*-(\d+)\)", stream.read())}
    return " ".join(said[number] for number in numbers)


def join(names, target):
    """Clips one after another with 0.4 s between them"""
    with wave.open(target, "wb") as out:
        out.setparams((1, 2, RATE, 0, "NONE", ""))
        for i, name in enumerate(names):
            with wave.open(speech(name), "rb") as clip:
                out.writeframes((bytes(2 * RATE * 4 // 10) if i else b"") + clip.readframes(clip.getnframes()))
    return target


def short(folder):
    names = ("0870", "0930")
    path = join(["pocketsphinx-librivox-" + name for name in names], os.path.join(folder, "short.wav"))
    return Recording("short", path, librivox_truth(*names))


def cities(folder):
    return Recording("cities", convert(speech("two_cities"), os.path.join(folder, "cities.wav")), TWO_CITIES)


def prompts(folder):
    return Recording("prompts", convert(speech("prompts-161s"), os.path.join(folder, "prompts.wav")), prompts_truth())


# name -> (how it is made, what it is)
KNOWN = {
    "short": (short, "two sentences of Jane Austen from LibriVox, one window"),
    "cities": (cities, "the opening of A Tale of Two Cities, read aloud"),
    "prompts": (prompts, "telephone prompts with pauses"),
}


def find(word, folder):
    """A known name, or FILE=TRANSCRIPT.txt"""
    if word in KNOWN:
        return KNOWN[word][0](folder)
    path, _, text = word.partition("=")
    if not text:
        raise ValueError(f"'{word}' is neither one of {', '.join(KNOWN)} nor FILE=TRANSCRIPT.txt")
    with open(text, encoding="utf-8") as stream:
        truth = stream.read()
    name = os.path.splitext(os.path.basename(path))[0]
    return Recording(name, convert(path, os.path.join(folder, name + ".wav")), truth)
