"""Tidemill: Apache Flink's stateful stream processing in Python, on Apache Spark.

Programs import :mod:`tidemill.datastream` and :mod:`tidemill.common`, which have PyFlink's names. Below them, from a
program to its results: ``connectors`` has its sources and sinks, ``graph`` compiles it, ``runtime`` runs it epoch by
epoch on an engine (``spark`` or ``local``), ``state`` and ``checkpoint`` store its state, and ``ops`` monitors and
controls jobs. ``state_processor`` reads and writes state without running a job, and ``testing`` has harnesses.

``CONTRIBUTING.md`` shows all packages as a tree, and ``docs/architecture.md`` follows a record through them. Start with
``runtime/driver/epoch_loop.py``.
"""

__all__ = ["__version__"]

#: The version of this release. It is defined only here; the metadata of the package is generated from it.
__version__ = "0.1.0"
