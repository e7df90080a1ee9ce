"""How a streaming query is started, and what is left of one that cannot be."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, call

import pytest

from tidemill.runtime.driver.job import StopSignal
from tidemill.spark.streams import streaming


def fakes() -> tuple[MagicMock, MagicMock, MagicMock, Any]:
    """Input, job and coordinator of a new job, and what its query is started from."""
    inputs, job, coordinator = MagicMock(), MagicMock(), MagicMock()
    inputs.kafka.named_loss = nullcontext
    inputs.source_numbers = {}
    coordinator.open.return_value = None
    coordinator.lineage = "00000000000000000001-0123456789abcdef"
    coordinator.head = SimpleNamespace(sources={})
    writer: Any = inputs.frame.writeStream.foreachBatch.return_value.option.return_value.queryName.return_value
    writer.trigger.return_value = writer
    writer.start.side_effect = ConnectionError("no query")
    return inputs, job, coordinator, writer


def run(inputs: MagicMock, job: MagicMock, coordinator: MagicMock) -> None:
    with pytest.raises(ConnectionError, match="no query"):
        streaming.run_streaming_job(inputs, job, coordinator, MagicMock(), StopSignal(), MagicMock(), ())


@pytest.fixture(autouse=True)
def new_location(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "take_over", lambda *_, **__: None)


def test_the_sources_beside_a_query_that_cannot_be_started_are_closed() -> None:
    inputs, job, coordinator, _ = fakes()
    job.open_loop.return_value.pause = 0.0
    run(inputs, job, coordinator)
    job.open_loop.return_value.close.assert_called_once()


@pytest.mark.parametrize(("pause", "triggers"), [(0.0, []), (1.5, [call(processingTime="1500 milliseconds")])])
def test_a_query_leaves_as_much_time_between_batches_as_is_configured(pause: float, triggers: list[Any]) -> None:
    inputs, job, coordinator, writer = fakes()
    job.open_loop.return_value.pause = pause
    run(inputs, job, coordinator)
    assert writer.trigger.call_args_list == triggers
