"""max_whisper/ray/__main__.py - the command max-whisper-ray, and `python -m max_whisper.ray`.

Exit status: 0 all recordings have text; 1 some have an error in their row, or the job could not go on; 2 a wrong
option; 130 interrupted: the same command goes on.
"""
from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
import typing
from typing import Any

from .. import _native
from .._options import DecodeOptions
from ._cluster import Cluster, Summary, run
from ._job import Job, JobError
from ._manifest import ManifestError, _is_folder, read_manifest
from ._needs import MissingPackage
from ._store import absolute

DESCRIPTION = """Transcribes the recordings of a manifest on a Ray cluster, or on this machine, and writes one row for
each. Run again after whatever happened, the same command goes on where it was."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        """One line, with the nearest option there is."""
        words = message.removeprefix("unrecognized arguments: ").split()
        if message.startswith("unrecognized arguments: ") and words[0].startswith("--"):
            near = difflib.get_close_matches(words[0], self._option_string_actions, 1, 0.6)
            message = f"there is no option {words[0]}" + (f"; did you mean {near[0]}?" if near else "")
        print(f"max-whisper-ray: {message}", file=sys.stderr)
        sys.exit(2)


def _number(kind: type, none: bool) -> Any:
    def convert(word: str) -> Any:
        if none and word.lower() == "none":
            return None
        return kind(word)
    convert.__name__ = "number" if kind is float else "whole number"
    return convert


def _language(word: str) -> str | None:
    return None if word.lower() == "none" else word


def _size(word: str) -> int:
    units = {"k": 10, "m": 20, "g": 30, "t": 40}
    scale = units.get(word[-1:].lower(), 0)
    return int(float(word[:-1] if scale else word) * (1 << scale))


def _add_decode_options(parser: argparse.ArgumentParser) -> None:
    """Every option of a transcription under its name in docs/python.md, with - for _."""
    group = parser.add_argument_group("transcription", "as in docs/python.md; what is left out has its default")
    kinds = typing.get_type_hints(DecodeOptions)
    for name in _native.SESSION_OPTIONS:
        if name in ("start_s", "mel_reference", "channel") or name not in kinds:
            continue
        kind, flag = kinds[name], "--" + name.replace("_", "-")
        inner = [one for one in typing.get_args(kind) or (kind,) if one is not type(None)]
        none = type(None) in typing.get_args(kind)
        if kind is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, dest=name)
        elif typing.get_origin(kind) is typing.Literal:
            group.add_argument(flag, choices=typing.get_args(kind), default=argparse.SUPPRESS, dest=name)
        elif inner[0] in (int, float):
            group.add_argument(flag, type=_number(inner[0], none), default=argparse.SUPPRESS, dest=name, metavar="N")
        elif name in ("language", "languages"):
            group.add_argument(flag, type=_language, default=argparse.SUPPRESS, dest=name, metavar="LANGUAGE")
        else:
            group.add_argument(flag, default=argparse.SUPPRESS, dest=name, metavar="TEXT")
    group.add_argument("--channel", type=int, default=argparse.SUPPRESS, metavar="N", help="this channel alone")
    group.add_argument("--track", type=int, default=argparse.SUPPRESS, metavar="N", help="this track of a film")


def _actors(word: str) -> tuple[int, int]:
    first, _, last = word.partition(":")
    least, most = int(first), int(last or 0)
    if least < 1 or (last and most < least):
        raise ValueError
    return least, most


def _positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise ValueError
    return number


for _kind, _what in ((_size, "size"), (_actors, "N or N:MAX"), (_positive, "number above 0")):
    _kind.__name__ = _what   # as argparse says it


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = _Parser(prog="max-whisper-ray", description=DESCRIPTION, allow_abbrev=False,
                   usage="%(prog)s MANIFEST OUTPUT [--address ADDRESS] [--model NAME] [OPTION...]")
    made.add_argument("manifest", metavar="MANIFEST", help="a .parquet or .jsonl file with a column of paths or URLs, "
                      "or a folder of recordings; a path, or a URL that fsspec can open")
    made.add_argument("output", metavar="OUTPUT", help="a folder, which all nodes can write to: a path, or a URL")
    made.add_argument("--column", metavar="NAME", help="the column of paths [path, url, uri, audio_filepath, file, "
                      "audio or filename]")
    made.add_argument("--output-format", choices=("parquet", "jsonl"), default="parquet",
                      help="of the rows: results.parquet or results.jsonl [parquet]")
    made.add_argument("-f", "--format", default="", metavar="LIST", help="also a file for each recording in each of "
                      "these formats: srt,vtt,json,… under OUTPUT/files")
    made.add_argument("--retry-errors", action="store_true", help="do recordings again whose row is an error")
    made.add_argument("-q", "--quiet", action="store_true", help="no progress")
    model = made.add_argument_group("model")
    model.add_argument("--model", default="tiny.en", metavar="NAME", help="a name or path that every node knows "
                       "[tiny.en]")
    model.add_argument("--model-dir", metavar="DIR", help="where models are, on every node")
    model.add_argument("--device", default="auto", help="auto, cpu or cuda [auto]")
    model.add_argument("--precision", choices=("exact", "f16", "int8", "f8"), default="exact", help="[exact]")
    model.add_argument("--batch", type=_positive, metavar="N", help="recordings that an actor computes together [4 on "
                       "a CPU, 32 on a GPU]")
    model.add_argument("--threads", type=_positive, metavar="N", help="threads of an actor [its cores]")
    ray = made.add_argument_group("cluster")
    ray.add_argument("--address", metavar="ADDRESS", help="of a Ray cluster: auto, HOST:PORT, ray://… [Ray is started "
                     "on this machine for the job]")
    ray.add_argument("--actors", type=_actors, default=(0, 0), metavar="N[:MAX]", help="how many; with MAX the pool "
                     "grows with the cluster [as many as fit]")
    ray.add_argument("--cpus", type=_positive, default=0, metavar="N", help="cores of an actor [4; with GPUs, the "
                     "node's cores shared among them]")
    ray.add_argument("--gpus", type=float, default=-1.0, metavar="N", help="GPUs of an actor [1 where there are any]")
    ray.add_argument("--memory", type=_size, default=0, metavar="SIZE", help="that Ray sets aside for an actor, "
                     "such as 4G")
    ray.add_argument("--object-store", type=_size, default=200 << 20, metavar="SIZE", help="of a Ray that is started "
                     "here [200M]")
    ray.add_argument("--keep-every", type=float, default=30.0, metavar="SECONDS", help="rows and finished windows are "
                     "kept at least so often [30]")
    ray.add_argument("--retries", type=int, default=2, metavar="N", help="of a URL that cannot be read [2]")
    _add_decode_options(made)
    return made


def job_of(options: argparse.Namespace) -> tuple[Job, Cluster]:
    """The job and the cluster that the options ask for."""
    names = (*_native.SESSION_OPTIONS, "track")
    decode = {name: value for name, value in vars(options).items() if name in names}
    folder = absolute(options.manifest) if _is_folder(options.manifest) else ""
    formats = [name for name in options.format.split(",") if name]
    job = Job(absolute(options.output), options.model, options.output_format, formats, folder, options.device,
              options.precision, options.model_dir, options.threads, options.batch, options.retries, options.keep_every,
              decode)
    least, most = options.actors
    return job, Cluster(options.address, least, most, options.cpus, options.gpus, options.memory, options.object_store)


def _say(summary: Summary, n_entries: int) -> None:
    failed = f", {summary.n_errors} failed (column error)" if summary.n_errors else ""
    before = f", {summary.n_done_before} of them before" if summary.n_done_before else ""
    speed = f", {summary.seconds / summary.elapsed:.1f} times real time" if summary.seconds else ""
    print(f"{n_entries} recordings{before}{failed}: {summary.seconds / 3600:.2f} h of sound in {summary.elapsed:.1f} s"
          f"{speed}", file=sys.stderr)


def main(words: list[str] | None = None) -> int:
    """The command; its exit status."""
    options = parser().parse_args(words)
    try:
        job, cluster = job_of(options)
        job.check()
        entries = read_manifest(options.manifest, options.column)
        # Ray prints what its daemons say about nodes that die; its own logs have that, and ours is the path.
        with open(os.devnull, "w", encoding="utf-8") as nothing, contextlib.redirect_stdout(nothing):
            summary = run(job, entries, cluster, again=options.retry_errors, progress=not options.quiet)
    except (JobError, ManifestError, MissingPackage) as error:
        print(f"max-whisper-ray: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"max-whisper-ray: {error.filename or options.output}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("max-whisper-ray: interrupted; the same command goes on", file=sys.stderr)
        return 130
    if not options.quiet:
        _say(summary, len(entries))
    print(summary.results)
    return 1 if summary.n_errors else 0


if __name__ == "__main__":
    sys.exit(main())
