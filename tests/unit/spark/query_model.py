"""What Spark does with a checkpoint location: a streaming query over files, one in each batch, in plain Python.

It writes what Spark writes, in the same order, and syncs nothing. It trusts what it finds, as Spark does, and fails
where Spark fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tidemill.checkpoint.spark_logs import HEADER_LINES, entry_id, needed
from tidemill.spark.locations.spark_checksums import checksum_of, checksum_path

#: Every so many entries Spark merges its log of files.
COMPACT = 3


class MalformedLogError(Exception):
    """Spark could not make sense of its logs."""


def read_text(path: Path) -> list[str]:
    """The lines of an entry."""
    lines = path.read_text(errors="replace").split("\n")
    if lines[0] != "v1":
        raise MalformedLogError(f"{path} begins with {lines[0]!r}")
    return lines


def seen_files(log: Path) -> dict[int, list[str]]:
    """By number of the entry, the files that a source's log names."""
    names = needed(path.name for path in log.glob("[0-9]*"))
    ids = [entry_id(name) or 0 for name in names]
    if ids and (ids != [*range(ids[0], ids[-1] + 1)] or (ids[0] and not names[0].endswith(".compact"))):
        raise MalformedLogError(f"{log} has the entries {names}")
    found: dict[int, list[str]] = {number: [] for number in ids}
    for name in names:
        for line in read_text(log / name)[1:]:
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise MalformedLogError(f"{log / name}: {line!r}") from error
            found.setdefault(entry["batchId"], []).append(entry["path"])
    return found


def log_offset(offsets: Path) -> int:
    """Where the first source of a batch ends, by an entry of the offset log."""
    try:
        return int(json.loads(read_text(offsets)[HEADER_LINES])["logOffset"])
    except (ValueError, KeyError, IndexError) as error:
        raise MalformedLogError(f"{offsets}: {error!r}") from error


class Query:
    """A query in a location, resumed as Spark resumes one."""

    def __init__(self, location: Path) -> None:
        self._location = location
        self._log = location / "sources" / "0"
        if (location / "metadata").exists():
            json.loads((location / "metadata").read_text())
        else:
            self._write("metadata", '{"id": "query"}')
        batches = [int(path.name) for path in (location / "offsets").glob("[0-9]*")]
        self.batch = max(batches, default=0)
        self.start = self.end = -1
        self.begun = bool(batches)
        if batches:
            self.end = log_offset(location / "offsets" / str(self.batch))
            if self.batch > 0:
                self.start = log_offset(location / "offsets" / str(self.batch - 1))
            commits = [int(path.name) for path in (location / "commits").glob("[0-9]*")]
            for commit in commits:
                json.loads(read_text(location / "commits" / str(commit))[1])
            if self.batch in commits:
                self.start, self.begun = self.end, False
                self.batch += 1

    def step(self, files: list[str], process: Callable[[int, str, list[str]], None]) -> bool:
        """Run one batch: the one that was begun, or one of the next file. False if there is none."""
        log = seen_files(self._log)
        if not self.begun:
            seen = {path for paths in log.values() for path in paths}
            number = max(log, default=-1)
            if new := [path for path in files if path not in seen][:1]:
                number += 1
                self._append(number, new, log)
            elif number <= self.start:
                return False
            self.end, self.begun = number, True
            self._write(f"offsets/{self.batch}", f'v1\n{{"batch":{self.batch}}}\n{{"logOffset":{self.end}}}')
            log = seen_files(self._log)
        if missing := [number for number in range(self.start + 1, self.end + 1) if number not in log]:
            raise MalformedLogError(f"the entries {missing} of {self._log} are missing")
        paths = [path for number in range(self.start + 1, self.end + 1) for path in log[number]]
        process(self.batch, (self._location / "offsets" / str(self.batch)).read_text(), paths)
        self._write(f"commits/{self.batch}", 'v1\n{"nextBatchWatermarkMs":0}')
        self.start, self.begun = self.end, False
        self.batch += 1
        return True

    def _append(self, number: int, paths: list[str], log: dict[int, list[str]]) -> None:
        entries = {number: paths}
        name = str(number)
        if (number + 1) % COMPACT == 0:
            entries, name = {**log, number: paths}, f"{number}.compact"
        lines = [json.dumps({"path": path, "batchId": batch}) for batch, some in entries.items() for path in some]
        self._write(f"sources/0/{name}", "\n".join(["v1", *lines]))
        for path in self._log.glob("[0-9]*"):  # what was merged the last time but one, and before
            if (entry_id(path.name) or 0) < number - 2 * COMPACT:
                path.unlink()
                checksum_path(path).unlink(missing_ok=True)

    def _write(self, name: str, text: str) -> None:
        path = self._location / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for target, data in ((path, text.encode()), (checksum_path(path), checksum_of(text.encode()))):
            hidden = path.with_name(f".{target.name}.tmp")
            hidden.write_bytes(data)
            hidden.rename(target)
