"""`tidemill state`, `checkpoints` and `list`, on the files of a job that has ended."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.unit.ops.cli.conftest import Tidemill
from tests.unit.ops.cli.words import words_job
from tidemill.ops.cli.failures import CommandExit
from tidemill.ops.drivers.records import DriverJob, recorded

STATE = ("counts", "_reduce_state")


def test_states_are_listed_with_kinds_and_types(tidemill: Tidemill, checkpoints: Path) -> None:
    result = tidemill("state", "ls", checkpoints / "words")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "Job words, epoch 3"
    assert "_reduce_state  reducing  key String, value TupleTypeInfo(String, Long)" in result.stdout
    document = json.loads(tidemill("state", "ls", checkpoints / "words", "--json").stdout)
    (counts,) = [one for one in document["operators"] if one["uid"] == "counts"]
    assert (document["job"], document["epoch"], counts["states"][0]["name"]) == ("words", 3, "_reduce_state")


def test_a_job_is_named_by_its_id_where_the_directory_is_configured(tidemill: Tidemill, checkpoints: Path) -> None:
    where = ("-D", f"execution.checkpointing.dir={checkpoints}")
    result = tidemill("state", "get", "words", *STATE, "be", *where, "--json")
    assert json.loads(result.stdout) == {"job": "words", "epoch": 3, "entries": [{"key": "be", "value": ["be", 2]}]}


def test_a_directory_that_only_has_the_name_of_a_job_is_not_meant(
    tidemill: Tidemill, checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "words" / "code").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with recorded("words.py", None) as record:
        record.put(DriverJob("words", "words", str(checkpoints / "words")))
        found = tidemill("state", "ls", "words", "--json")
        assert (found.exit_code, json.loads(found.stdout)["job"]) == (0, "words"), found.stderr
    monkeypatch.chdir(checkpoints)
    assert tidemill("state", "ls", "words").exit_code == 0, "a job's directory is meant, and needs no record"


def test_the_state_of_an_earlier_epoch(tidemill: Tidemill, checkpoints: Path) -> None:
    by_option = tidemill("state", "get", checkpoints / "words", *STATE, "be", "--epoch", "1", "--json")
    by_path = tidemill("state", "get", checkpoints / "words" / "chk-1", *STATE, "be", "--json")
    assert json.loads(by_option.stdout)["entries"] == [{"key": "be", "value": ["be", 1]}]
    assert by_path.stdout == by_option.stdout


def test_a_scan_stops_at_its_limit_and_says_so(tidemill: Tidemill, checkpoints: Path) -> None:
    result = tidemill("state", "scan", checkpoints / "words", *STATE, "--limit", "2", "--json")
    assert len(json.loads(result.stdout)["entries"]) == 2
    assert "more than 2" in result.stderr
    everything = tidemill("state", "scan", checkpoints / "words", *STATE)
    lines = everything.stdout.splitlines()
    assert lines[0].split() == ["key", "value"]
    assert sorted(line.split()[0] for line in lines[1:]) == ["be", "not", "or", "question", "to"]
    assert not any(line.endswith(" ") for line in lines)


def test_what_changed_between_two_epochs(tidemill: Tidemill, checkpoints: Path) -> None:
    arguments = ("state", "diff", checkpoints / "words", *STATE, "--from", "1")
    changes = json.loads(tidemill(*arguments, "--to", "3", "--json").stdout)["changes"]
    told = {change["key"]: (change["change"], change["before"], change["after"]) for change in changes}
    assert told == {
        "to": ("changed", ["to", 1], ["to", 2]),
        "be": ("changed", ["be", 1], ["be", 2]),
        "not": ("added", None, ["not", 1]),
        "question": ("added", None, ["question", 1]),
    }
    assert "nothing changed" in tidemill(*arguments, "--to", "1").stdout


def test_what_differs_between_two_jobs(tidemill: Tidemill, checkpoints: Path, tmp_path: Path) -> None:
    words_job(tmp_path / "other", "shorter", ["to be"])
    result = tidemill(
        *("state", "diff", checkpoints / "words", *STATE, "--from", "1"), "--with", tmp_path / "other", "--json"
    )
    assert [(one["change"], one["key"]) for one in json.loads(result.stdout)["changes"]] == [("removed", "or")]


def test_exported_files_hold_every_entry(tidemill: Tidemill, checkpoints: Path, tmp_path: Path) -> None:
    for form in ("parquet", "csv"):
        result = tidemill("state", "export", checkpoints / "words", *STATE, tmp_path / f"counts.{form}")
        assert result.stdout == f"5 rows of epoch 3 are in {tmp_path}/counts.{form}\n"
    rows = pq.read_table(tmp_path / "counts.parquet").to_pylist()
    with (tmp_path / "counts.csv").open(newline="") as file:
        flat = {row["key"]: json.loads(row["value"]) for row in csv.DictReader(file)}
    assert flat == {row["key"]: row["value"] for row in rows}
    assert flat["to"] == {"f0": "to", "f1": 2}


def test_epochs_that_can_be_read(tidemill: Tidemill, checkpoints: Path) -> None:
    document = json.loads(tidemill("checkpoints", checkpoints / "words", "--json").stdout)
    assert [one["epoch"] for one in document["checkpoints"]] == [1, 2, 3]
    assert document["checkpoints"][-1]["finished"]
    assert document["checkpoints"][0]["path"] == f"{checkpoints}/words/chk-1"
    only_job = tidemill("checkpoints", checkpoints)  # the directory holds one job
    assert f"{checkpoints}/words/chk-3" in only_job.stdout


def test_jobs_are_found_by_their_files(tidemill: Tidemill, checkpoints: Path, tmp_path: Path) -> None:
    words_job(tmp_path / "jobs", "good", ["a"])
    words_job(tmp_path / "jobs", "torn", ["a"])
    for manifest in (tmp_path / "jobs" / "torn" / "manifests").iterdir():
        manifest.write_bytes(b"torn")
    found = json.loads(tidemill("list", tmp_path / "jobs", "--json").stdout)
    assert [(one["id"], one["status"]) for one in found] == [("good", "FINISHED"), ("torn", "DAMAGED")]
    assert "FINISHED" in tidemill("list", checkpoints).stdout
    assert tidemill("list", checkpoints / "words").stdout == tidemill("list", checkpoints).stdout
    assert tidemill("list").stdout == "no jobs found, and no checkpoint directory was specified\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("state", "ls", "/no/such/job"), "/no/such/job does not exist"),
        (("state", "ls", "nowhere"), "execution.checkpointing.dir"),
        (
            ("state", "ls", "{words}", "--epoch", "9"),
            "epoch 9 of job words cannot be read (any more); these can: 0, 1, 2, 3",
        ),
        (("state", "scan", "{words}", "count", "_reduce_state"), "did you mean 'counts'"),
        (("state", "scan", "{words}", "counts", "reduce"), "did you mean '_reduce_state'"),
        (("state", "get", "{words}", *STATE, "nobody"), "has no key 'nobody' in epoch 3"),
        (("checkpoints", "/no/such/job"), "/no/such/job does not exist"),
        (("list", "/no/such/directory"), "/no/such/directory does not exist"),
        (("savepoint", "--dispose", "{words}"), "is not a savepoint: nothing was deleted"),
        (("logs", "nobody"), "no driver on this machine has started a job 'nobody'"),
        (("cancel", "nobody"), "no driver on this machine has started a job 'nobody'"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_what_is_not_there_has_a_code_of_its_own(
    tidemill: Tidemill, checkpoints: Path, arguments: tuple[str, ...], told: str
) -> None:
    result = tidemill(*(argument.format(words=checkpoints / "words") for argument in arguments))
    assert result.exit_code == CommandExit.NOT_FOUND
    assert result.stderr.startswith("error: ")
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("state", "export", "{words}", *STATE, "counts.xls"), ".parquet, .csv or .arrow"),
        (("state", "get", "{words}"), "UID"),
        (("list", "-D", "no-value"), "KEY=VALUE"),
        (("savepoint",), "specify either a job, or -d"),
        (("rescale", "job"), "specify either -p, or -o"),
        (("rescale", "job", "-o", "counts=many"), "UID=N"),
        (("no-such-verb",), "no-such-verb"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_a_usage_error_has_a_code_of_its_own(
    tidemill: Tidemill, checkpoints: Path, arguments: tuple[str, ...], told: str
) -> None:
    result = tidemill(*(argument.format(words=checkpoints / "words") for argument in arguments))
    assert result.exit_code == CommandExit.USAGE
    assert told in result.stderr


def test_an_unknown_setting_is_a_warning_of_one_line(tidemill: Tidemill) -> None:
    result = tidemill("list", "-D", "state.backed.type=rocksdb")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: Unknown configuration key 'state.backed.type'. Did you mean")


def test_an_unknown_setting_is_an_error_if_the_configuration_is_strict(tidemill: Tidemill) -> None:
    result = tidemill("list", "-D", "state.backed.type=rocksdb", "-D", "pipeline.strict-configuration=true")
    assert result.exit_code == 4
    assert result.stderr.startswith("error: Unknown configuration key 'state.backed.type'. Did you mean")
