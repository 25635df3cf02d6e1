#!/usr/bin/env python3
"""examples/python/subtitles.py MODEL FILE... - each recording's subtitles beside it, several files at a time.

Shows: one model for all, batches, progress of a folder, output formats.
"""
import os
import sys

import max_whisper


def main() -> int:
    """Writes FILE.srt for each file; exit status 1 if one failed."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    model = max_whisper.Model(sys.argv[1], batch=4)
    files = sys.argv[2:]
    for file, result in zip(files, model.transcribe_many(files, word_timestamps=True)):
        target = os.path.splitext(file)[0] + ".srt"
        result.save(target, max_line_width=42, max_line_count=2)
        print(f"{target}: {len(result)} segments, {result.language}, {result.duration:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
