"""max_whisper/ray/_cluster.py - a job on Ray: actors, units handed out by Ray Data, progress, and the end.

In: a job and its entries. Out: a file of results. Through Ray's object store go numbers of units and small reports,
some hundred bytes a unit, whatever the recordings are: its memory is bounded.
Invariants: an actor or a node that dies is Ray's to replace, and its units begin again where their rows end; what no
actor can do (a model that does not open, another run in the same folder) ends the job with one line.
"""
from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ._job import Job, JobError, key_of, units_of
from ._manifest import Entry, longest_first, measure
from ._needs import need
from ._store import Store
from ._transcriber import BATCH_CPU, BATCH_GPU
from ._worker import Worker

CALLS_CPU, CALLS_GPU = 2, 4   # units that an actor has at a time: the next ones fill its batch while one ends
LEAST_STORE = 80 << 20   # Ray refuses less than 75 MiB


@dataclass(slots=True)
class Cluster:
    """How a job uses Ray. Zeros: as the nodes have it."""

    address: str | None = None      # None: Ray on this machine alone, for this job
    actors: int = 0                 # 0: as many as fit
    most_actors: int = 0            # more than actors: the pool grows with an autoscaling cluster
    cpus: int = 0                   # of an actor
    gpus: float = -1.0              # of an actor; -1: 1 where there are GPUs
    memory: int = 0                 # of an actor, in bytes, for Ray's bookkeeping
    object_store: int = 200 << 20   # bytes, of a Ray that is started here


@dataclass(slots=True)
class Summary:
    """How a job ended."""

    n_rows: int
    n_errors: int
    n_done_before: int
    seconds: float          # of sound, in this run
    elapsed: float
    results: str


class _Board:
    """An actor without a core: the last report of each unit."""

    def __init__(self) -> None:
        self._reports: dict[int, dict[str, Any]] = {}

    def tell(self, report: dict[str, Any]) -> None:
        """From a worker."""
        self._reports[report["unit"]] = report

    def totals(self) -> tuple[int, int, float]:
        """Files, errors, seconds."""
        reports = self._reports.values()
        return (sum(one["files"] for one in reports), sum(one["errors"] for one in reports),
                sum(one["seconds"] for one in reports))


class RayWorker(Worker):
    """A worker that tells the board."""

    def __init__(self, job: Job, board: Any) -> None:
        super().__init__(job, lambda report: board.tell.remote(report))


class _Display:
    """Progress on standard error: one line written over in a terminal, else a line a minute."""

    def __init__(self, board: Any, n_files: int, wanted: bool) -> None:
        self._board, self._n_files = board, n_files
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if wanted:
            self._thread.start()

    def _run(self) -> None:
        ray = need("ray", "a cluster")
        terminal = sys.stderr.isatty()
        written = False
        while not self._over.wait(1.0 if terminal else 60.0):
            try:
                files, errors, seconds = ray.get(self._board.totals.remote(), timeout=10)
            except Exception:   # its node died, or Ray is busy: progress is not worth a job
                continue
            elapsed = time.monotonic() - self._begun
            failed = f" ({errors} failed)" if errors else ""
            line = (f"{files} of {self._n_files} recordings{failed}, {seconds / 3600:.2f} h of sound, "
                    f"{seconds / elapsed:.1f} times real time")
            print(f"\r\x1b[K{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)
            written = terminal
        if written:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(15)


# ---- what an actor gets ----------------------------------------------------------------------------------------------

def _cores(nodes: list[dict[str, float]], gpus: float) -> int:
    """Cores of an actor: those of a node shared among its GPUs; without, 4, or what the smallest node has."""
    if gpus:
        return int(max(min(node.get("CPU", 0) * gpus // node["GPU"] for node in nodes), 1))
    return int(min(4, min(node["CPU"] for node in nodes if node.get("CPU", 0) >= 1)))


def fit(cluster: Cluster, job: Job, nodes: list[dict[str, float]]) -> tuple[int, int, float]:
    """(actors, cores of each, GPUs of each) for the resources of the nodes."""
    with_gpus = [node for node in nodes if node.get("GPU", 0) >= 1]
    gpus = cluster.gpus
    if gpus < 0:
        gpus = 0.0 if job.device == "cpu" else 1.0 if with_gpus or job.device != "auto" else 0.0
    usable = [node for node in nodes if node.get("CPU", 0) >= 1 and node.get("GPU", 0) >= gpus]
    if not usable:
        raise JobError(f"no node of the cluster has {gpus:g} GPU and a core for an actor (--device cpu does without "
                       "GPUs)" if gpus else "no node of the cluster has a core")
    cpus = cluster.cpus or _cores(usable, gpus)
    n_actors = int(sum(min(node.get("CPU", 0) // cpus, node["GPU"] // gpus if gpus else 1e9)
                       for node in usable))
    if n_actors < 1:
        raise JobError(f"no node of the cluster has {cpus} cores for an actor (--cpus)")
    return (cluster.actors or n_actors), cpus, gpus


def _knock(address: str) -> None:
    """Whether anybody listens at HOST:PORT: Ray itself would ask for minutes."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), 10).close()
    except OSError as error:
        raise JobError(f"Ray at {address}: {error.strerror or error}") from None


@contextmanager
def _silence() -> Iterator[None]:
    """Without the lines that Ray's core writes to standard error while it starts; what matters is raised."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    level = os.environ.get("RAY_BACKEND_LOG_LEVEL")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
        if level is None:
            del os.environ["RAY_BACKEND_LOG_LEVEL"]


def connect(cluster: Cluster) -> bool:
    """Joins the cluster, or starts Ray here; whether it is this call's to end."""
    ray = need("ray", "a cluster")
    need("ray.data", "a cluster")
    need("fsspec", "a cluster")
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if ray.is_initialized():
        return False
    more: dict[str, Any] = {}
    if cluster.address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")   # nothing is sent anywhere by a job
        more = {"address": "local", "include_dashboard": False,
                "object_store_memory": max(cluster.object_store, LEAST_STORE)}
    else:
        more = {"address": cluster.address}
        _knock(cluster.address)
    try:
        with _silence():
            ray.init(log_to_driver=False, logging_level="ERROR", **more)
    except Exception as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise JobError(f"Ray at {cluster.address or 'this machine'}: {said}") from None
    return True


def run(job: Job, entries: list[Entry], cluster: Cluster, *, again: bool = False, progress: bool = True) -> Summary:
    """The whole job; again: recordings whose row is an error are done once more."""
    job.check()
    mine = connect(cluster)
    try:
        return _run(job, entries, cluster, again, progress)
    finally:
        if mine:
            need("ray", "a cluster").shutdown()


def _run(job: Job, entries: list[Entry], cluster: Cluster, again: bool, progress: bool) -> Summary:
    ray = need("ray", "a cluster")
    begun = time.monotonic()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    n_actors, cpus, gpus = fit(cluster, job, nodes)
    job.threads = cpus if job.threads is None else job.threads
    store = Store(job.output)
    job.begin(store)

    def left_of() -> list[Entry]:
        done = job.done(store)
        return [entry for entry in entries if done.get(key_of(entry.path), True) and
                (again or key_of(entry.path) not in done)]
    left = left_of()
    seconds = 0.0
    if left:
        measure(left)
        units = units_of(longest_first(left), n_actors, job.batch or (BATCH_GPU if gpus else BATCH_CPU))
        seconds = _hand_out(job, units, job.write_plan(store, units), cluster, (n_actors, cpus, gpus), progress)
        missing = len([entry for entry in entries if key_of(entry.path) not in job.done(store)])
        if missing:
            raise JobError(f"{missing} recordings have no row: run the same command again")
    n_rows, n_errors = job.merge(store)
    return Summary(n_rows, n_errors, len(entries) - len(left), seconds, time.monotonic() - begun,
                   f"{store.root.rstrip('/')}/{job.results}")


def _hand_out(job: Job, units: list[list[Entry]], places: list[tuple[int, int]], cluster: Cluster,
              sizes: tuple[int, int, float], progress: bool) -> float:
    """All units through the actors; seconds of sound."""
    ray, data = need("ray", "a cluster"), need("ray.data", "a cluster")
    n_actors, cpus, gpus = sizes
    here = need("ray.util.scheduling_strategies", "a cluster").NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=True)
    board = ray.remote(_Board).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()
    grows = cluster.most_actors > n_actors
    pool: dict[str, Any] = ({"min_size": n_actors, "max_size": cluster.most_actors} if grows else
                            {"size": min(n_actors, len(units))})
    calls = CALLS_GPU if gpus else CALLS_CPU
    rows = [{"unit": number, "start": start, "end": end} for number, (start, end) in enumerate(places)]
    dataset = data.from_items(rows, override_num_blocks=len(rows))
    context = dataset.context
    context.execution_no_progress_timeout_s = -1     # a recording of many hours is no standstill
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    reports = dataset.map_batches(
        RayWorker, fn_constructor_args=(job, board), batch_size=1, num_cpus=cpus, num_gpus=gpus or None,
        memory=cluster.memory or None,
        compute=data.ActorPoolStrategy(max_tasks_in_flight_per_actor=2 * calls if grows else calls,
                                       max_concurrent_calls_per_actor=calls, enable_true_multi_threading=True, **pool))
    display = _Display(board, sum(map(len, units)), progress)
    seconds = 0.0
    try:
        for batch in reports.iter_batches(batch_size=None, prefetch_batches=0):
            for failure, of_unit in zip(batch["failure"], batch["seconds"]):
                if failure:
                    raise JobError(str(failure))
                seconds += float(of_unit)
    except ray.exceptions.RayError as error:
        raise JobError("Ray: " + (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()) from error
    finally:
        display.close()
        ray.kill(board)
    return seconds
