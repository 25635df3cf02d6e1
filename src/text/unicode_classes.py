#!/usr/bin/env python3
"""Writes src/text/unicode.def: the letters, numbers and spaces that tiktoken's own regular expressions know.

Usage: python3 src/text/unicode_classes.py > src/text/unicode.def     (needs tiktoken; made with 0.14.0)

The tables are asked of tiktoken itself, code point by code point, because "ids equal tiktoken's" depends on its
version of Unicode, not on the one of whatever library happens to be installed.
"""
import tiktoken

BYTES = {bytes([i]): i for i in range(256)}
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def members(pattern):
    """The code points that match: tiktoken encodes matches only, so the rest drops out."""
    encoding = tiktoken.Encoding("probe", pat_str=pattern, mergeable_ranks=BYTES, special_tokens={})
    for i in range(0, len(CHARACTERS), 65536):
        text = bytes(encoding.encode_ordinary("".join(CHARACTERS[i:i + 65536]))).decode()
        yield from map(ord, text)


def ranges(points):
    first = last = None
    for point in points:
        if last is not None and point == last + 1:
            last = point
            continue
        if first is not None:
            yield first, last
        first = last = point
    yield first, last


def main():
    print("/* unicode.def - general categories L and N and the property White_Space, as tiktoken " +
          tiktoken.__version__ + " has them")
    print(" * (Unicode 16.0). Made by src/text/unicode_classes.py; ascending, ranges inclusive. */")
    for name, pattern in (("LETTERS", r"\p{L}"), ("NUMBERS", r"\p{N}"), ("SPACES", r"\s")):
        items = ["R(0x%04X, 0x%04X)" % r for r in ranges(members(pattern))]
        print("\n#ifdef " + name)
        for i in range(0, len(items), 5):
            print(" ".join(items[i:i + 5]))
        print("#endif")


main()
