"""Spark's daemon of Python workers, which imports once what each of its workers would: tests start hundreds of them.

Workers are forked, so there must be no other thread by then. Spark itself imports nothing before, to be sure of that.
"""

from __future__ import annotations

import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"

import psutil
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tidemill.spark.jobs.worker  # noqa: F401

if __name__ == "__main__":
    if psutil.Process().num_threads() > 1:  # some library has its own mind here: it is to be as it is without us
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])  # noqa: S606
    manager()
