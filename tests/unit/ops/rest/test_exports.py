"""A state as a file, over REST: whole or an error, in bounded memory, and nothing is left behind."""

from __future__ import annotations

import csv
import http.client
import io
import json
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.unit.ops.rest.serving import Client, is_running
from tests.waiting import eventually
from tidemill.common.job_client import JobClient
from tidemill.ops.rest.resources import exports

STATE = "state/sums/_reduce_state"


def download(client: Client, path: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_file_has_every_entry_of_one_epoch(client: Client, path: str, temporary: Path) -> None:
    status, headers, content = download(client, f"{path}/{STATE}/export")
    assert (status, headers["content-type"]) == (200, "application/vnd.apache.parquet")
    assert headers["content-length"] == str(len(content))
    epoch = int(headers["x-tidemill-epoch"])
    assert headers["content-disposition"] == f'attachment; filename="sums-_reduce_state-{epoch}.parquet"'
    rows = pq.read_table(io.BytesIO(content)).to_pylist()
    sums = {row["key"]: row["value"] for row in rows}
    assert sorted(sums) == list(range(10))

    status, headers, content = download(client, f"{path}/{STATE}/export?format=csv")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/csv")
    flat = list(csv.DictReader(io.StringIO(content.decode())))
    assert sorted(int(row["key"]) for row in flat) == sorted(sums)
    assert {type(json.loads(row["value"])) for row in flat} <= {dict, list}
    assert eventually(lambda: not list(temporary.iterdir()))


def test_what_is_too_large_is_left_to_the_command_line(
    client: Client, path: str, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    command = f"tidemill state export {path.removeprefix('/jobs/')} sums _reduce_state FILE.csv --epoch"
    for limit, value in (("MOST_SECONDS", -1.0), ("MOST_BYTES", 1)):
        monkeypatch.setattr(exports, limit, value)
        answer = client.get(f"{path}/{STATE}/export?format=csv")
        assert (answer.status, command in answer.errors) == (409, True), answer
    assert not list(temporary.iterdir())


def test_what_is_not_there_is_not_exported(served: tuple[Client, JobClient], path: str) -> None:
    client, job = served
    assert client.get(f"{path}/state/sums/nothing/export").status == 404
    assert client.get(f"{path}/{STATE}/export?epoch=999999999").status == 404
    assert client.get(f"{path}/{STATE}/export?format=pickle").status == 400
    assert is_running(job)
