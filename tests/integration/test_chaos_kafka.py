"""A short run of the chaos from Kafka to Kafka: a worker, the broker and the driver are killed.

The long one, with faults drawn from a seed, is ``python -m chaos --job kafka``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.kafka_variant import KafkaVariant
from chaos.run import Plan, Run, lines_of
from tests.thorough import WHEN_THOROUGH

FAULTS = ("kill_worker", "kill_broker", "kill_driver")


@WHEN_THOROUGH
@pytest.mark.timeout(900)
def test_readers_of_committed_results_see_each_once_whatever_is_killed(tmp_path: Path) -> None:
    story: list[str] = []
    plan = Plan(1, 1, tmp_path, FAULTS, KafkaVariant)
    verdict = Run(plan, story.append).run()
    assert verdict.good, "\n".join([*story, *lines_of(verdict, plan)])
    assert verdict.starts == 2
    assert verdict.faults.total() == len(FAULTS)
