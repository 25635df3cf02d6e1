#!/usr/bin/env python3
"""Writes tests/golden/data/subtitles.jsonl: made-up words as openai-whisper's writers put them, under many options.

Usage: python3 tests/golden/make/subtitles.py > tests/golden/data/subtitles.jsonl
(needs openai-whisper 20250625; the same bytes every time)

A line per case: options, segments (with words), and the whole srt, vtt and json files.
"""
import json
import os
import random
import tempfile

from whisper.utils import get_writer

WORDS = [" the", " quick,", " brown", " fox", " jumps", "!", " over", " a", " lazy-dog.", " Straße", " ¿qué?",
         "今天", "天气", " \"so\"", " (he", " said)", " -->", " 😀", " extraordinarily-long-word-here", " x", "  two",
         " end. "]
OPTIONS = [
    {},
    {"max_line_width": 20},
    {"max_line_width": 20, "max_line_count": 1},
    {"max_line_width": 30, "max_line_count": 2},
    {"max_line_width": 3, "max_line_count": 2},
    {"max_line_count": 2},
    {"max_words_per_line": 1},
    {"max_words_per_line": 4},
    {"max_words_per_line": 4, "max_line_width": 15, "max_line_count": 2},
    {"highlight_words": True},
    {"highlight_words": True, "max_line_width": 18, "max_line_count": 2},
    {"highlight_words": True, "max_words_per_line": 3},
]


def make_segments(rng):
    time, segments = 0.0, []
    for index in range(rng.randrange(0, 6)):
        words = []
        for _ in range(rng.choice([0, 1, 3, 9, 25])):
            time = round(time + rng.choice([0, 0, 0, 0.3, 3.5]), 2)
            end = round(time + rng.choice([0.0, 0.1, 0.24, 1.3]), 2)
            words.append({"word": rng.choice(WORDS), "start": time, "end": end, "probability": round(rng.random(), 6)})
            time = end
        text = "".join(word["word"] for word in words)
        start = words[0]["start"] if words else time
        segments.append({"id": index, "seek": 0, "start": start, "end": time, "text": text,
                         "tokens": list(range(len(words))), "temperature": 0.0, "avg_logprob": -0.5,
                         "compression_ratio": 1.25, "no_speech_prob": 0.125, "words": words})
        if start == time or not text.strip():
            segments[-1].update(text="", tokens=[], words=[])
    return segments


def written(result, form, options):
    with tempfile.TemporaryDirectory() as folder:
        get_writer(form, folder)(result, "x.wav", options)
        with open(os.path.join(folder, "x." + form), encoding="utf-8", newline="") as file:
            return file.read()


def main():
    rng = random.Random(11)
    for _ in range(4):
        segments = make_segments(rng)
        result = {"text": "".join(s["text"] for s in segments), "segments": segments, "language": "en"}
        for options in OPTIONS:
            row = {"options": options, "segments": segments, "srt": written(result, "srt", options),
                   "vtt": written(result, "vtt", options), "json": written(result, "json", options)}
            print(json.dumps(row, ensure_ascii=False, separators=(",", ":")))


main()
