"""How the Java programs of tests are run: a test run starts dozens of them, which live for seconds."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Final

from tests.docs.child_process import run_python

CACHE: Final = Path(__file__).parent.parent / ".cache"


def _archive() -> Path:
    """Where Spark's classes are kept; another file for another Java or another Spark."""
    jars, java = Path(sysconfig.get_path("purelib"), "pyspark", "jars"), Path(shutil.which("java") or "java").resolve()
    known = [f"{place} {place.stat().st_mtime_ns}" for place in (jars, java) if place.exists()]
    return CACHE / f"spark-{hashlib.sha256(' '.join(known).encode()).hexdigest()[:12]}.jsa"


#: Best compiled quickly, and cleaned up after by one thread. It halves what they cost.
QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Spark's classes as Java has them in memory, from a file: a fifth less again. Java says nothing where it is not there.
SPARK_CLASSES: Final = _archive()
QUICK_SPARK: Final = f"{QUICK_JAVA} -XX:SharedArchiveFile={SPARK_CLASSES} -Xlog:disable"

#: How long the file may take to be made. On a machine that is busy with other things the tests rather do without.
_SECONDS: Final = 60
#: Comes by most of what the programs of tests use of Spark, and ends when its Java has ended.
_PROGRAM: Final = """
from pyspark import SparkContext
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.parallelize(range(4), 2).map(lambda n: (n, n)).partitionBy(2).collect()
spark.range(4).selectExpr("id", "string(id) AS name").repartition(2).write.json("in")
rows = spark.readStream.schema("id LONG, name STRING").json("in").writeStream
rows = rows.foreachBatch(lambda batch, _: batch.write.parquet("out")).option("checkpointLocation", "checkpoint")
rows.trigger(availableNow=True).start().awaitTermination()
java = SparkContext._gateway.proc
spark.stop()
SparkContext._gateway.shutdown()
java.communicate()
"""


def keep_classes(folder: Path) -> None:
    """Make the file of Spark's classes, once, in the cache; while one process does so, others do without."""
    if SPARK_CLASSES.exists():
        return
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "spark-classes.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        made = folder / "spark.jsa"
        options = {
            "SPARK_SUBMIT_OPTS": f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={made} -Xlog:disable",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        try:
            run_python("-c", _PROGRAM, folder=folder, environment=options, seconds=_SECONDS)
        except subprocess.TimeoutExpired:
            return
        if made.exists():
            # Whole from the start, for those who look for it meanwhile.
            whole = Path(shutil.move(made, SPARK_CLASSES.with_suffix(".new")))
            whole.replace(SPARK_CLASSES)
