#!/usr/bin/env python3
"""Prints tests/golden/data/live.jsonl: what live streams of the speech in tests/data give, in virtual time.

    python3 tests/golden/make/live.py build > tests/golden/data/live.jsonl

These are our own values, from the build that is named, not another program's: they pin what a stream gives, so that a
change of it is seen and looked at. The virtual clock and the sound are those of tests/golden/test_live.c, which makes
the rows. A commit that changes them says why.
"""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: live.py BUILD > live.jsonl")
    build = os.path.abspath(sys.argv[1])
    test = os.path.join(build, "tests", "golden", "golden_live")
    env = {**os.environ, "MXW_SOURCE_ROOT": ROOT, "MXW_MODULE_DIR": os.path.join(build, "max-whisper-modules")}
    sys.exit(subprocess.run([test, "make", "--engine=max", "--device=cpu"], env=env, check=False).returncode)


if __name__ == "__main__":
    main()
