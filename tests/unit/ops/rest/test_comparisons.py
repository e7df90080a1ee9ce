"""What changed in a state between two epochs, over REST: as the command line shows it, in pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.ops.rest.serving import Client, client_of, environment, options
from tidemill.common import Types
from tidemill.ops.rest.resources import comparisons

STATE = "state/counts/_reduce_state"


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, str]]:
    """A job that has counted words in three epochs, all of which are kept, and is over."""
    more = {"execution.epoch.max-records": "2", "execution.checkpointing.num-retained": "3"}
    env = environment(options(tmp_path_factory.mktemp("words")) | more)
    lines = env.from_collection(["to be", "or", "not", "to", "be", "question"], Types.STRING()).uid("lines")
    pairs = lines.flat_map(str.split).map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
    counts = pairs.key_by(lambda pair: pair[0], Types.STRING()).sum(1).uid("counts")
    counts.filter(lambda pair: False).print()
    job = env.execute_async("words")
    job.get_job_execution_result().result()
    with client_of(job) as found:
        yield found


def told(changes: list[dict[str, Any]]) -> dict[str, tuple[str, Any, Any]]:
    return {change["key"]: (change["change"], change["before"], change["after"]) for change in changes}


ALL = {
    "to": ("changed", ["to", 1], ["to", 2]),
    "be": ("changed", ["be", 1], ["be", 2]),
    "not": ("added", None, ["not", 1]),
    "question": ("added", None, ["question", 1]),
}


def test_what_changed_between_two_epochs(words: tuple[Client, str]) -> None:
    client, path = words
    answer = client.read(f"{path}/{STATE}/diff?from=1&to=3")
    assert (answer["from"], answer["to"], answer["uid"], answer["state"]) == (1, 3, "counts", "_reduce_state")
    assert (told(answer["changes"]), answer["next"]) == (ALL, None)
    assert client.read(f"{path}/{STATE}/diff?from=1") == answer, "the last epoch, if nothing is said"
    assert client.read(f"{path}/{STATE}/diff?from=2&to=2")["changes"] == []
    back = told(client.read(f"{path}/{STATE}/diff?from=3&to=1")["changes"])
    assert back["not"] == ("removed", ["not", 1], None)


@pytest.mark.parametrize(("limit", "chunk"), [(1, 1), (1, 1 << 20), (3, 1), (3, 1 << 20)])
def test_pages_have_every_change_once(
    words: tuple[Client, str], monkeypatch: pytest.MonkeyPatch, limit: int, chunk: int
) -> None:
    client, path = words
    monkeypatch.setattr(comparisons, "_CHUNK", chunk)
    found: list[dict[str, Any]] = []
    page = client.read(f"{path}/{STATE}/diff?from=1&limit={limit}")
    while True:
        assert len(page["changes"]) <= limit
        found += page["changes"]
        if page["next"] is None:
            break
        page = client.read(f"{path}/{STATE}/diff?from=1&limit={limit}&after={page['next']}")
    assert (len(found), told(found)) == (len(ALL), ALL)


def test_a_page_ends_when_it_takes_long(words: tuple[Client, str], monkeypatch: pytest.MonkeyPatch) -> None:
    client, path = words
    monkeypatch.setattr(comparisons, "_CHUNK", 1)
    monkeypatch.setattr(comparisons, "_SECONDS", -1.0)
    assert client.read(f"{path}/{STATE}/diff?from=1")["next"] == "1-3-1-0"


def test_what_needs_much_memory_is_left_to_the_command_line(
    words: tuple[Client, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, path = words
    monkeypatch.setattr(comparisons, "_LARGEST_GROUP", -1)
    answer = client.get(f"{path}/{STATE}/diff?from=1&to=2")
    assert answer.status == 409
    job = path.removeprefix("/jobs/")
    assert f"tidemill state diff {job} counts _reduce_state --from 1 --to 2" in answer.errors


def test_what_is_not_there_is_not_compared(words: tuple[Client, str]) -> None:
    client, path = words
    assert client.get(f"{path}/{STATE}/diff?from=1&to=99").status == 404
    assert client.get(f"{path}/state/counts/nothing/diff?from=1").status == 404
    assert "from" in client.get(f"{path}/{STATE}/diff").errors
    assert client.get(f"{path}/{STATE}/diff?from=1&after=1-2-3").status == 400
    assert client.get(f"{path}/{STATE}/diff?from=1&after=1-99-0-0").status == 404
