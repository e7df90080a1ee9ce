"""Tidemill: Apache Flink's stateful stream processing in Python, on Apache Spark.

Programs import :mod:`tidemill.datastream` and :mod:`tidemill.common`, which have PyFlink's names. Below them, from a
program to its results: ``graph`` compiles it, ``runtime`` runs it epoch by epoch on an engine (``spark`` or ``local``),
``state`` and ``checkpoint`` keep what it knows, ``ops`` is how people watch and steer it.
"""

__all__ = ["__version__"]

#: The version of this release. It is written only here: the metadata of the package are made from it.
__version__ = "0.1.0"
