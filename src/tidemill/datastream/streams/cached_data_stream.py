"""The result of ``DataStream.cache()``."""

from __future__ import annotations

from tidemill.datastream.streams.data_stream import DataStream

__all__ = ["CachedDataStream"]


class CachedDataStream(DataStream):
    """A stream that later programs of the same environment read again. Each of them computes it again.

    >>> from tidemill.common import Configuration
    >>> from tidemill.datastream import StreamExecutionEnvironment
    >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    >>> env = StreamExecutionEnvironment.get_execution_environment(local)
    >>> cached = env.from_collection([1, 2]).map(lambda n: n + 1).cache()
    >>> list(cached.execute_and_collect()), list(cached.filter(lambda n: n > 2).execute_and_collect())
    ([2, 3], [3])
    """

    def invalidate(self) -> None:
        """Has nothing to do: the records are not stored."""
