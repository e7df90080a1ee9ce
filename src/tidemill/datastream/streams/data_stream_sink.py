"""A stream that has ended in a sink."""

from __future__ import annotations

from tidemill.datastream.program.transformations import Transformation
from tidemill.datastream.streams.operator_settings import OperatorSettings

__all__ = ["DataStreamSink"]


class DataStreamSink(OperatorSettings):
    """The operator of a sink: nothing follows it, but it can be named and given a parallelism."""

    def __init__(self, transformation: Transformation) -> None:
        self.transformation = transformation

    def _operator(self, what: str) -> Transformation:
        return self.transformation
