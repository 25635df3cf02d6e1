"""max_whisper/__main__.py - the command line: `python -m max_whisper`, and the script max-whisper of a wheel.

Becomes the compiled program, so that signals, pipes and the exit status are its own.
"""
import os
import sys

from max_whisper._catalog import command


def main() -> None:
    """Runs the command with this process's words."""
    program = command()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
