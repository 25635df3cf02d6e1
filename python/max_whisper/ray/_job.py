"""max_whisper/ray/_job.py - a job in its output folder: what is done, what is left, and rows put together at the end.

OUTPUT has   results.parquet | .jsonl   one row a recording; appears, and is replaced, as a whole
             files/…                    subtitles and other formats, one a recording and format
             job.json                   model and options: a folder holds rows of one kind
and while a job runs, or after it was stopped:
             parts/RUN-UNIT-N.…         rows that are done
             windows/KEY/…              finished windows of recordings that are not
             begun/RUN-UNIT             how often a unit was begun, and what killed it
             plan-RUN.jsonl, run.json   who has which recordings; the run that may write

In: a store, entries. Out: the same, whatever died. Invariants: a recording with a row is not done again; a row without
an error stands before one with; the file of results has each path once.
"""
from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

from .._options import session_options
from . import _rows
from ._manifest import Entry
from ._store import Store, local_path

MOST_UNITS = 50000       # Ray Data keeps a little of each in the driver
UNIT_FILES = 256


class JobError(RuntimeError):
    """The job cannot go on; one line says why."""


def key_of(path: str) -> str:
    """What stands for a path where names of files are short."""
    return hashlib.sha256(path.encode()).hexdigest()[:32]


@dataclass(slots=True)
class Job:
    """What every actor of a job has to know; it travels to them."""

    output: str
    model: str = "tiny.en"
    format: str = "parquet"
    files: list[str] = field(default_factory=list)      # formats written for each recording
    folder: str = ""                                    # of the manifest, if it is one: files/ has the same structure
    device: str = "auto"
    precision: str = "exact"
    model_dir: str | None = None
    threads: int | None = None
    batch: int | None = None
    retries: int = 2
    interval_s: float = 30.0                            # rows and windows are kept at least so often
    options: dict[str, Any] = field(default_factory=dict)
    run: str = ""

    def check(self) -> None:
        """Refuses what can be refused without a model."""
        from .._catalog import formats
        if self.format not in _rows.FORMATS:
            raise JobError(f"output format: {self.format!r} is none of {', '.join(_rows.FORMATS)}")
        known = formats()
        for name in self.files:
            if name not in known:
                raise JobError(f"format: {name!r} is none of {', '.join(known)}")
        try:
            session_options(self.options, "options")
        except TypeError as error:
            raise JobError(str(error)) from None

    @property
    def results(self) -> str:
        """The name of the file of results."""
        return f"results.{self.format}"

    def identity(self) -> dict[str, Any]:
        """What must be the same in every run of a folder."""
        made = {name: value for name, value in asdict(self).items()
                if name in ("model", "format", "files", "folder", "precision", "options")}
        return dict(json.loads(json.dumps(made)))

    # ---- runs ----------------------------------------------------------------------------------------------------

    def begin(self, store: Store) -> None:
        """Takes the folder: runs that are still there may not write to it from now on."""
        said = store.read_or_none("job.json")
        mine = self.identity()
        has_rows = bool(store.names("parts")) or any(store.exists(f"results.{one}") for one in _rows.FORMATS)
        if said is not None and has_rows:
            try:
                theirs = dict(json.loads(said))
            except ValueError:
                raise JobError(f"{self.output}: job.json is not one of max-whisper-ray") from None
            for name, value in mine.items():   # windows carry a fingerprint of their own
                if theirs.get(name) != value:
                    raise JobError(f"{self.output}: made with {name} {theirs.get(name)!r}, not {value!r}: give another "
                                   "folder, or the same options")
        elif has_rows:
            raise JobError(f"{self.output}: has results, but no job.json that says of what")
        else:
            store.write("job.json", json.dumps(mine, ensure_ascii=False, indent=1).encode())
        self.run = uuid.uuid4().hex[:12]
        store.write("run.json", json.dumps({"run": self.run}).encode())

    def check_run(self, store: Store) -> None:
        """Raises if another run has taken the folder."""
        now = store.read_or_none("run.json")
        if now is None or json.loads(now).get("run") != self.run:
            raise JobError(f"{self.output}: another run has taken this folder; this one ends")

    # ---- what is done --------------------------------------------------------------------------------------------

    def sources(self, store: Store) -> list[str]:
        """Files with rows, in the order in which they count."""
        found = [self.results] if store.exists(self.results) else []
        return found + [f"parts/{name}" for name in store.names("parts") if name.endswith("." + self.format)]

    def _heads(self, store: Store, source: str) -> Iterator[tuple[str, bool]]:
        with store.open(source) as stream:
            for row in _rows.decode(stream, self.format, ("path", "error")):
                yield row["path"], row["error"] is not None

    def done(self, store: Store) -> dict[str, bool]:
        """Keys of the recordings that have a row; True: it is an error."""
        known: dict[str, bool] = {}
        for source in self.sources(store):
            for path, failed in self._heads(store, source):
                key = key_of(path)
                known[key] = failed and known.get(key, True)
        return known

    # ---- what is left --------------------------------------------------------------------------------------------

    def write_plan(self, store: Store, units: list[list[Entry]]) -> list[tuple[int, int]]:
        """Who has what; where the line of each unit begins and ends."""
        started = set(store.names("windows"))
        places, at = [], 0
        with store.replacing(f"plan-{self.run}.jsonl") as stream:
            for unit in units:
                files = [[entry.path, 1 if key_of(entry.path) in started else 0] for entry in unit]
                line = json.dumps(files, ensure_ascii=False).encode() + b"\n"
                stream.write(line)
                places.append((at, at + len(line)))
                at += len(line)
        return places

    def unit_files(self, store: Store, place: tuple[int, int]) -> list[tuple[str, bool]]:
        """(path, whether windows of it may be kept) of a unit."""
        line = store.read(f"plan-{self.run}.jsonl", *place)
        return [(path, bool(started)) for path, started in json.loads(line)]

    # ---- names ---------------------------------------------------------------------------------------------------

    def file_name(self, path: str, format: str) -> str:
        """Where a format of a recording lies: the structure of the folder, or the whole path, and the format."""
        inside = path
        if self.folder and path.startswith(self.folder.rstrip("/") + "/"):
            inside = path[len(self.folder.rstrip("/")) + 1:]
        elif local_path(path) is None:
            inside = path.split("://", 1)[1]
        parts = [quote(part, safe=" !#$&'()+,;=@[]{}~") if not _plain(part) else part
                 for part in inside.split("/") if part not in ("", ".")]
        parts = [part if len(part.encode()) <= 200 else f"{part[:80]}-{key_of(part)}" for part in parts]
        return "/".join(["files", *("%2E%2E" if part == ".." else part for part in parts)]) + "." + format

    # ---- the end -------------------------------------------------------------------------------------------------

    def merge(self, store: Store) -> tuple[int, int]:
        """Puts all rows together; (rows, of these errors). Whatever was needed on the way is removed."""
        sources = self.sources(store)
        best: dict[str, tuple[bool, int]] = {}
        for number, source in enumerate(sources):
            for path, failed in self._heads(store, source):
                key = key_of(path)
                if key not in best or best[key][0]:   # of errors the last
                    best[key] = (failed, number)
        self.check_run(store)
        errors = sum(failed for failed, _ in best.values())
        n_rows = len(best)
        if sources != [self.results]:
            with store.replacing(self.results) as stream:
                writer = _rows.Writer(stream, self.format)
                for number, source in enumerate(sources):
                    for row in self._rows_of(store, source):
                        key = key_of(row["path"])
                        if best.get(key) == (row["error"] is not None, number):
                            del best[key]
                            writer.add(row)
                writer.close()
        for name in ("parts", "windows", "begun"):
            store.remove(name)
        for name in store.names(""):
            if re.fullmatch(r"plan-[0-9a-f]+\.jsonl|run\.json", name):
                store.remove(name)
        return n_rows, errors

    def _rows_of(self, store: Store, source: str) -> Iterator[dict[str, Any]]:
        with store.open(source) as stream:
            yield from _rows.decode(stream, self.format)


def _plain(part: str) -> bool:
    return all(character.isprintable() and character not in '<>:"|?*\\%' for character in part)


def units_of(entries: Iterable[Entry], n_actors: int, batch: int) -> list[list[Entry]]:
    """Recordings, longest first, in units that an actor takes at once: long ones few together, for its batch, short
    ones many. A unit is at most a thirty-second of an actor's share of all seconds, an eighth where that fills the
    batch, so that all actors end at about the same time; a recording that is longer is alone."""
    files = list(entries)
    share = sum(entry.seconds or 0.0 for entry in files) / n_actors
    least = max(min(batch, -(-len(files) // (4 * n_actors))), 1)
    most = max(min(UNIT_FILES, len(files) // (32 * n_actors)), least, -(-len(files) // MOST_UNITS))
    smallest = 2 * share * n_actors / MOST_UNITS
    units: list[list[Entry]] = []
    length = 0.0
    for entry in files:
        seconds = entry.seconds or 0.0
        limit = max(share / (32 if units and len(units[-1]) >= least else 8), smallest)
        if not units or len(units[-1]) >= most or length + seconds > limit:
            units.append([])
            length = 0.0
        units[-1].append(entry)
        length += seconds
    return units
