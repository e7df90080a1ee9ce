"""The bytes that an epoch writes when a small part of a large state changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bench.jobs import DiscardingSink, keyed_count
from bench.measure import Measurement
from tidemill.common import Configuration
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import StreamExecutionEnvironment

#: Keys touched by every epoch after the first.
TOUCHED = 1_000
EPOCHS = 12


class FewKeysTouched(SplitSource):
    """The first epoch touches all keys once. Each later epoch touches the next few keys in sequence."""

    parallelism = 1

    def __init__(self, held: int, touched: int = TOUCHED, epochs: int = EPOCHS) -> None:
        self.held = held
        self.touched = touched
        self.epochs = epochs

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return _Enumerator(self, position or 0)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        first, count = split.payload
        for start in range(first, first + count, 10_000):
            yield RecordBatch([(key % self.held, 1) for key in range(start, min(start + 10_000, first + count))])


class _Enumerator(SplitEnumerator):
    def __init__(self, source: FewKeysTouched, done: int) -> None:
        self._source = source
        self._done = done

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        keys = self._source.held if self._done == 0 else self._source.touched
        first = self._source.touched * self._done if self._done else 0
        self._done += 1
        return [Split((first, keys), keys)]

    def position(self) -> Position:
        return self._done

    @property
    def finished(self) -> bool:
        return self._done >= self._source.epochs


def measure_state_size(held: int) -> Measurement:
    """Measure the bytes written per epoch with ``held`` keys in state, of which ``TOUCHED`` change."""
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration())
    stream = environment.from_source(FewKeysTouched(held), WatermarkStrategy.no_watermarks(), "few keys")
    keyed_count(stream).sink_to(DiscardingSink())
    client: Any = environment.execute_async("state size")
    client.get_job_execution_result().result()
    later = client.epochs[2:]
    written = sorted(epoch.delta_bytes for epoch in later)[len(later) // 2]
    seconds = sorted(epoch.seconds for epoch in later)[len(later) // 2]
    details = {"keys held": held, "keys touched": TOUCHED, "bytes written": written}
    return Measurement("bytes per epoch", f"{held:,} keys held", 0.0, seconds, details)
