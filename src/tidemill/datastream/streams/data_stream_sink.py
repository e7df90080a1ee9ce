"""The sink at the end of a stream."""

from __future__ import annotations

from tidemill.datastream.program.transformations import Transformation
from tidemill.datastream.streams.operator_settings import OperatorSettings

__all__ = ["DataStreamSink"]


class DataStreamSink(OperatorSettings):
    """The operator of a sink. It has no output, but its name, uid, parallelism and other properties can be set."""

    def __init__(self, transformation: Transformation) -> None:
        self.transformation = transformation

    def _operator(self, what: str) -> Transformation:
        return self.transformation
