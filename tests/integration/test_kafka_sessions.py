"""A program whose jobs each have a Spark session of their own: the connector is there for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.child_process import run_python
from tests.kafka_broker import KafkaBroker

SECONDS = 150
ROOT = Path(__file__).parents[2]
#: Each job makes a session, reads a topic and stops the session.
PROGRAM = """
import sys
from tests.spark.kafka_jobs import read, reading_at
for topic in sys.argv[2:]:
    print(read(reading_at(sys.argv[1], topic)))
"""


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 30)
def test_the_connector_is_there_for_one_session_after_the_other(kafka: KafkaBroker, tmp_path: Path) -> None:
    for topic in ("first-session", "second-session"):
        kafka.produce(kafka.create_topic(topic), [topic])
    settings = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = ("-c", PROGRAM, kafka.address, "first-session", "second-session")
    result = run_python(*command, folder=tmp_path, environment=settings, seconds=SECONDS)
    assert result.stdout.splitlines() == ["['first-session']", "['second-session']"], result.stderr
