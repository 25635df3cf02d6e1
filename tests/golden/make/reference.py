#!/usr/bin/env python3
"""Golden values from openai-whisper, the reference that max-whisper is measured against.

In: the released weights, speech. Out: small files under tests/golden/data. It runs in a private environment
(`reference.py env`); nothing that users or CI run needs it. `reference.py COMMAND --help` tells each command's options.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
GOLDEN = os.path.join(ROOT, "tests", "golden", "data")
PACKAGES = ["openai-whisper==20250625", "torch", "numpy", "tiktoken"]


def speech_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("MAX_WHISPER_SPEECH") or os.path.join(cache, "max-whisper", "speech")


def command_env(args):
    """The private environment: made if --create names a folder, else only told."""
    lines = [
        f"{sys.executable} -m venv FOLDER",
        "FOLDER/bin/pip install " + " ".join(PACKAGES),
        "FOLDER/bin/python tests/golden/make/reference.py selftest --pt tiny.en.pt --ct2 tiny.en-ct2/model.bin",
    ]
    if not args.create:
        print("The oracle needs ffmpeg and a private Python environment:\n  " + "\n  ".join(lines))
        return
    import subprocess

    subprocess.run([sys.executable, "-m", "venv", args.create], check=True)
    subprocess.run([os.path.join(args.create, "bin", "pip"), "install", *PACKAGES], check=True)


def command_tokenizer(args):
    from oracle import tokens

    tokens.write(args.output)


def command_selftest(args):
    from oracle import models

    models.selftest(args.pt, args.ct2)


def command_samples(args):
    from oracle import clips

    source = clips.Clips(args.data, args.speech)
    clips.pack(source, source.names(), args.output, int(args.megabytes * 1e6))


def model_paths(args):
    pairs = [item.split("=", 1) for item in args.model]
    if any(len(pair) != 2 for pair in pairs):
        raise SystemExit("--model wants NAME=PATH, for example tiny.en=models/tiny.en.pt")
    return pairs


def command_transcribe(args):
    from oracle import clips, run

    clip_arguments = (args.data, args.speech, args.samples)
    names = args.clip or clips.Clips(*clip_arguments).names()
    run.run(model_paths(args), args.mode.split(","), names, clip_arguments, args.output, args.jobs, args.threads)


def command_words(args):
    from oracle import words

    words.write_cases(args.output)


def command_writers(args):
    from oracle import clips, writers

    writers.write(model_paths(args), clips.Clips(args.data, args.speech, args.samples), args.output)


def command_activations(args):
    from oracle import activations, clips

    activations.write(model_paths(args), clips.Clips(args.data, args.speech, args.samples), args.output)


def command_mel(args):
    from oracle import activations, clips

    activations.write_mel(clips.Clips(args.data, args.speech, args.samples), args.output)


def command_features(args):
    import numpy as np
    from oracle import features
    import whisper

    (name, path), = model_paths(args)
    samples = np.rint(whisper.load_audio(args.audio) * 32768).astype(np.int16)
    features.write(name, path, samples, args.output, args.like, args.language)


def add_sources(sub, models=True):
    sub.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data"), help="the development set")
    sub.add_argument("--speech", default=speech_folder(), help="the package speech")
    sub.add_argument("--samples", nargs="*", default=[], help="packed samples, instead of --data, --speech and ffmpeg")
    sub.add_argument("--output", default=GOLDEN)
    if models:
        sub.add_argument(
            "--model", action="append", required=True, metavar="NAME=PATH", help=".pt, model.bin or its folder"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, function, text):
        sub = commands.add_parser(name, help=text)
        sub.set_defaults(run=function)
        return sub

    sub = command("env", command_env, "tells, or with --create makes, the private environment")
    sub.add_argument("--create", metavar="FOLDER")
    sub = command("tokenizer", command_tokenizer, "ids of strings, decode cases, special ids")
    sub.add_argument("--output", default=os.path.join(GOLDEN, "tokenizer.json"))
    sub = command("selftest", command_selftest, "proves the CTranslate2 reader on tiny.en against the .pt")
    sub.add_argument("--pt", required=True)
    sub.add_argument("--ct2", required=True)
    sub = command("samples", command_samples, "packs every clip's samples for a machine without ffmpeg")
    add_sources(sub, models=False)
    sub.add_argument("--megabytes", type=float, default=60, help="of samples in each packed file")
    sub = command("transcribe", command_transcribe, "whole files, per window: tokens, probabilities, margins")
    add_sources(sub)
    modes = "greedy, beam5, options, fallback, words, words-options, align (words of the golden greedy run's windows)"
    sub.add_argument("--mode", default="greedy,beam5", help="of " + modes)
    sub.add_argument("--clip", action="append", help="only these (default: all)")
    sub.add_argument("--jobs", type=int, default=1, help="processes")
    sub.add_argument("--threads", type=int, default=1, help="torch threads of each process")
    sub = command("words", command_words, "made-up paths through splitting, cutting and joining of words")
    sub.add_argument("--output", default=os.path.join(GOLDEN, "words.jsonl"))
    add_sources(command("writers", command_writers, "the library's own txt, srt, vtt, tsv and json files"))
    add_sources(
        command("activations", command_activations, "encoder stages and first logits of three clips, subsampled")
    )
    sub = command("features", command_features, "every stage of a recording's first window as .npz")
    sub.add_argument("audio")
    sub.add_argument("--model", action="append", required=True, metavar="NAME=PATH", help=".pt or model.bin")
    sub.add_argument("--output", required=True, metavar="FILE.npz")
    sub.add_argument("--like", metavar="FILE.npz", help="force the decoder over the tokens of this dump")
    sub.add_argument("--language", default="en")
    add_sources(command("mel", command_mel, "log-mel of three clips, subsampled"), models=False)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
