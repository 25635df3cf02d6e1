#!/usr/bin/env python3
"""examples/python/spark.py MODEL OUT FILE... - recordings as rows of text by Spark, with the class that Ray uses.

Shows: a model opened once in each task, rows through mapInPandas. OUT is a folder of Parquet files. By itself it runs
with Spark on this machine, one task at a time with all cores; on a cluster spark-submit says where, and with how
many cores a task (spark.task.cpus). Needs pyspark, pandas, pyarrow and Java 17.
"""
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from max_whisper.ray import Transcriber

COLUMNS = "path string, text string, language string, duration double, seconds double, error string"


def transcribe(model: str, threads: int) -> Any:
    """What mapInPandas calls in each task: data frames with paths in, data frames with text out."""
    def task(frames: Iterable[Any]) -> Iterator[Any]:
        transcriber = Transcriber(model, threads=threads)
        for frame in frames:
            yield transcriber(frame)[[column.split()[0] for column in COLUMNS.split(", ")]]
    return task


def main() -> int:
    """Exit status 1 if one failed."""
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    from pyspark.sql import SparkSession
    model, out, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    builder = SparkSession.builder.appName("max-whisper")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:   # not by spark-submit
        builder = builder.master("local[1]")
    spark = builder.getOrCreate()
    try:
        cores = int(spark.conf.get("spark.task.cpus", "0") or 0)   # 0: all that the process may use
        # A partition is a task, which opens the model once and is repeated as a whole: many enough to lose little with
        # one, few enough to load seldom.
        n_parts = max(min(len(files) // 64, 1000), 2)
        recordings = spark.createDataFrame([(file,) for file in files], "path string").repartition(n_parts)
        recordings.mapInPandas(transcribe(model, threads=cores), COLUMNS).write.mode("overwrite").parquet(out)
        rows = spark.read.parquet(out).orderBy("path").collect()
    finally:
        spark.stop()
    for row in rows:
        print(f"{row.path}: {row.error or row.text.strip()}")
    return 1 if any(row.error for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
