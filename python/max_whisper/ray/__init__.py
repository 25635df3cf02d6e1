"""max_whisper.ray - transcription on a cluster: Ray Data, Spark, or anything that hands out batches of rows.

    recordings.map_batches(max_whisper.ray.Transcriber, fn_constructor_kwargs={"model": "base"}, batch_size=16,
                           compute=ray.data.ActorPoolStrategy(size=8), num_gpus=1)

`max-whisper-ray MANIFEST OUTPUT` is a whole job: docs/cluster.md. Importing this needs none of ray, pyarrow and fsspec;
each is asked for where it is used (`pip install max-whisper[ray]`).
"""
from ._job import Job, JobError
from ._manifest import Entry, read_manifest
from ._rows import arrow_schema
from ._transcriber import Transcriber

__all__ = ["Entry", "Job", "JobError", "Transcriber", "arrow_schema", "read_manifest"]
