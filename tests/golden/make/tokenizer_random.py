#!/usr/bin/env python3
"""Writes tests/golden/data/tokenizer-random.json: what tiktoken makes of random strings and of every code point.

Usage: python3 tests/golden/make/tokenizer_random.py > tests/golden/data/tokenizer-random.json
(needs openai-whisper 20250625 and tiktoken 0.14.0; the same bytes every time)

"strings": random text over the code points that tiktoken's Unicode assigns, with its ids.
"classes": for 4096 code points from `first` on, CRC-32 of one letter each: L letter, N number, S space, O other. Ids
alone cannot tell: where no merge would cross the border of two classes, they are the same without it.
"blocks": for the same code points, CRC-32 of the ids (int32, little endian) of probe(c) for each c.
"""
import json
import random
import struct
import zlib

import tiktoken
from whisper.tokenizer import get_tokenizer

FRAGMENTS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "''s", " 's", "  ", " \n", "\r\n", "\t", "<|", "|>",
             "hello", " world", "don't", "1234", " 12", "...", "日本語", "こんにちは", "한국어", "😀", "👨‍👩‍👧", " \u00a0", "\u3000",
             "ab" * 20, " " * 9, "!" * 12, "0" * 13, "é" * 8, "中" * 9, "\x00", "\ufeff", "\u200b", "\x1c", "\x85"]
BLOCKS = [*range(0, 0x40000, 0x1000), 0xE0000, 0xF0000, 0x10F000]


def members(pattern):
    """Every code point that matches, as tiktoken's own regular expressions see it: it encodes matches only."""
    encoding = tiktoken.Encoding("probe", pat_str=pattern, mergeable_ranks={bytes([i]): i for i in range(256)},
                                 special_tokens={})
    text = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    return list(bytes(encoding.encode_ordinary(text)).decode())


def strings():
    rng = random.Random(20250625)
    every = members(r"[^\p{Cn}]")
    low = [c for c in every if ord(c) < 0x3000]
    for i in range(400):
        pool = (every, low, FRAGMENTS, every + low * 9 + FRAGMENTS * 900)[i % 4]
        yield "".join(rng.choice(pool) for _ in range(rng.randint(1, 24)))


def probe(c):
    return "a" + c + "1" + c + " " + c + c + " !" + c + "  "


def block_crc(tokenizer, first):
    ids = []
    for point in range(first, first + 0x1000):
        if not 0xD800 <= point < 0xE000:
            ids += tokenizer.encode(probe(chr(point)))
    return zlib.crc32(struct.pack(f"<{len(ids)}i", *ids))


def classes():
    letter = dict.fromkeys(members(r"\p{L}"), "L") | dict.fromkeys(members(r"\p{N}"), "N")
    letter |= dict.fromkeys(members(r"\s"), "S")
    for first in BLOCKS:
        points = [c for c in range(first, first + 0x1000) if not 0xD800 <= c < 0xE000]
        yield {"first": first, "crc": zlib.crc32("".join(letter.get(chr(c), "O") for c in points).encode())}


def main():
    print('{"made_by": "tests/golden/make/tokenizer_random.py", "classes": [')
    print(",\n".join(map(json.dumps, classes())))
    print('], "vocabularies": [')
    texts = list(strings())
    for n_vocab, multilingual, end in ((51864, False, ","), (51866, True, "")):
        tokenizer = get_tokenizer(multilingual, num_languages=100 if multilingual else 99)
        print(f'{{"n_vocab": {n_vocab}, "strings": [')
        print(",\n".join(json.dumps({"text": t, "ids": tokenizer.encode(t)}, separators=(",", ":")) for t in texts))
        print('], "blocks": [')
        print(",\n".join(json.dumps({"first": f, "crc": block_crc(tokenizer, f)}) for f in BLOCKS))
        print("]}" + end)
    print("]}")


main()
