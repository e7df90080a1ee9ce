"""``tidemill state hot``: which keys are hot, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tests.unit.ops.rest.serving import client_of, environment, options
from tidemill.common import Types

WORDS = ["tide", "mill", "tide", "tide", "mill", "sea"]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """A job that has counted words, as the arguments that name it and the server that knows it."""
    env = environment(options(tmp_path_factory.mktemp("job")))
    words = env.from_collection(WORDS, Types.STRING()).uid("words").map(lambda word: (word, 1)).uid("pairs")
    counts = words.key_by(lambda pair: pair[0], Types.STRING()).sum(1).uid("counts").name("Count")
    counts.filter(lambda _: False).print()
    client = env.execute_async("words")
    with client_of(client) as (rest, _):
        client.get_job_execution_result().result()
        yield str(client.get_job_id()), "-m", rest.server.url


def test_all_operators_with_keys_are_shown(tidemill: Tidemill, job: tuple[str, ...]) -> None:
    result = tidemill("state", "hot", *job)
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["uid", "key", "share", "records", "samples"],
        ["counts", "tide", "50.0%", "3", "6"],
        ["counts", "mill", "33.3%", "2", "6"],
    ]


@pytest.mark.parametrize("operator", ["counts", "Count"])
def test_one_operator_is_named_by_its_uid_or_name(tidemill: Tidemill, job: tuple[str, ...], operator: str) -> None:
    result = tidemill("state", "hot", job[0], operator, *job[1:], "--json")
    (found,) = json.loads(result.stdout)["operators"]
    assert (found["uid"], found["sampled"]) == ("counts", 6)
    assert found["keys"][0] == {"key": "tide", "text": "tide", "share": 0.5, "records": 3}


@pytest.mark.parametrize(
    ("operator", "said"), [("words", "its input is not keyed"), ("nobody", "has no vertex that starts with")]
)
def test_what_has_no_keys_is_not_there(tidemill: Tidemill, job: tuple[str, ...], operator: str, said: str) -> None:
    result = tidemill("state", "hot", job[0], operator, *job[1:])
    assert result.exit_code == 5
    assert said in result.stderr
