"""A stream that has ended in a sink."""

from __future__ import annotations

from tidemill.datastream.operator_settings import OperatorSettings
from tidemill.datastream.transformations import Transformation

__all__ = ["DataStreamSink"]


class DataStreamSink(OperatorSettings):
    """The operator of a sink: nothing follows it, but it can be named and given a parallelism."""

    def __init__(self, transformation: Transformation) -> None:
        self.transformation = transformation

    def _operator(self, what: str) -> Transformation:
        return self.transformation
