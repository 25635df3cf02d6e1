"""max_whisper/ray/_manifest.py - which recordings a job has, and the longest first.

In: a Parquet file, a file of JSON lines, or a folder; on a disk or by URL. Out: entries, each path once, with an
estimate of its length. Relative paths are relative to the manifest.
"""
from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ._needs import need
from ._store import absolute, local_path, size_of

# Where nothing else is said, the first of these that the manifest has.
PATH_COLUMNS = ("path", "url", "uri", "audio_filepath", "file", "audio", "filename")
DURATION_COLUMNS = ("duration", "duration_s", "seconds")
SIZE_COLUMNS = ("size", "bytes_size", "size_bytes")
# What is taken of a folder; the command line takes the same.
EXTENSIONS = frozenset(
    "3g2 3gp aac ac3 aif aifc aiff amr ape asf au avi caf dts eac3 f4v flac flv g722 gsm m2ts m4a m4b m4v mka mkv mov "
    "mp1 mp2 mp3 mp4 mpeg mpg mts mxf oga ogg ogm ogv opus ra rm snd spx ts tta vob voc w64 wav webm wma wmv "
    "wv".split())
BYTES_PER_SECOND = 16000.0   # 128 kbit/s: what a size stands for beside durations


class ManifestError(ValueError):
    """One line that names the manifest, and the line or column."""


@dataclass(slots=True)
class Entry:
    """A recording. seconds: its length, or an estimate from its size; None: not known yet."""

    path: str
    seconds: float | None = None


def read_manifest(source: str, column: str | None = None) -> list[Entry]:
    """The recordings in their order, each path once."""
    if _is_folder(source):
        if column:
            raise ManifestError(f"{source}: a folder has no column {column!r}")
        found = list(_walk(source))
        if not found:
            raise ManifestError(f"{source}: no recordings in this folder")
        for entry in found:
            if not entry.path.isascii() and entry.path != entry.path.encode("utf-8", "replace").decode():
                raise ManifestError(f"{entry.path!r}: its name is not UTF-8, so no row can have it")
        return found
    ending = source.rsplit(".", 1)[-1].lower()
    if ending in ("parquet", "pq"):
        rows = _parquet_rows(source, column)
    elif ending in ("jsonl", "ndjson", "json"):
        rows = _json_rows(source, column)
    else:
        if not _exists(source):
            raise ManifestError(f"{source}: no such file or folder")
        raise ManifestError(f"{source}: expected a folder, or a file .parquet or .jsonl")
    folder = source.rsplit("/", 1)[0] if "/" in source else "."
    seen: dict[str, Entry] = {}
    for path, seconds in rows:
        whole = absolute(path, absolute(folder))
        seen.setdefault(whole, Entry(whole, seconds))
    if not seen:
        raise ManifestError(f"{source}: no recordings in it")
    return list(seen.values())


# ---- folders ---------------------------------------------------------------------------------------------------------

def _exists(source: str) -> bool:
    here = local_path(source)
    if here is not None:
        return os.path.exists(here)
    system, inside = need("fsspec", source).core.url_to_fs(source)
    return bool(system.exists(inside))


def _is_folder(source: str) -> bool:
    here = local_path(source)
    if here is not None:
        return os.path.isdir(here)
    system, inside = need("fsspec", source).core.url_to_fs(source)
    return bool(system.isdir(inside))


def _is_recording(name: str) -> bool:
    return name.rsplit(".", 1)[-1].lower() in EXTENSIONS and "." in name


def _walk(source: str) -> Iterator[Entry]:
    here = local_path(source)
    if here is None:
        system, inside = need("fsspec", source).core.url_to_fs(source)
        for name, info in sorted(system.find(inside, detail=True).items()):
            if _is_recording(name):
                yield Entry(str(system.unstrip_protocol(name)), (info.get("size") or 0) / BYTES_PER_SECOND)
        return
    for folder, folders, names in os.walk(os.path.abspath(here)):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if _is_recording(name) and os.path.isfile(path):
                yield Entry(path, os.path.getsize(path) / BYTES_PER_SECOND)


# ---- tables ----------------------------------------------------------------------------------------------------------

def _choose(source: str, column: str | None, columns: Iterable[str]) -> str:
    columns = list(columns)
    if column is not None and column in columns:
        return column
    found = next((name for name in PATH_COLUMNS if name in columns), None) if column is None else None
    if found is None:
        wanted = f"no column {column!r}" if column else "no column of paths (--column says which it is)"
        raise ManifestError(f"{source}: {wanted}; it has {', '.join(map(repr, columns)) or 'none'}")
    return found


def _length(row: dict[str, Any], where: str) -> float | None:
    for names, scale in ((DURATION_COLUMNS, 1.0), (SIZE_COLUMNS, 1 / BYTES_PER_SECOND)):
        for name in names:
            value = row.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
                raise ManifestError(f"{where}: {name}: {value!r} is not a length")
            return float(value) * scale
    return None


def _checked(value: Any, where: str, column: str) -> str:
    if not isinstance(value, str) or not value:
        raise ManifestError(f"{where}: {column}: expected a path, not {value!r}")
    return value


def _json_rows(source: str, column: str | None) -> Iterator[tuple[str, float | None]]:
    number, chosen = 0, column
    with _open(source) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            where = f"{source}: line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ManifestError(f"{where}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise ManifestError(f"{where}: expected an object, not {type(row).__name__}")
            if chosen is None or chosen not in row:
                chosen = _choose(where, column, row)
            yield _checked(row[chosen], where, chosen), _length(row, where)


def _parquet_rows(source: str, column: str | None) -> Iterator[tuple[str, float | None]]:
    parquet = need("pyarrow.parquet", f"{source}: a manifest in Parquet")
    with _open(source) as stream:
        try:
            file = parquet.ParquetFile(stream)
        except need("pyarrow", source).ArrowException as error:
            raise ManifestError(f"{source}: not a Parquet file: {str(error).splitlines()[0]}") from None
        names = file.schema_arrow.names
        chosen = _choose(source, column, names)
        wanted = [chosen, *(name for name in (*DURATION_COLUMNS, *SIZE_COLUMNS) if name in names and name != chosen)]
        number = 0
        for batch in file.iter_batches(columns=wanted):
            for row in batch.to_pylist():
                number += 1
                where = f"{source}: row {number}"
                yield _checked(row[chosen], where, chosen), _length(row, where)


def _open(source: str) -> Any:
    here = local_path(source)
    try:
        if here is not None:
            return open(here, "rb")
        return need("fsspec", source).open(source, "rb").open()
    except FileNotFoundError:
        raise ManifestError(f"{source}: no such file") from None
    except OSError as error:
        raise ManifestError(f"{source}: {error.strerror or error}") from None


# ---- order -----------------------------------------------------------------------------------------------------------

def measure(entries: list[Entry], workers: int = 32) -> None:
    """Estimates the length of those that have none from their sizes; one that is not there has 0, and fails early."""
    def ask(entry: Entry) -> None:
        try:
            entry.seconds = size_of(entry.path) / BYTES_PER_SECOND
        except Exception:   # whatever a store raises: the row of this file will say it
            entry.seconds = 0.0
    unknown = [entry for entry in entries if entry.seconds is None]
    if unknown:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(ask, unknown))


def longest_first(entries: Iterable[Entry]) -> list[Entry]:
    """So that the last to end are short; equal ones stay in their order."""
    return sorted(entries, key=lambda entry: -(entry.seconds or 0.0))
