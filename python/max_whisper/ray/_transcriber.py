"""max_whisper/ray/_transcriber.py - Transcriber: a callable that turns batches of recordings into rows of text.

One is made in each actor (Ray Data), task (Spark) or process, where it opens the model; it cannot travel. Up to `batch`
recordings are computed together; more than one call may run at a time, and they share the model.
Invariants: a recording that fails is a row with its error; the others of the batch are not harmed.
"""
from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._errors import Error, OutOfMemory
from .._model import Model
from .._options import session_options
from .._types import Progress, Result
from ._journal import Journal
from ._rows import error_row, result_row, table
from ._store import open_recording

# How many at once, unless told: as the command line chooses.
BATCH_CPU, BATCH_GPU = 4, 32


def _actor_cores() -> int:
    """The cores that Ray gave this actor, else 0: all that the process may use. Ray binds no process to cores."""
    ray = sys.modules.get("ray")
    if ray is None or not getattr(ray, "is_initialized", lambda: False)():
        return 0
    try:
        return int(ray.get_runtime_context().get_assigned_resources().get("CPU", 0))
    except Exception:   # a driver has none
        return 0


class Transcriber:
    """For map_batches(Transcriber, fn_constructor_kwargs={...}): a batch of paths in, a row for each out.

    model, device, precision, model_dir: as of max_whisper.Model. threads: None, the actor's cores. batch: recordings
    computed together; None: 4 on a CPU, 32 on a GPU, fewer if memory is short. column: which column has the paths
    or URLs. retries: how often a URL that cannot be read is tried again. All other options are those of
    Model.transcribe.
    """

    def __init__(self, model: str = "tiny.en", *, device: str = "auto", precision: Any = "exact",
                 threads: int | None = None, batch: int | None = None, model_dir: str | None = None,
                 column: str = "path", retries: int = 2, **options: Any) -> None:
        for name in ("progress", "on_window", "resume", "manifest"):
            if name in options:
                raise TypeError(f"Transcriber: {name} is not an option here")
        session_options(options, "Transcriber")
        self._column, self._retries, self._options = column, retries, options
        self._name = model
        self._model = Model(model, device=device, precision=precision, model_dir=model_dir,
                            threads=_actor_cores() if threads is None else threads, batch=batch or 1)
        self.batch = self._reserve(batch)
        self.pool = ThreadPoolExecutor(self.batch, "max-whisper")

    def _reserve(self, batch: int | None) -> int:
        """Memory for the batch; half of it, and so on, where there is not enough. Wrong options are refused here."""
        wanted = batch or (BATCH_CPU if self._model.device == "cpu" else BATCH_GPU)
        decode = {name: value for name, value in self._options.items() if name not in ("rate", "channel", "track")}
        while True:
            try:
                self._model.reserve(wanted, **decode)
                return wanted
            except OutOfMemory:
                if wanted == 1:
                    raise
                wanted //= 2

    # ---- one -----------------------------------------------------------------------------------------------------

    def result(self, audio: Any, journal: Journal | None = None,
               progress: Callable[[Progress], object] | None = None) -> Result:
        """A transcription, which goes on where its journal ends."""
        more: dict[str, Any] = {} if progress is None else {"progress": progress}
        if journal is not None:
            more.update(on_window=journal.add, resume=journal.records())
        try:
            return self._model.transcribe(audio, **self._options, **more).result()
        except Error:
            if journal is None or not journal.refused():
                raise
        journal.clear()   # of another model, recording or version: from the beginning
        more["resume"] = ()
        if hasattr(audio, "seek"):
            audio.seek(0)
        return self._model.transcribe(audio, **self._options, **more).result()

    def row(self, path: str | None, data: bytes | None = None, journal: Journal | None = None,
            progress: Callable[[Progress], object] | None = None,
            deliver: Callable[[str, Result], object] | None = None) -> dict[str, Any]:
        """The row of a recording, whatever happens. data: the file's bytes, if they are at hand. deliver: what else is
        to be done with the result; the row is that of a failure if it fails."""
        begun = time.monotonic()
        known = {"model": self._name, "node": platform.node()}
        for attempt in range(self._retries + 1):
            audio: Any = None
            try:
                audio = data if data is not None else open_recording(path or "")
                result = self.result(audio, journal, progress)
                if deliver is not None and path is not None:
                    deliver(path, result)
                return result_row(path, result, seconds=time.monotonic() - begun, finished=time.time(),
                                  windows_resumed=journal.n_resumed if journal else 0, **known)
            except Exception as error:
                # The library has judged what is in the file, and a local file is as it is; a store may just be busy.
                final = (Error, FileNotFoundError, ImportError, TypeError, ValueError)
                if isinstance(error, final) or not hasattr(audio, "read") or attempt == self._retries:
                    return error_row(path, error, seconds=time.monotonic() - begun, finished=time.time(), **known)
                time.sleep(min(2 ** attempt, 30))
            finally:
                if hasattr(audio, "close"):
                    audio.close()
        raise AssertionError("unreachable")

    # ---- many ----------------------------------------------------------------------------------------------------

    def rows(self, paths: Iterable[str | None], data: Iterable[bytes | None] | None = None) -> list[dict[str, Any]]:
        """Rows in the order of the paths."""
        names = list(paths)
        contents = [None] * len(names) if data is None else list(data)
        return list(self.pool.map(self.row, names, contents))

    def __call__(self, batch: Any) -> Any:
        """A batch of columns (Ray: arrays or an Arrow table; Spark: a data frame) with paths, or with `bytes` of files;
        the same columns and those of the rows come back, as a table, or a data frame for a data frame."""
        framed = hasattr(batch, "columns") and hasattr(batch, "assign")   # pandas
        names = list(batch.column_names if hasattr(batch, "column_names") else
                     batch.columns if framed else batch.keys())
        if self._column not in names and "bytes" not in names:
            raise ValueError(f"Transcriber: no column {self._column!r} in the batch; it has "
                             f"{', '.join(map(repr, names)) or 'none'}")

        def values(name: str) -> list[Any]:
            column = batch[name]
            return list(column.to_pylist() if hasattr(column, "to_pylist") else
                        column.tolist() if hasattr(column, "tolist") else column)
        contents = values("bytes") if "bytes" in names else None
        paths = values(self._column) if self._column in names else [None] * len(contents or ())
        rows = self.rows(paths, contents)
        if framed:
            made = batch.drop(columns=[name for name in names if name == "bytes"])
            return made.assign(**{name: [row[name] for row in rows] for name in rows[0]} if rows else {})
        given = {name: values(name) for name in names if name != "bytes"}
        made = table(rows)
        for name in given:
            if name not in made.column_names:
                import pyarrow as pa
                made = made.append_column(name, pa.array(given[name]))
        return made

    def close(self) -> None:
        """Ends its threads and frees the model."""
        self.pool.shutdown(cancel_futures=True)
        self._model.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Transcriber cannot travel: make one in each actor or task, from its options")

    def __repr__(self) -> str:
        return f"Transcriber({self._name!r}, {self._model.device}, batch={self.batch}, pid {os.getpid()})"
