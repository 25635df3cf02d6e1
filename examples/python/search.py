#!/usr/bin/env python3
"""examples/python/search.py MODEL FILE WORD - when a word is said: its times and how sure the model is.

Shows: segments as they come, words with times.
"""
import sys

import max_whisper


def main() -> int:
    """Prints a line for each place; exit status 1 if there is none."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    name, file, wanted = sys.argv[1:]
    found = 0
    for segment in max_whisper.Model(name).transcribe(file, word_timestamps=True):
        for word in segment.words or ():
            if word.word.strip(" .,;:!?\"'").lower() == wanted.lower():
                found += 1
                print(f"{word.start:8.2f} s  {word.probability:.2f}  {segment.text.strip()}", flush=True)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
