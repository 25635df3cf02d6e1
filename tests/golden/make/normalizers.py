#!/usr/bin/env python3
"""Writes tests/golden/data/normalizers.jsonl: texts as openai-whisper's normalizers put them.

Usage: python3 tests/golden/make/normalizers.py > tests/golden/data/normalizers.jsonl
(needs the package whisper.normalizers of openai-whisper 20250625; the same bytes every time)

A line is [name of the normalizer, text, its normal form].
"""
import json
import random

from whisper.normalizers import BasicTextNormalizer, EnglishTextNormalizer
from whisper.normalizers.english import EnglishNumberNormalizer

SENTENCES = [
    "", " ", "Mr. Park visited Assoc. Prof. Kim Jr., didn't he?",
    "Let's go: y'all've been gone, she's got it, I'm done.",
    "He'd been to St. Mary's; he'd go again. (laughs) [music] <unk> uh, hmm.", "The colour of the theatre's programme.",
    "It cost $3.50, or three dollars and fifty cents, 20% off - ten percent!",
    "10,000 people; 1,234,567.89 km; 3.14.15",
    "nineteen ninety nine, twenty twenty, double oh seven, one two three", "Naïve café, Straße, Łódź, œuvre, ＡＢＣ ½",
    "the first, the twenty second and the three hundred and fifth of 1990s", "b747 10km RC232 4th 10 th 21 st 5 s",
    "two and a half, a minute and a half, one hundred and a half", "£5 and 30 pence, minus five, plus 7, positive side",
    "one point five million, point five, three point one four, point of view", "5 per cent, per cent, per day, percent",
    "Привет, мир! Ёлка", "日本語、テスト。", "안녕 하세요 각", "'tis 'em ' x", "won't can't ain't i'ma imma gonna wanna",
]
CHARACTERS = [chr(c) for c in (*range(32, 384), *range(0x300, 0x310), *range(0x1100, 0x1106), *range(0xAC00, 0xAC20),
                               0x1161, 0x11A8, 0x200D, 0x0E33, 0x3042, 0x4E2D, 0x1F600, 0x0915, 0x094D)]


def texts(words, generator):
    yield from SENTENCES
    for _ in range(250):
        yield " ".join(generator.choice(words) for _ in range(generator.randint(1, 7)))


def main():
    generator = random.Random(20250625)
    numbers, english = EnglishNumberNormalizer(), EnglishTextNormalizer()
    words = sorted(numbers.words) + ["3", "3.14", "$5", "$0.36", "-7", "£2.50", "10th", "b747", "cat", "and a half",
                                     "5%", "¢3", "1", "1s", "00", "uh", "10,000", "1.2.3", "+", "$", "Dr.", "it's"]
    words += ["one", "two", "twenty", "hundred", "thousand", "point", "and", "dollars", "cents", "double", "oh"] * 8
    for text in texts(words, generator):
        print(json.dumps(["numbers", text, numbers(text)]))
        print(json.dumps(["english", text, english(text)]))
    for text in [*SENTENCES, *("".join(generator.choice(CHARACTERS) for _ in range(24)) for _ in range(80))]:
        for name, given in (("basic", {}), ("basic-diacritics", {"remove_diacritics": True}),
                            ("basic-letters", {"split_letters": True}),
                            ("basic-both", {"remove_diacritics": True, "split_letters": True})):
            print(json.dumps([name, text, BasicTextNormalizer(**given)(text)]))


if __name__ == "__main__":
    main()
