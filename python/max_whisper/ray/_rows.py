"""max_whisper/ray/_rows.py - one row a recording: its shape, and rows as Parquet or JSON lines.

In: a result, or what went wrong. Out: a dictionary with every column; the bytes of a file of rows; rows of such a file.
Invariants: exactly one of text and error is None.
"""
from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from .._errors import Error
from .._types import Result, Segment
from ._needs import need

FORMATS = ("parquet", "jsonl")
COLUMNS = ("path", "text", "language", "language_probability", "duration", "segments", "windows", "windows_resumed",
           "fallbacks", "seconds", "finished", "times", "model", "node", "error")
_SEGMENT = ("id", "start", "end", "text", "tokens", "temperature", "avg_logprob", "compression_ratio", "no_speech_prob",
            "language", "suspicion")
_WORD = ("start", "end", "word", "probability", "suspicion")
_TIMES = ("load_ms", "compile_ms", "audio_ms", "mel_ms", "encode_ms", "decode_ms", "words_ms", "vad_ms", "total_ms")
BATCH = 256          # rows in memory while files are put together


def _segment(segment: Segment) -> dict[str, Any]:
    made = {name: getattr(segment, name) for name in _SEGMENT}
    made["words"] = None if segment.words is None else [{name: getattr(word, name) for name in _WORD}
                                                        for word in segment.words]
    return made


def empty_row(path: str | None) -> dict[str, Any]:
    """All columns; what is not known is None."""
    return {**dict.fromkeys(COLUMNS), "path": path}


def result_row(path: str | None, result: Result, **more: Any) -> dict[str, Any]:
    """A row of a recording that was transcribed."""
    return {**empty_row(path), "text": result.text, "language": result.language,
            "language_probability": result.language_probability, "duration": result.duration,
            "segments": [_segment(segment) for segment in result.segments], "windows": result.n_windows,
            "fallbacks": result.n_temperature_fallbacks, "times": dataclasses.asdict(result.times), **more}


def error_row(path: str | None, error: BaseException | str, **more: Any) -> dict[str, Any]:
    """A row of one that failed; the error is one line."""
    line = " ".join(str(error).split())
    if isinstance(error, BaseException) and not isinstance(error, Error):
        line = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return {**empty_row(path), "error": line, **more}


# ---- Arrow -----------------------------------------------------------------------------------------------------------

def arrow_schema() -> Any:
    """The types of the columns, of pyarrow."""
    pa = need("pyarrow", "rows as Arrow or Parquet")
    word = pa.struct([("start", pa.float64()), ("end", pa.float64()), ("word", pa.string()),
                      ("probability", pa.float64()), ("suspicion", pa.float64())])
    segment = pa.struct([
        ("id", pa.int64()), ("start", pa.float64()), ("end", pa.float64()), ("text", pa.string()),
        ("tokens", pa.list_(pa.int32())), ("temperature", pa.float64()), ("avg_logprob", pa.float64()),
        ("compression_ratio", pa.float64()), ("no_speech_prob", pa.float64()), ("language", pa.string()),
        ("suspicion", pa.float64()), ("words", pa.list_(word))])
    return pa.schema([
        ("path", pa.string()), ("text", pa.string()), ("language", pa.string()),
        ("language_probability", pa.float64()), ("duration", pa.float64()), ("segments", pa.list_(segment)),
        ("windows", pa.int64()), ("windows_resumed", pa.int64()), ("fallbacks", pa.int64()), ("seconds", pa.float64()),
        ("finished", pa.float64()),
        ("times", pa.struct([(name, pa.float64()) for name in _TIMES])), ("model", pa.string()), ("node", pa.string()),
        ("error", pa.string())])


def table(rows: list[dict[str, Any]]) -> Any:
    """Rows as a table of pyarrow."""
    return need("pyarrow", "rows as Arrow or Parquet").Table.from_pylist(rows, arrow_schema())


# ---- files -----------------------------------------------------------------------------------------------------------

class Writer:
    """Rows into one file, a few at a time in memory."""

    def __init__(self, stream: BinaryIO, format: str) -> None:
        self._stream, self._format = stream, format
        self._rows: list[dict[str, Any]] = []
        self._parquet: Any = None
        if format == "parquet":
            parquet = need("pyarrow.parquet", "output in Parquet")
            self._parquet = parquet.ParquetWriter(stream, arrow_schema(), compression="zstd")

    def add(self, row: dict[str, Any]) -> None:
        """One more row."""
        self._rows.append(row)
        if len(self._rows) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._parquet is None:
            for row in self._rows:
                self._stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        elif self._rows:
            self._parquet.write_table(table(self._rows))
        self._rows = []

    def close(self) -> None:
        """The end; the stream stays open."""
        self._flush()
        if self._parquet is not None:
            self._parquet.close()


def encode(rows: Iterable[dict[str, Any]], format: str) -> bytes:
    """The bytes of a file of rows."""
    stream = io.BytesIO()
    writer = Writer(stream, format)
    for row in rows:
        writer.add(row)
    writer.close()
    return stream.getvalue()


def decode(stream: BinaryIO, format: str, columns: tuple[str, ...] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a file, or these columns of them, a few at a time in memory."""
    if format == "jsonl":
        for line in stream:
            row = json.loads(line)
            yield row if columns is None else {name: row.get(name) for name in columns}
        return
    file = need("pyarrow.parquet", "output in Parquet").ParquetFile(stream)
    for batch in file.iter_batches(batch_size=BATCH, columns=None if columns is None else list(columns)):
        yield from batch.to_pylist()
