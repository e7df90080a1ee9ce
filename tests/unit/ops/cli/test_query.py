"""Asking a running job for a key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tests.unit.ops.rest.serving import client_of, environment, options
from tidemill.common import Types
from tidemill.ops.cli.failures import CommandExit


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """A job whose server still answers, and how to reach it."""
    env = environment(options(tmp_path))
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    pairs = env.from_collection([("tea", 1), ("tea", 2), ("7", 3)], pair)
    pairs.key_by(0, Types.STRING()).as_queryable_state("last of all")
    client = env.execute_async("pairs")
    client.get_job_execution_result().result(60)
    with client_of(client) as (asked, _):
        yield str(client.get_job_id()), "--rest", asked.server.url


def test_what_a_state_has_for_a_key(tidemill: Tidemill, job: tuple[str, ...]) -> None:
    job_id, *where = job
    table = tidemill("query", job_id, "last of all", "tea", *where)
    assert table.exit_code == 0, table.stderr
    assert table.stdout.splitlines()[1].split(None, 2)[1:] == ["tea", '["tea", 2]']
    for key in ('"7"', "7"):  # what is no key as a number may be one as text
        found = json.loads(tidemill("query", job_id, "last of all", key, "--json", *where).stdout)
        assert (found["job"], found["name"], found["value"]) == (job_id, "last of all", ["7", 3])


def test_what_is_not_there(tidemill: Tidemill, job: tuple[str, ...]) -> None:
    job_id, *where = job
    for name, key in (("last of all", "milk"), ("last of all", "8"), ("first of all", "tea")):
        assert tidemill("query", job_id, name, key, *where).exit_code == CommandExit.NOT_FOUND
