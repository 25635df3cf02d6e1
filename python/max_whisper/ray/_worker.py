"""max_whisper/ray/_worker.py - what an actor does: takes units of a job, and keeps their rows.

In: places of units in the plan. Out: a small report of each; rows go to the store from here, not through Ray. Some
units at a time: while the last recordings of one end, those of the next fill the batch.
Invariants: rows are kept at least every interval, so that little is lost with the actor; a unit that is begun again
goes on after them. A unit that died twice is done one recording at a time, with nothing beside it, so that a recording
that kills its process is found, and has a row with that error.
"""
from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import Any

from .._types import Progress, Result
from ._job import Job, JobError, key_of
from ._journal import Journal
from ._rows import decode, encode, error_row
from ._store import Store
from ._transcriber import Transcriber

CAREFUL_AFTER = 2        # deaths of a unit before its recordings are done one by one
REPORT_S = 2.0           # how often progress is told


class _Turns:
    """Many units at a time, or a careful one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._n_shared, self._alone = 0, False

    @contextmanager
    def take(self, alone: bool) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not (alone and self._n_shared))
            self._alone = alone
            self._n_shared += not alone
        try:
            yield
        finally:
            with self._changed:
                self._n_shared -= not alone
                self._alone = False
                self._changed.notify_all()


class _Unit:
    """A unit while it is done: which rows there are, and how far the others are."""

    def __init__(self, job: Job, store: Store, number: int) -> None:
        self.job, self.store, self.number = job, store, number
        self.name = f"{job.run}-{number:06d}"
        self.attempt = 1
        self.suspect: str | None = None     # was done alone when the process died
        self.rows: list[dict[str, Any]] = []
        self.done: set[str] = set()         # paths
        self.n_parts = self.n_errors = 0
        self.seconds = 0.0                  # of sound, of the rows
        self.under_way: dict[str, float] = {}
        self.kept = self.told = time.monotonic()

    def begin(self) -> None:
        """Counts the attempt, and takes the rows of those before."""
        self.job.check_run(self.store)
        said = self.store.read_or_none(f"begun/{self.name}")
        if said is not None:
            before = json.loads(said)
            self.attempt = before["attempt"] + 1
            self.suspect = before.get("alone")
            if self.suspect and before.get("windows", 0) < len(self._journal(self.suspect, True).stored()):
                self.suspect = None         # it came further than the time before: it is only long
            while self._take_part(f"parts/{self.name}-{self.n_parts:04d}.{self.job.format}"):
                self.n_parts += 1
        self.mark()

    def _take_part(self, name: str) -> bool:
        if not self.store.exists(name):
            return False
        with self.store.open(name) as stream:
            for row in decode(stream, self.job.format, ("path", "error", "duration")):
                self._count(row)
        return True

    def _count(self, row: dict[str, Any]) -> None:
        self.done.add(row["path"])
        self.n_errors += row["error"] is not None
        self.seconds += row["duration"] or 0.0

    def mark(self, alone: str | None = None) -> None:
        """Says that it was begun; alone: and that this is all that is being done."""
        said: dict[str, Any] = {"attempt": self.attempt}
        if alone is not None:
            said.update(alone=alone, windows=len(self._journal(alone, True).stored()))
        self.store.write(f"begun/{self.name}", json.dumps(said).encode())

    def _journal(self, path: str, look: bool) -> Journal:
        return Journal(self.store, key_of(path), self.job.interval_s, look)

    def journal(self, path: str, started: bool) -> Journal:
        """Of a recording; started: windows of it may be kept."""
        return self._journal(path, started or self.attempt > 1)

    def add(self, row: dict[str, Any]) -> None:
        """A row that is done."""
        self.rows.append(row)
        self.under_way.pop(row["path"], None)
        self._count(row)
        if time.monotonic() - self.kept >= self.job.interval_s:
            self.keep()

    def keep(self) -> None:
        """Puts the rows into the store."""
        if self.rows:
            self.job.check_run(self.store)
            self.store.write(f"parts/{self.name}-{self.n_parts:04d}.{self.job.format}",
                             encode(self.rows, self.job.format))
            self.n_parts += 1
            for row in self.rows:   # a recording with a row needs its windows no more
                if row["windows_resumed"] or (row["seconds"] or 0.0) >= self.job.interval_s:
                    self.store.remove(f"windows/{key_of(row['path'])}")
        self.rows, self.kept = [], time.monotonic()

    def report(self, failure: str | None = None) -> dict[str, Any]:
        """For the driver."""
        return {"unit": self.number, "files": len(self.done), "errors": self.n_errors,
                "seconds": self.seconds + sum(list(self.under_way.values())), "attempt": self.attempt,
                "failure": failure}


class Worker:
    """In each actor. tell: called with a report of a unit from time to time."""

    def __init__(self, job: Job, tell: Callable[[dict[str, Any]], object] | None = None) -> None:
        self._job, self._tell = job, tell
        self._store = Store(job.output)
        self._turns = _Turns()
        self._failure: str | None = None
        try:
            self._transcriber = Transcriber(job.model, device=job.device, precision=job.precision, threads=job.threads,
                                            batch=job.batch, model_dir=job.model_dir, retries=job.retries,
                                            **job.options)
        except Exception as error:   # the driver says it in one line; Ray would say it in a hundred
            self._failure = " ".join(str(error).split()) or type(error).__name__

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Ray's batch of units, as columns; reports as columns."""
        reports = [self.unit(int(number), (int(start), int(end)))
                   for number, start, end in zip(batch["unit"], batch["start"], batch["end"])]
        return {name: [report[name] or "" if name == "failure" else report[name] for report in reports]
                for name in reports[0]}

    def unit(self, number: int, place: tuple[int, int]) -> dict[str, Any]:
        """All recordings of a unit that have no row."""
        unit = _Unit(self._job, self._store, number)
        if self._failure is not None:
            return unit.report(self._failure)
        try:
            unit.begin()
            files = self._job.unit_files(self._store, place)
            with self._turns.take(alone=unit.attempt > CAREFUL_AFTER):
                left = [(path, started) for path, started in files if path not in unit.done]
                if unit.attempt > CAREFUL_AFTER:
                    self._one_by_one(unit, left)
                else:
                    self._together(unit, left)
                unit.keep()
        except (JobError, OSError) as error:   # another run, or a store that takes nothing more
            return unit.report(" ".join(str(error).split()))
        return unit.report()

    def _together(self, unit: _Unit, files: list[tuple[str, bool]]) -> None:
        pool = self._transcriber.pool
        waiting: set[Future[dict[str, Any]]] = {pool.submit(self._row, unit, *file) for file in files}
        try:
            while waiting:
                done, waiting = wait(waiting, REPORT_S, FIRST_COMPLETED)
                for future in done:
                    unit.add(future.result())
                self._report(unit)
        finally:
            for future in waiting:
                future.cancel()

    def _one_by_one(self, unit: _Unit, files: list[tuple[str, bool]]) -> None:
        for path, started in files:
            if path == unit.suspect:
                unit.add(error_row(path, f"the process that transcribed it died, {unit.attempt - 1} times; the last "
                                         "time this was all that it did", model=self._job.model))
                unit.keep()
                continue
            unit.mark(alone=path)
            unit.add(self._row(unit, path, started))
            unit.keep()
            self._report(unit)

    def _row(self, unit: _Unit, path: str, started: bool) -> dict[str, Any]:
        def progress(now: Progress) -> None:
            if now.stage == "text":
                unit.under_way[path] = now.done
        return self._transcriber.row(path, journal=unit.journal(path, started), progress=progress,
                                     deliver=self._deliver if self._job.files else None)

    def _deliver(self, path: str, result: Result) -> None:
        for format in self._job.files:
            self._store.write(self._job.file_name(path, format), result.to(format).encode())

    def _report(self, unit: _Unit) -> None:
        if self._tell is not None and time.monotonic() - unit.told >= REPORT_S:
            unit.told = time.monotonic()
            self._tell(unit.report())
