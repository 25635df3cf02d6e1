#!/usr/bin/env python3
"""Golden values from openai-whisper, the reference that max-whisper is measured against.

In: the released weights, speech. Out: small files under tests/golden. It runs in a private environment
(`reference.py env`); nothing that users or CI run needs it. `reference.py COMMAND --help` tells each command's options.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(ROOT, "tests", "golden")


def command_tokenizer(args):
    from oracle import tokens

    tokens.write(args.output)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    sub = commands.add_parser("tokenizer", help="ids of strings, decode cases, special ids")
    sub.add_argument("--output", default=os.path.join(GOLDEN, "tokenizer.json"))
    sub.set_defaults(run=command_tokenizer)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
