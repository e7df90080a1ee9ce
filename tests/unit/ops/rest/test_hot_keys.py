"""The hottest keys over REST."""

from __future__ import annotations

from pathlib import Path

from tests.unit.ops.rest.serving import Client, client_of, environment, options
from tidemill.common import Types
from tidemill.common.job_client import JobClient

WORDS = [("tide", 1), ("mill", 1), ("tide", 1), (("a pair", 2), 1), ("tide", 1), (("a pair", 2), 1)]


def start(folder: Path, **more: str) -> JobClient:
    env = environment(options(folder, **more))
    words = env.from_collection(WORDS).uid("words")
    words.key_by(lambda word: word[0], Types.PICKLED_BYTE_ARRAY()).sum(1).uid("count").filter(lambda _: False).print()
    return env.execute_async("words")


def test_they_are_formatted_like_keys_in_state_reads(tmp_path: Path) -> None:
    job = start(tmp_path)
    with client_of(job) as (client, path):
        job.get_job_execution_result().result()
        found = client.read(f"{path}/vertices/count/hot-keys")
        assert found == {
            "keys": [
                {"key": "tide", "text": "tide", "share": 0.5, "records": 3},
                {"key": ["a pair", 2], "text": '["a pair", 2]', "share": 0.3333, "records": 2},
            ],
            "sampled": 6,
        }
        state = client.read(f"{path}/state/count/_reduce_state")["entries"]
        assert [one["key"] for one in found["keys"]] == [
            entry["key"] for entry in sorted(state, key=lambda entry: -entry["value"][1]) if entry["value"][1] > 1
        ]


def test_a_vertex_without_keys_has_none(client: Client, path: str) -> None:
    assert client.read(f"{path}/vertices/sums/hot-keys")["sampled"] > 0
    answer = client.get(f"{path}/vertices/numbers/hot-keys")
    assert answer.status == 404
    assert "its input is not keyed" in answer.errors


def test_a_job_that_does_not_sample_says_so(tmp_path: Path) -> None:
    job = start(tmp_path, metrics_hot__keys_enabled="false")
    with client_of(job) as (client, path):
        answer = client.get(f"{path}/vertices/count/hot-keys")
        assert answer.status == 404
        assert "metrics.hot-keys.enabled is false" in answer.errors
        job.get_job_execution_result().result()
