"""tests/cli/test_split.py PROGRAM MAKE_CHECKPOINT - --channel split: the segments of every channel as --channel N finds
them, merged by their starts, labelled, the same however many are worked on at once.

On a generated model, whose text is nonsense but the same every time.
"""
import array
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile

from clitest import check, check_equal, done, run, wav

FOLDER = tempfile.mkdtemp()
MODEL = os.path.join(FOLDER, "narrow.pt")
SHORT = ["--model", MODEL, "--greedy", "--temperature-increment-on-fallback", "none", "--sample-len", "12",
         "--no-speech-threshold", "none"]


def sound(seconds, number):
    """Samples of a tone that comes and goes over noise, another for each number"""
    noise = random.Random(number).randbytes(16000 * seconds)
    pitch, pace = 0.05 + 0.09 * number, 3000 + 700 * number
    return [int(9000 * math.sin(i * pitch) * max(0, math.sin(i / pace))) + number * n for i, n in enumerate(noise)]


def make_file(name, seconds, numbers):
    path = os.path.join(FOLDER, name)
    channels = [sound(seconds, number) for number in numbers]
    data = array.array("h", [sample for frame in zip(*channels) for sample in frame])
    with open(path, "wb") as stream:
        stream.write(wav(0, channels=len(numbers), data=data.tobytes()))
    return path


def result_of(path, *words):
    code, out, err = run(*SHORT, "-f", "json", *words, path)
    check_equal((code, err), (0, ""), f"{words} {path}")
    return json.loads(out)


def merged(path, speakers):
    """What split must give, from the channels one by one"""
    waiting = []
    for channel, speaker in enumerate(speakers, 1):
        segments = result_of(path, "--channel", str(channel))["segments"]
        waiting.append([dict(segment, channel=channel, speaker=speaker) for segment in segments])
    check_equal(len({json.dumps(segments) for segments in waiting}), len(speakers), f"{path}: channels differ")
    merged_segments = []
    while any(waiting):
        first = min((segments for segments in waiting if segments), key=lambda segments: segments[0]["start"])
        merged_segments.append(dict(first.pop(0), id=len(merged_segments)))
    return merged_segments


def test_two(path):
    want = merged(path, ["left", "right"])
    check({segment["channel"] for segment in want} == {1, 2} and len(want) > 3, "both channels have something to say",
          want)
    whole = result_of(path, "--channel", "split")
    check_equal(whole["segments"], want, "split: the segments")
    check_equal(whole["text"], "".join(segment["text"] for segment in want), "split: the text")
    keys = list(whole["segments"][0])
    check(keys.index("no_speech_prob") < keys.index("channel") < keys.index("speaker"), "keys in order", keys)
    return want


def test_forms(path, want):
    said = [segment for segment in want if segment["text"].strip()]
    lines = [f"[{segment['speaker']}] {segment['text'].strip()}" for segment in said]
    printed = run(*SHORT, "--channel", "split", path)
    check_equal([line.split("] ", 1)[1] for line in printed[1].splitlines()], lines, "timed lines")
    code, out, err = run(*SHORT, "--channel", "split", path, "-f", "txt")
    check_equal((code, [line for line in out.splitlines() if line], err), (0, lines, ""), "txt")
    for form in ("srt", "vtt", "tsv"):
        out = run(*SHORT, "--channel", "split", path, "-f", form)[1]
        check(all(line in out for line in lines), form, out)
    for batch in (["--batch", "1"], ["--batch", "2", "--threads", "1"], ["--batch", "5", "--threads", "3"]):
        check_equal(run(*SHORT, "--channel", "split", *batch, path), printed, f"{batch}")
    folder = os.path.join(FOLDER, "out")
    check_equal(run(*SHORT, "--channel", "split", "-o", folder, "-f", "json", path), (0, "", ""), "files")
    with open(os.path.join(folder, "two.json"), encoding="utf-8") as stream:
        check_equal(json.load(stream)["segments"], want, "the file's segments")


def test_many(path):
    """Three channels have numbers for names; a mono recording has one."""
    three = make_file("three.wav", 9, [3, 4, 5])
    one = make_file("one.wav", 5, [6])
    want = merged(three, ["channel 1", "channel 2", "channel 3"])
    check_equal(result_of(three, "--channel", "split")["segments"], want, "three channels")
    alone = [run(*SHORT, "--channel", "split", each)[1] for each in (three, path, one)]
    check("[channel 1] " in alone[2], "one channel", alone[2])
    together = "\n".join(f"==> {each} <==\n{text}" for each, text in zip((three, path, one), alone))
    for batch in ([], ["--batch", "1"], ["--batch", "6"]):
        check_equal(run(*SHORT, "--channel", "split", *batch, three, path, one), (0, together, ""), f"three {batch}")


def test_failure(path):
    """A file that fails is one line, whatever its channels; the others are done."""
    bad = os.path.join(FOLDER, "bad.wav")
    with open(bad, "wb") as stream:
        stream.write(b"no sound" * 100)
    code, out, err = run(*SHORT, "--channel", "split", bad, path)
    check(code == 1 and err.count("\n") == 3 and "bad.wav" in err and "1 of 2" in err, "one line for a bad file", err)
    check_equal(out, f"==> {path} <==\n" + run(*SHORT, "--channel", "split", path)[1], "the other is done")


def main():
    try:
        subprocess.run([sys.argv[2], "pt", "f32", MODEL, "narrow", "1", "3"], check=True)
        path = make_file("two.wav", 41, [1, 2])
        test_forms(path, test_two(path))
        test_many(path)
        test_failure(path)
    finally:
        shutil.rmtree(FOLDER)
    done()


main()
